// Writes the C++ of all pages as one program: extract ROOT FILE.

#include <cstdio>
#include <exception>

#include "pages.hpp"

int main(int count, char** words) try {
  if (count != 3) throw std::runtime_error("extract: say the project's folder and the file to write");
  std::string program;
  docs::make_program(words[1], program);
  std::ofstream out(words[2], std::ios::binary);
  out << program;
  out.close();
  return out ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
