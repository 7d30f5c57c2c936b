// attend's side of benchmarks/compare, which starts this program and talks to it by lines of JSON.

#include <cstdio>
#include <map>
#include <vector>

#include "parts.hpp"
#include "worker.hpp"

int main(int count, char** values) {
  const std::vector<std::string> words(values + 1, values + count);
  const std::map<std::string, void (*)(compare::Arguments)> parts{{"ceiling", compare::ceiling},
                                                                  {"weights", compare::weights},
                                                                  {"step", compare::step},
                                                                  {"translate", compare::translate},
                                                                  {"products", compare::products}};
  const auto part = words.empty() ? parts.end() : parts.find(words.front());
  if (part == parts.end()) {
    std::fputs("attend_compare is run by benchmarks/compare\n", stderr);
    return 2;
  }
  try {
    part->second(compare::Arguments(words).subspan(1));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "attend_compare: %s\n", e.what());
    return 1;
  }
  return 0;
}
