// Runs the library with fixed seeds and prints a line for each item: its name, how many numbers it has, the FNV-1a hash of their
// bits, the first and the last. README.md says what for.
//
//   bits_processor [--threads N] [--dump FILE [--items FILE]] [PART...]
//
// A part is one of the names below; all if none is given. The dump gets the numbers of all items, or of those that the second
// file names, one a line. Of each: `<name> <type> <count>`, a line end, and the numbers as they lie in memory.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "modules.hpp"
#include "networks.hpp"
#include "notebooks.hpp"
#include "operations.hpp"
#include "searches.hpp"
#include "training.hpp"
#ifndef ATTEND_BITS_CUDA
#include "folders.hpp"
#include "translators.hpp"
#endif

namespace {

#ifdef ATTEND_BITS_CUDA
/// What has kernels of its own in bfloat16.
void bfloat16_parts(bits::Record& record) {
  record.set_prefix("bfloat16/");
  bits::modules<attend::bfloat16>(record);
  bits::tiny<attend::bfloat16>(record);
  bits::searches<attend::bfloat16>(record);
  record.set_prefix("");
}
#endif

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
#ifdef ATTEND_BITS_CUDA
    {"bfloat16", bfloat16_parts},
#else
    {"presets", bits::presets<float>},
    {"folders", bits::folders<float>},
    {"translators", bits::translators},
#endif
};

std::set<std::string> lines_of(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file);
  std::set<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.insert(line);
  return lines;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string dump;
  std::set<std::string> items, wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool more = i + 1 < argc;
    if (argument == "--dump" && more) dump = argv[++i];
    else if (argument == "--items" && more) items = lines_of(argv[++i]);
    else if (argument == "--threads" && more) attend::set_threads(std::stoi(argv[++i]));
    else if (std::any_of(parts.begin(), parts.end(), [&](const Part& part) { return part.name == argument; }))
      wanted.insert(argument);
    else throw std::invalid_argument("there is no part " + argument);
  }
  bits::Record record(dump, items);
  for (const Part& part : parts)
    if (wanted.empty() || wanted.contains(part.name)) part.run(record);
} catch (const std::exception& e) {
  std::fflush(stdout);
  std::fprintf(stderr, "bits: %s\n", e.what());
  return 2;
}
