// Writes the seeds of every target: fuzz_seeds FOLDER makes FOLDER/<target>/seed-0, seed-1, ...

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "input.hpp"
#include "targets.hpp"

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
    return 2;
  }
  try {
    for (const auto& target : fuzz::targets()) {
      const fs::path folder = fs::path(argv[1]) / target.name;
      fs::create_directories(folder);
      int number = 0;
      for (const std::string& seed : target.seeds()) fuzz::put(folder / ("seed-" + std::to_string(number++)), seed);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz_seeds: %s\n", error.what());
    return 1;
  }
  return 0;
}
