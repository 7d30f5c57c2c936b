// Writes docs/options.md: write_options ROOT.

#include <cstdio>
#include <exception>

#include "options.hpp"

int main(int count, char** words) try {
  if (count != 2) throw std::runtime_error("write_options: say the project's folder");
  const std::filesystem::path root = words[1];
  const std::string page = docs::options_page(root);
  std::ofstream out(root / "docs/options.md", std::ios::binary);
  out << page;
  out.close();
  return out ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
