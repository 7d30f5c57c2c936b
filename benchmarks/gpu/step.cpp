// Training steps in bfloat16: loss, backward and Adam, dropout on.

#include <limits>
#include <optional>

#include "../comparison/work.hpp"
#include "attend/cuda.hpp"
#include "attend/optim/adam.hpp"
#include "attend/train/step_runner.hpp"
#include "inputs.hpp"
#include "parts.hpp"
#include "timing.hpp"

using namespace attend;

namespace gpu {

namespace {

using compare::Work;
using Model = nn::Transformer<bfloat16, Cuda>;
using Adam = optim::Adam<bfloat16, Cuda>;
using Variable = Var<bfloat16, Cuda>;
constexpr optim::AdamOptions adam_options{.learning_rate = 1e-5};

/// The sides of a batch of sentences as the model has them: the source with an end token, the target with a begin token.
std::pair<Segments, Segments> segments(const std::vector<Lengths>& batch) {
  std::vector<index_t> source, target;
  for (const auto& [s, t] : batch) source.push_back(s + 1), target.push_back(t + 1);
  return {Segments::ragged(source), Segments::ragged(target)};
}

/// Steps as train::fit takes them, from tokens in the host's memory.
class TransformerSteps {
 public:
  TransformerSteps(const nn::ModelOptions& options, const std::vector<std::vector<Lengths>>& lengths)
      : model_(options), adam_(nn::parameters(model_), adam_options) {
    Words source(options.encoder.vocabulary), target(options.decoder.vocabulary);
    train::EncodedPairs pairs;
    for (const auto& batch : lengths) {
      auto& numbers = batches_.emplace_back();
      for (const auto& [s, t] : batch) {
        numbers.push_back(pairs.size());
        pairs.add(source.sentence(s), target.sentence(t));
      }
      const auto [from, to] = segments(batch);
      Work work;
      work.encoder(options.encoder, from);
      work.decoder(options.decoder, to, from, true);
      work.linear(static_cast<double>(to.rows()), static_cast<double>(options.decoder.d_model),
                  static_cast<double>(options.decoder.vocabulary));
      flops_ += work.flops(), tokens_ += static_cast<double>(to.rows());
    }
    data_.emplace(std::move(pairs), begin_token, end_token,
                  train::BatchOptions{.tokens_per_batch = index_t{1} << 24, .max_length = options.encoder.max_length});
    nn::set_training(model_, true);
  }

  void pass() {
    for (const auto& batch : batches_) {
      adam_.zero_grad();
      loss_ = runner_.run(model_, *data_, batch, {.smoothing = 0.1}, 1);
      adam_.update(adam_options.learning_rate);
    }
  }
  [[nodiscard]] double steps() const { return static_cast<double>(batches_.size()); }
  [[nodiscard]] double flops() const { return flops_ / steps(); }
  [[nodiscard]] double tokens() const { return tokens_ / steps(); }
  /// Of the last step; waits.
  [[nodiscard]] double result() const { return static_cast<double>(loss_.item()); }

 private:
  Model model_;
  Adam adam_;
  std::vector<std::vector<index_t>> batches_;  // numbers of the pairs
  std::optional<train::Batches> data_;
  train::StepRunner<Model> runner_;
  Tensor<float, Cuda> loss_;
  double flops_ = 0, tokens_ = 0;
};

/// Notebook 2: a decoder block that attends to two memories. It ends in vectors, so that their gradient is given.
struct Block {
  static constexpr index_t width = 16;
  nn::StackOptions options = notebook2();
  Segments sentences = Segments::dense(2, 5);
  nn::DecoderLayer<bfloat16, Cuda> block{options};
  Variable x{random_numbers<bfloat16>({sentences.rows(), width})};
  std::vector<nn::Memory<bfloat16, Cuda>> memories{{Variable(random_numbers<bfloat16>({sentences.rows(), width})), sentences},
                                                   {Variable(random_numbers<bfloat16>({sentences.rows(), width})), sentences}};

  [[nodiscard]] std::vector<Variable> parameters() const { return nn::parameters(block); }
  [[nodiscard]] Variable operator()() const { return block(x, sentences, {.memories = memories}); }
  [[nodiscard]] double flops() const {
    auto one_layer = options;
    one_layer.layers = 1;
    Work work;
    work.decoder(one_layer, sentences, sentences, false, false);
    return work.flops();
  }
};

/// Notebook 3: encoder and decoder of vectors. What the decoder may not see is a matrix that is added to its scores.
struct VectorsToVectors {
  nn::StackOptions options = notebook3();
  Segments sentences = Segments::dense(30, 200);
  nn::Encoder<bfloat16, Cuda> encoder{options};
  nn::Decoder<bfloat16, Cuda> decoder{options};
  Variable x{random_numbers<bfloat16>({sentences.rows(), options.d_model})};
  Variable y{random_numbers<bfloat16>({sentences.rows(), options.d_model})};
  Variable mask{later_tokens(sentences.longest())};

  static Tensor<bfloat16, Cuda> later_tokens(index_t length) {
    const Tensor<bfloat16> mask({length, length}, bfloat16(0));
    for (index_t i = 0; i < length; ++i)
      for (index_t j = i + 1; j < length; ++j) mask(i, j) = bfloat16(-std::numeric_limits<float>::infinity());
    return mask.to<Cuda>();
  }
  [[nodiscard]] std::vector<Variable> parameters() const {
    auto all = nn::parameters(encoder);
    for (const auto& p : nn::parameters(decoder)) all.push_back(p);
    return all;
  }
  [[nodiscard]] Variable operator()() const {
    const std::vector<nn::Memory<bfloat16, Cuda>> memories{{encoder(x, sentences), sentences}};
    return decoder(y, sentences, {.memories = memories, .self_bias = mask});
  }
  [[nodiscard]] double flops() const {
    Work work;
    work.encoder(options, sentences);
    work.decoder(options, sentences, sentences, true);
    return work.flops();
  }
};

/// Steps of a network that ends in vectors, recorded and repeated but for the optimizer.
template <class Network>
class VectorSteps {
 public:
  void pass() {
    work_.run([&] {
      adam_.zero_grad();
      const auto y = network_();
      y.backward(dy_);
      copy(Cuda{}, index_t{1}, y.data(), first_.data());
    });
    adam_.update(adam_options.learning_rate);
  }
  [[nodiscard]] double steps() const { return 1; }
  [[nodiscard]] double flops() const { return network_.flops(); }
  [[nodiscard]] double tokens() const { return static_cast<double>(network_.sentences.rows()); }
  [[nodiscard]] double result() const { return static_cast<double>(first_.item()); }

 private:
  Network network_;
  Adam adam_{network_.parameters(), adam_options};
  Tensor<bfloat16, Cuda> dy_ = random_numbers<bfloat16>(network_.x.shape());
  Tensor<bfloat16, Cuda> first_{Shape{1}};
  Repeated<Cuda> work_;
};

template <class Steps>
void measure(Steps& steps, double seconds) {
  const auto pass = [&] { steps.pass(); };
  for (int i = 0; i < 3; ++i) pass();  // the first fills the pools, the second may be captured
  reset_memory();
  serve(Line().add("flops", steps.flops()).add("tokens", steps.tokens()), [&] {
    const double time = host_seconds(seconds, pass) / steps.steps();
    Line line;
    line.add("seconds", time).add("result", steps.result());
    add_memory(line);
    return line;
  });
}

}  // namespace

/// step NETWORK FILE SECONDS. Says {"flops": useful ones of a step, "tokens": target tokens of a step}; a measurement gives
/// {"seconds": of a step, "result": a number of the last step, "peak": bytes}.
void step(Arguments arguments) {
  if (arguments.size() != 3) throw ValueError("step: expected NETWORK FILE SECONDS");
  const std::string& network = arguments[0];
  const double seconds = std::stod(arguments[2]);
  seed(1);
  if (network == "notebook2") {
    VectorSteps<Block> steps;
    measure(steps, seconds);
  } else if (network == "notebook3") {
    VectorSteps<VectorsToVectors> steps;
    measure(steps, seconds);
  } else {
    TransformerSteps steps(transformer_options(network), read_batches(arguments[1]));
    measure(steps, seconds);
  }
}

}  // namespace gpu
