// Training steps of the networks of ../networks.hpp, from weights and batches that come in files.

#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "../networks.hpp"
#include "attend/core/precision.hpp"
#include "attend/io/state.hpp"
#include "attend/optim/adam.hpp"
#include "parts.hpp"
#include "work.hpp"
#include "worker.hpp"

using namespace attend;

namespace compare {

namespace {

/// A network and the data of its steps, whatever they are made of.
template <class T>
struct Training {
  std::vector<nn::NamedTensor<T, Cpu>> state;
  std::vector<Var<T>> parameters;
  std::function<void(const io::SafetensorsFile&)> load;
  std::function<void(bool)> set_training;
  std::function<double(std::size_t, bool)> pass;  ///< forward and backward of a batch; gives the loss if asked to, else 0
  std::vector<double> flops, tokens;              ///< of each batch
};

/// Everything but `pass` and what the batches amount to.
template <class M>
Training<typename M::value_type> training_of(const std::shared_ptr<M>& model) {
  return {.state = nn::state(*model),
          .parameters = nn::parameters(*model),
          .load = [model](const io::SafetensorsFile& file) { io::load_state(*model, file); },
          .set_training = [model](bool on) { nn::set_training(*model, on); },
          .pass = {},
          .flops = {},
          .tokens = {}};
}

/// The tensors of a batch in the file, by their names there.
class BatchFile {
 public:
  explicit BatchFile(const std::string& path) : file_(io::SafetensorsFile::open(path)) {
    while (file_.contains(std::to_string(count_) + ".labels") || file_.contains(std::to_string(count_) + ".dy")) ++count_;
    check_value(count_ > 0, "attend_compare", path + " holds no batch");
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  template <class T>
  [[nodiscard]] Tensor<T> vectors(std::size_t batch, const std::string& name) const {
    const auto x = io::read_tensor<T>(file_, key(batch, name));  // [sentences, length, width]
    return x.reshape({x.dim(0) * x.dim(1), x.dim(2)});
  }
  [[nodiscard]] Segments sentences_of_vectors(std::size_t batch, const std::string& name) const {
    const Shape& shape = file_.info(key(batch, name)).shape;
    return Segments::dense(shape[0], shape[1]);
  }
  [[nodiscard]] Tensor<token_t> tokens(std::size_t batch, const std::string& name) const {
    const auto values = file_.read<token_t>(key(batch, name));
    return Tensor<token_t>({static_cast<index_t>(values.size())}, std::span<const token_t>(values));
  }
  [[nodiscard]] Segments sentences(std::size_t batch, const std::string& name) const {
    const auto values = file_.read<std::int64_t>(key(batch, name));
    return Segments::ragged(std::vector<index_t>(values.begin(), values.end()));
  }

 private:
  static std::string key(std::size_t batch, const std::string& name) { return std::to_string(batch) + "." + name; }
  io::SafetensorsFile file_;
  std::size_t count_ = 0;
};

template <class T>
double dot(const Tensor<T>& x, const Tensor<T>& y) {
  return std::inner_product(x.data(), x.data() + x.size(), y.data(), 0.0);
}

template <class T>
Training<T> transformer(const nn::ModelOptions& options, const BatchFile* data) {
  const auto model = std::make_shared<nn::Transformer<T>>(options);
  auto t = training_of(model);
  if (!data) return t;
  std::vector<nn::Batch<>> batches;
  for (std::size_t i = 0; i < data->count(); ++i) {
    batches.push_back({.source = data->tokens(i, "source"),
                       .source_segments = data->sentences(i, "source_lengths"),
                       .target = data->tokens(i, "target"),
                       .target_segments = data->sentences(i, "target_lengths"),
                       .labels = data->tokens(i, "labels")});
    const auto& batch = batches.back();
    Work work;
    work.encoder(options.encoder, batch.source_segments);
    work.decoder(options.decoder, batch.target_segments, batch.source_segments, true);
    work.linear(static_cast<double>(batch.target.size()), static_cast<double>(options.decoder.d_model),
                static_cast<double>(options.decoder.vocabulary));
    t.flops.push_back(work.flops());
    t.tokens.push_back(static_cast<double>(batch.target.size()));
  }
  t.pass = [model, batches](std::size_t i, bool want_loss) {
    const auto loss = model->loss(batches[i], {.smoothing = 0.1, .ignore_index = 0});
    loss.backward();
    return want_loss ? static_cast<double>(loss.data()[0]) : 0.0;
  };
  return t;
}

/// A decoder block that attends to two memories. Its loss is a weighting of its output, the same in notebook 3.
template <class T>
Training<T> decoder_block(const BatchFile* data) {
  const auto options = notebook2();
  const auto block = std::make_shared<nn::DecoderLayer<T>>(options);
  auto t = training_of(block);
  if (!data) return t;
  struct Inputs {
    Segments sentences;
    Var<T> x;
    std::vector<nn::Memory<T>> memories;
    Tensor<T> dy;
  };
  std::vector<Inputs> batches;
  for (std::size_t i = 0; i < data->count(); ++i) {
    const auto sentences = data->sentences_of_vectors(i, "x");
    batches.push_back({sentences,
                       Var<T>(data->vectors<T>(i, "x")),
                       {{Var<T>(data->vectors<T>(i, "first")), sentences}, {Var<T>(data->vectors<T>(i, "second")), sentences}},
                       data->vectors<T>(i, "dy")});
    auto one_layer = options;
    one_layer.layers = 1;
    Work work;
    work.decoder(one_layer, sentences, sentences, false, false);
    t.flops.push_back(work.flops());
    t.tokens.push_back(static_cast<double>(sentences.rows()));
  }
  t.pass = [block, batches](std::size_t i, bool want_loss) {
    const auto& batch = batches[i];
    const auto y = (*block)(batch.x, batch.sentences, {.memories = batch.memories});
    y.backward(batch.dy);
    return want_loss ? dot(y.value(), batch.dy) : 0.0;
  };
  return t;
}

template <class T>
struct EncoderDecoder {
  using value_type = T;
  using device_type = Cpu;
  nn::Encoder<T> encoder;
  nn::Decoder<T> decoder;
  template <class F>
  void fields(F&& field) {
    field("encoder", encoder);
    field("decoder", decoder);
  }
};

/// Encoder and decoder of vectors. What a decoder may not see comes as a matrix that is added to its scores.
template <class T>
Training<T> encoder_decoder(const BatchFile* data) {
  const auto options = notebook3();
  const auto model = std::make_shared<EncoderDecoder<T>>(EncoderDecoder<T>{nn::Encoder<T>(options), nn::Decoder<T>(options)});
  auto t = training_of(model);
  if (!data) return t;
  struct Inputs {
    Segments sentences;
    Var<T> x, y;
    Tensor<T> dy;
  };
  std::vector<Inputs> batches;
  for (std::size_t i = 0; i < data->count(); ++i) {
    const auto sentences = data->sentences_of_vectors(i, "x");
    batches.push_back({sentences, Var<T>(data->vectors<T>(i, "x")), Var<T>(data->vectors<T>(i, "y")), data->vectors<T>(i, "dy")});
    Work work;
    work.encoder(options, sentences);
    work.decoder(options, sentences, sentences, true);
    t.flops.push_back(work.flops());
    t.tokens.push_back(static_cast<double>(sentences.rows()));
  }
  const index_t length = batches.front().sentences.longest();
  const Tensor<T> mask({length, length}, T(0));
  for (index_t i = 0; i < length; ++i)
    for (index_t j = i + 1; j < length; ++j) mask(i, j) = -std::numeric_limits<T>::infinity();
  t.pass = [model, batches, mask](std::size_t i, bool want_loss) {
    const auto& batch = batches[i];
    const std::vector<nn::Memory<T>> memories{{model->encoder(batch.x, batch.sentences), batch.sentences}};
    const auto y = model->decoder(batch.y, batch.sentences, {.memories = memories, .self_bias = Var<T>(mask)});
    y.backward(batch.dy);
    return want_loss ? dot(y.value(), batch.dy) : 0.0;
  };
  return t;
}

/// `data` null: the network alone.
template <class T>
Training<T> training(const std::string& network, const BatchFile* data) {
  if (network == "notebook0") return transformer<T>(notebook0(), data);
  if (network == "notebook1") return transformer<T>(notebook1(), data);
  if (network == "notebook2") return decoder_block<T>(data);
  if (network == "notebook3") return encoder_decoder<T>(data);
  if (network == "notebook4") return transformer<T>(notebook4(), data);
  if (network == "tiny") return transformer<T>(tiny(), data);
  if (network == "base") return transformer<T>(base(), data);
  throw ValueError("attend_compare: no network is called " + network);
}

double mean(const std::vector<double>& x) { return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size()); }

template <class T>
void write_gradients(const Training<T>& t, const std::string& path) {
  io::SafetensorsWriter writer;
  for (const auto& p : t.state) io::add_tensor(writer, p.name, p.grad());
  writer.write(path);
}

}  // namespace

/// weights NETWORK FILE. Biases and gains are moved away from 0 and 1, where a mistake could hide.
void weights(Arguments arguments) {
  if (arguments.size() != 2) throw ValueError("attend_compare weights: expected NETWORK FILE");
  seed(1);
  const auto t = training<float>(arguments[0], nullptr);
  io::SafetensorsWriter writer;
  for (const auto& p : t.state) {
    if (p.value.rank() == 1) {
      const auto random = default_generator().next();
      for (index_t i = 0; i < p.value.size(); ++i)
        p.value.data()[i] += static_cast<float>(0.1 * random.normal(static_cast<std::uint64_t>(i)));
    }
    io::add_tensor(writer, p.name, p.value);
  }
  writer.write(arguments[1]);
}

namespace {

/// Answers what is asked of one network in one type, its products in one precision.
template <class T>
void serve_steps(const std::string& network, const std::string& weights, const std::string& file,
                 Precision precision = Precision::full) {
  const MatmulPrecision products(precision);
  const double idle = resident("VmRSS:");
  seed(1);
  const BatchFile data(file);
  const auto t = training<T>(network, &data);
  t.load(io::SafetensorsFile::open(weights));
  optim::Adam<T> adam(t.parameters, {.learning_rate = 1e-5});
  const auto steps = [&] {  // one with each batch
    for (std::size_t i = 0; i < data.count(); ++i) {
      adam.zero_grad();
      t.pass(i, false);
      adam.step();
    }
  };
  serve({{"flops", mean(t.flops)}, {"tokens", mean(t.tokens)}}, [&](const Json& request) -> Json {
    const std::string what = request.at("do");
    if (what == "gradients") {
      t.set_training(false);
      adam.zero_grad();
      const double loss = t.pass(request.at("batch"), true);
      write_gradients(t, request.at("out"));
      t.set_training(true);
      return {{"loss", loss}};
    }
    if (what == "warm") {
      steps();
      return Json::object();
    }
    if (what == "time") {
      const Stopwatch watch;
      double passes = 0;
      do {
        steps();
        ++passes;
      } while (watch.real() < request.at("seconds").get<double>());
      return watch.per(passes * static_cast<double>(data.count()));
    }
    if (what == "memory") return {{"idle", idle}, {"peak", resident("VmHWM:")}};
    unknown(request);
  });
}

}  // namespace

/// step NETWORK WEIGHTS BATCHES float|bf16|double. bf16: floats, with products in bfloat16.
void step(Arguments arguments) {
  if (arguments.size() != 4) throw ValueError("attend_compare step: expected NETWORK WEIGHTS BATCHES float|bf16|double");
  if (arguments[3] == "float") serve_steps<float>(arguments[0], arguments[1], arguments[2]);
  else if (arguments[3] == "bf16") serve_steps<float>(arguments[0], arguments[1], arguments[2], Precision::bf16);
  else if (arguments[3] == "double") serve_steps<double>(arguments[0], arguments[1], arguments[2]);
  else throw ValueError("attend_compare step: no precision is called " + arguments[3]);
}

}  // namespace compare
