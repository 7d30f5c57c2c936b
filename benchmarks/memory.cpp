#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>

#include "attend/decode/beam.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/io/model.hpp"
#include "comparison/worker.hpp"

/// What loading a model takes, and translating with it: seconds, memory, and a number that tells translations from others.
///
///     attend_memory make FOLDER                               writes the paper's base model with 37,000 tokens, drawn at random
///     attend_memory load|float32|bf16|int8 FOLDER [read]      read: without mapping
namespace {

using namespace attend;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void say(const char* when, double took) {
  constexpr double mebibyte = 1 << 20;
  std::printf("%-10s %7.3f s, resident %6.1f MiB (%.1f of files), peak %6.1f MiB\n", when, took,
              compare::resident("VmRSS:") / mebibyte, compare::resident("RssFile:") / mebibyte,
              compare::resident("VmHWM:") / mebibyte);
}

/// FNV-1a.
void add(std::uint64_t& hash, std::uint64_t number) { hash = (hash ^ number) * 1099511628211u; }

/// Four beam searches for four random sentences each.
std::uint64_t translate(const nn::Transformer<float>& model, Precision precision) {
  const decode::TransformerModel<float> search(model, precision);
  const index_t vocabulary = search.vocabulary();
  const auto segments = Segments::ragged({20, 17, 5, 24});
  const Tensor<token_t> tokens({segments.rows()});
  std::uint64_t hash = 1469598103934665603u;
  for (int round = 0; round < 4; ++round) {
    const double begin = seconds();
    for (index_t i = 0; i < tokens.size(); ++i)
      tokens(i) = static_cast<token_t>(4 + philox(7, static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(i))[0] %
                                               static_cast<std::uint32_t>(vocabulary - 4));
    auto state = search.begin(tokens, segments);
    const auto found = decode::beam_search(search, state, segments.count(), {.max_length = 30, .beam = 4});
    for (std::size_t s = 0; s < found.size(); ++s)
      for (const auto& hypothesis : found[s]) {
        for (const token_t token : hypothesis.tokens) add(hash, static_cast<std::uint64_t>(token));
        std::uint64_t bits = 0;
        std::memcpy(&bits, &hypothesis.log_probability, sizeof bits);
        add(hash, bits);
      }
    say(round == 0 ? "first" : "again", seconds() - begin);
  }
  return hash;
}

int run(const std::string_view what, const std::string& folder, bool read) {
  if (what == "make") {
    seed(1);
    const nn::Transformer<float> model(nn::TransformerOptions{
        .vocabulary = 37000, .d_model = 512, .heads = 8, .d_ff = 2048, .layers = 6, .share_embeddings = true, .tie_head = true});
    io::save(folder, model);
    std::printf("%lld parameters\n", static_cast<long long>(nn::parameter_count(model)));
    return 0;
  }
  const io::MapFrom from(read ? io::MapFrom::never : io::MapFrom::current());
  say("start", 0);
  const double begin = seconds();
  const auto model = io::load_model<float>(folder);
  say("loaded", seconds() - begin);
  if (what == "load") return 0;
  const Precision precision = what == "int8" ? Precision::int8 : what == "bf16" ? Precision::bf16 : Precision::full;
  std::printf("translations %016llx\n", static_cast<unsigned long long>(translate(model, precision)));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "attend_memory make|load|float32|bf16|int8 FOLDER [read]\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], argc > 3 && std::string_view(argv[3]) == "read");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attend_memory: %s\n", error.what());
    return 1;
  }
}
