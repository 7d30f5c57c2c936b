// attend's side of compare_gpu.py, which starts this program and reads what it prints: JSON, a line at a time.

#include <cstdio>
#include <exception>
#include <map>
#include <vector>

#include "parts.hpp"

namespace {

constexpr const char* usage = R"(attend_gpu_benchmark PART ...: measures attend on a GPU; a line of JSON for each result
  ceilings [small]                       copies and products
  step NETWORK FILE SECONDS              training steps; FILE: a batch a line, SOURCE TARGET SOURCE TARGET ... lengths
  decode NETWORK FILE LENGTH BEAM        LENGTH tokens for each source; beam 1 is greedy search
  kernels [small] [NAME]                 each kernel whose name holds NAME, or all
networks: base, big, notebook0 to notebook4, small. All but kernels print a line when ready, and then one more measurement for
each line of standard input.
)";

}  // namespace

int main(int count, char** values) {
  const std::vector<std::string> words(values + 1, values + count);
  const std::map<std::string, void (*)(gpu::Arguments)> parts{
      {"ceilings", gpu::ceilings}, {"step", gpu::step}, {"decode", gpu::decode}, {"kernels", gpu::kernels}};
  const auto part = words.empty() ? parts.end() : parts.find(words.front());
  if (part == parts.end()) {
    std::fputs(usage, stderr);
    return 2;
  }
  try {
    part->second(gpu::Arguments(words).subspan(1));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "attend_gpu_benchmark: %s\n", e.what());
    return 1;
  }
  return 0;
}
