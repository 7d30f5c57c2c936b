// Runs the library with fixed seeds and prints a line for each item: its name, how many numbers it has, the FNV-1a hash of their
// bits, the first and the last. README.md says what for.
//
//   bits [--threads N] [--dump FILE] [PART...]
//
// A part is one of the names below; all where none is given.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "folders.hpp"
#include "modules.hpp"
#include "networks.hpp"
#include "notebooks.hpp"
#include "operations.hpp"
#include "searches.hpp"
#include "training.hpp"
#ifndef ATTEND_BITS_CUDA
#include "translators.hpp"
#endif

namespace {

struct Part {
  const char* name;
  void (*run)(bits::Record&);
};

const std::vector<Part> parts{
    {"operations", bits::operations<float>},
    {"modules", bits::modules<float>},
    {"notebooks", bits::notebooks<float>},
    {"options", bits::options<float>},
    {"tiny", bits::tiny<float>},
    {"optimizers", bits::optimizers<float>},
    {"language_model", bits::language_model<float>},
    {"searches", bits::searches<float>},
#ifndef ATTEND_BITS_CUDA
    {"presets", bits::presets<float>},
    {"folders", bits::folders<float>},
    {"translators", bits::translators},
#endif
};

}  // namespace

int main(int argc, char** argv) try {
  std::string dump;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--dump" && i + 1 < argc) {
      dump = argv[++i];
    } else if (argument == "--threads" && i + 1 < argc) {
      attend::set_threads(std::stoi(argv[++i]));
    } else {
      const auto known = std::any_of(parts.begin(), parts.end(), [&](const Part& part) { return part.name == argument; });
      if (!known) throw std::invalid_argument("there is no part " + argument);
      wanted.push_back(argument);
    }
  }
  bits::Record record(dump);
  for (const Part& part : parts)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), part.name) != wanted.end()) part.run(record);
} catch (const std::exception& e) {
  std::fflush(stdout);
  std::fprintf(stderr, "bits: %s\n", e.what());
  return 2;
}
