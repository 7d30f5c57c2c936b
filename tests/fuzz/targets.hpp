#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// The fuzz targets: what a fuzzer calls with bytes of its own making, and tests with those of the corpus. README.md says what
/// each one does with them.
///
/// A target returns if the reader took the bytes, or refused them by an exception that it documents. All else is a fault:
/// another exception (std::bad_alloc from a size that nobody checked among them), a broken promise (std::logic_error), a
/// sanitizer's report, a crash, a hang.

/// X(name) for each target: the function `fuzz::name`, the program `fuzz_name`, the folder `corpus/name`. CMake reads this list.
#define ATTEND_FUZZ_TARGETS(X) \
  X(json)                      \
  X(safetensors)               \
  X(torch_file)                \
  X(model_state)               \
  X(quantized_model)           \
  X(torch_model)               \
  X(config)                    \
  X(search)                    \
  X(shortlist)                 \
  X(pair_file)                 \
  X(schedule)                  \
  X(pending_folder)            \
  X(training_state)            \
  X(pretrained_config)         \
  X(pretrained_model)          \
  X(adapters)                  \
  X(marian_config)             \
  X(generation_config)         \
  X(marian_tokenizer)          \
  X(marian_model)              \
  X(pretrained_tokenizer)      \
  X(sentencepiece)             \
  X(text)                      \
  X(corpus_tsv)                \
  X(corpus_aligned)            \
  X(kernels)                   \
  X(batch)

/// The same for those that need the program `translate`.
#define ATTEND_FUZZ_PROGRAM_TARGETS(X) \
  X(command_line)                      \
  X(command_options)                   \
  X(train_settings)

namespace fuzz {

/// What a fuzzer made.
using Bytes = std::span<const std::uint8_t>;

/// name: the target; always 0, as libFuzzer wants it. name_seeds: inputs to begin with, which the reader takes.
#define ATTEND_FUZZ_DECLARE(name) \
  int name(Bytes bytes);          \
  std::vector<std::string> name##_seeds();
ATTEND_FUZZ_TARGETS(ATTEND_FUZZ_DECLARE)
ATTEND_FUZZ_PROGRAM_TARGETS(ATTEND_FUZZ_DECLARE)
#undef ATTEND_FUZZ_DECLARE

/// A target, its name, its seeds.
struct Target {
  const char* name;
  int (*run)(Bytes);
  std::vector<std::string> (*seeds)();
};

/// All of them; those of the program if it is there.
inline std::vector<Target> targets() {
#define ATTEND_FUZZ_ROW(name) {#name, &name, &name##_seeds},
  return {
    ATTEND_FUZZ_TARGETS(ATTEND_FUZZ_ROW)
#if defined(ATTEND_FUZZ_PROGRAM)
    ATTEND_FUZZ_PROGRAM_TARGETS(ATTEND_FUZZ_ROW)
#endif
  };
#undef ATTEND_FUZZ_ROW
}

}  // namespace fuzz
