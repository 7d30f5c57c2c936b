// Targets of models: weights into a model that is there, PyTorch's weights, model folders, training states.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attend/compiled.hpp"
#include "attend/core/random.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/io/config.hpp"
#include "attend/io/model.hpp"
#include "attend/io/safetensors_writer.hpp"
#include "attend/io/state.hpp"
#include "attend/io/torch.hpp"
#include "attend/nn/embedding.hpp"
#include "attend/nn/linear.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/optim/adam.hpp"
#include "attend/train/checkpoint.hpp"
#include "attend/translate/search_file.hpp"
#include "input.hpp"
#include "models.hpp"

using namespace attend;
namespace fs = std::filesystem;

namespace fuzz {

namespace {

/// The numbers of a model, tensor by tensor.
template <class M>
std::vector<std::vector<float>> numbers(const M& model) {
  std::vector<std::vector<float>> all;
  for (const auto& t : nn::state(model)) all.push_back(t.value.values());
  return all;
}
template <class M>
void restore(const M& model, const std::vector<std::vector<float>>& all) {
  std::size_t i = 0;
  for (const auto& t : nn::state(model)) {
    std::copy(all[i].begin(), all[i].end(), t.value.data());
    ++i;
  }
}

nn::ModelOptions small_options() {
  return nn::model_options({.vocabulary = 5,
                            .d_model = 4,
                            .heads = 2,
                            .d_ff = 3,
                            .layers = 1,
                            .max_length = 6,
                            .share_embeddings = true,
                            .tie_head = true});
}
const nn::Transformer<float>& small_model() {
  static const auto model = [] {
    attend::seed(1);
    return nn::Transformer<float>(small_options());
  }();
  return model;
}

/// What `writer` writes, as bytes.
std::string file_of(const io::SafetensorsWriter& writer) {
  const fs::path path = scratch() / "seed.safetensors";
  writer.write(path);
  return io::read_file(path);
}

/// One step of a model, to see that what was loaded holds together. Numbers may be anything.
void run(const nn::Transformer<float>& model) {
  const NoGrad no_grad;
  const Tensor<token_t> token({1}, token_t{0});
  const auto one = Segments::ragged({1});
  const auto y = model({token, one, token, one, token});
  expect(y.shape() == Shape{1, model.options.decoder.vocabulary}, "a model gives a number for each token");
}

/// A model folder with the weights of the small model and no configuration.
const fs::path& own_folder() {
  static const fs::path folder = [] {
    const fs::path path = scratch() / "own";
    io::save(path, small_model());
    return path;
  }();
  return folder;
}

/// What a training state is read over: an embedding and a head.
struct Tiny {
  using value_type = float;
  using device_type = Cpu;
  nn::Embedding<float> embedding{3, 2};
  nn::Linear<float> head{2, 3};
  template <class F>
  void fields(F&& field) {
    field("embedding", embedding);
    field("head", head);
  }
};

/// A run that is under way.
struct Run {
  Tiny model;
  optim::Adam<float> adam{optim::FlatParameters<float>(nn::parameters(model)), {}};
  train::RunIdentity identity{{"corpus", "a"}, {"seed", "1"}};

  train::TrainingState read(const fs::path& path) {
    auto memory = adam.state();
    const auto state = train::read_training_state(path, identity, model, memory, "layout");
    adam.restore(memory);
    return state;
  }
  void write(const fs::path& path, const train::TrainingState& state) const {
    train::write_training_state(path, state, identity, model, adam.state(), "layout");
  }
  [[nodiscard]] std::vector<std::vector<float>> all_numbers() const {
    auto all = numbers(model);
    for (const auto& entry : adam.state().entries) all.push_back(entry.values.values());
    return all;
  }
};

train::TrainingState some_state() {
  train::TrainingState state{.step = 20, .epoch = 1, .position = 3, .tokens = 1234, .seconds = 1.5, .generator_seed = 1};
  state.curve = {{10, 0.5, 0.7, 600, 3.25, 1e-3, 1.5}, {20, 1.2, 1.4, 1200, 3.0, 1e-3, 1.25}};
  state.validations = {{20, 1.4, 2.75, 10.5, true}};
  return state;
}

}  // namespace

int model_state(Bytes bytes) {
  static const auto before = numbers(small_model());
  const bool taken = answers<FormatError, IoError>([&] {
    const auto file = io::SafetensorsFile::open(put(scratch() / "weights.safetensors", bytes));
    io::load_state(small_model(), file, {.absent = {"*.bias"}, .ignored = {"extra.*"}});
  });
  if (taken) restore(small_model(), before);
  else expect(numbers(small_model()) == before, "a model that is refused its weights stays as it was");
  return 0;
}
std::vector<std::string> model_state_seeds() {
  // As they are, and with q, k and v packed in the two ways that are known.
  io::SafetensorsWriter plain, packed, by_head;
  io::add_state(plain, small_model());
  const auto part_of = [](const std::string& name) {
    for (const char* part : {"q_proj.", "k_proj.", "v_proj."})
      if (name.find(part) != name.npos) return name.find(part);
    return name.npos;
  };
  const std::vector<float> values(48);
  for (const auto& t : nn::state(small_model())) {
    const std::size_t at = part_of(t.name);
    if (at == t.name.npos) {
      io::add_tensor(packed, t.name, t.value);
      io::add_tensor(by_head, t.name, t.value);
    } else if (t.name[at] == 'q') {
      const std::string kind = t.name.substr(at + 7), prefix = t.name.substr(0, at);
      const Shape shape = t.value.shape().with(0, 12);
      const auto zeros = std::span<const float>(values).first(static_cast<std::size_t>(shape.size()));
      packed.add<float>(prefix + "in_proj_" + kind, shape, zeros);
      by_head.add<float>(prefix + "qkv_proj." + kind, shape, zeros);
    }
  }
  return {file_of(plain), file_of(packed), file_of(by_head)};
}

int quantized_model(Bytes bytes) {
  static const fs::path folder = [] {
    const fs::path path = scratch() / "quantized";
    io::save(path, small_model(), {.quantized = true});
    return path;
  }();
  put(folder / "model.safetensors", bytes);
  answers<FormatError, IoError>([&] {
    const decode::TransformerModel<float> model(io::load_model<float>(folder));
    auto state = model.begin(Tensor<token_t>({1}, token_t{0}), Segments::ragged({1}));
    expect(model.step(state, std::vector<token_t>{0}).shape() == Shape{1, 5}, "a model gives a number for each token");
  });
  return 0;
}
std::vector<std::string> quantized_model_seeds() {
  const fs::path folder = scratch() / "quantized-seed";
  io::save(folder, small_model(), {.quantized = true});
  return {io::read_file(folder / "model.safetensors")};
}

int torch_model(Bytes bytes) {
  const fs::path path = put(scratch() / "torch.safetensors", bytes);
  const io::TorchOptions options{.heads = 2};
  answers<FormatError, ValueError, IoError>([&] { (void)io::load_torch_transformer<float>(path, options); });
  answers<FormatError, ValueError, IoError>([&] { (void)io::load_torch_encoder<float>(path, options); });
  answers<FormatError, ValueError, IoError>([&] { (void)io::load_torch_decoder<float>(path, options); });
  return 0;
}
std::vector<std::string> torch_model_seeds() {
  // The tensors of a torch.nn.Transformer of width 2 with one layer a stack, by the names that PyTorch gives them.
  const auto add = [](io::SafetensorsWriter& writer, const std::string& prefix, bool decoder) {
    const std::string layer = prefix + "layers.0.";
    const auto zeros = [&](const std::string& name, const Shape& shape) {
      writer.add<float>(name, shape, std::vector<float>(static_cast<std::size_t>(shape.size())));
    };
    for (const std::string attention : {"self_attn.", "multihead_attn."}) {
      if (attention != "self_attn." && !decoder) continue;
      zeros(layer + attention + "in_proj_weight", {6, 2}), zeros(layer + attention + "in_proj_bias", {6});
      zeros(layer + attention + "out_proj.weight", {2, 2}), zeros(layer + attention + "out_proj.bias", {2});
    }
    zeros(layer + "linear1.weight", {3, 2}), zeros(layer + "linear1.bias", {3});
    zeros(layer + "linear2.weight", {2, 3}), zeros(layer + "linear2.bias", {2});
    for (const std::string norm : {"norm1.", "norm2.", "norm3."}) {
      if (norm == "norm3." && !decoder) continue;
      zeros(layer + norm + "weight", {2}), zeros(layer + norm + "bias", {2});
    }
    zeros(prefix + "norm.weight", {2}), zeros(prefix + "norm.bias", {2});
  };
  io::SafetensorsWriter whole, encoder, decoder;
  add(whole, "encoder.", false), add(whole, "decoder.", true);
  add(encoder, "", false);
  add(decoder, "", true);
  return {file_of(whole), file_of(encoder), file_of(decoder)};
}

int config(Bytes bytes) {
  std::optional<nn::ModelOptions> options;
  answers<FormatError>([&] {
    options = io::model_options_from(io::parse_json(text_of(bytes), "config.json"), "config.json");
    const io::Json json = io::to_json(*options);
    expect(io::to_json(io::model_options_from(json, "again")) == json, "options that are written and read are the same");
  });
  if (options && is_large(*options)) return 0;
  put(own_folder() / "config.json", bytes);
  answers<FormatError, IoError>([&] { run(io::load_model<float>(own_folder())); });
  return 0;
}
std::vector<std::string> config_seeds() {
  auto other = small_options();
  other.share_embeddings = other.tie_head = other.head_bias = false;
  other.encoder.positions = other.decoder.positions = nn::PositionKind::learned;
  other.encoder.norm_order = nn::NormOrder::pre;
  auto adapted = small_options();
  adapted.adapters = {.rank = 1, .modules = {"q_proj", "decoder.*.fc1"}};
  return {io::to_json(small_options()).dump(), io::to_json(other).dump(1), io::to_json(adapted).dump(1)};
}

int search(Bytes bytes) {
  constexpr index_t vocabulary = 9;
  answers<FormatError>([&] {
    const auto search = decode::search_from(io::parse_json(text_of(bytes), "search.json"), "search.json", vocabulary);
    answers<>([&] {
      decode::detail::check_translator(search);
      const io::Json json = decode::search_to_json(search);
      expect(decode::search_to_json(decode::search_from(json, "again", vocabulary)) == json,
             "a search that is written and read is the same");
    });
  });
  return 0;
}
std::vector<std::string> search_seeds() {
  decode::TranslatorOptions sampled{.sample = true, .temperature = 0.5, .top_k = 3, .seed = 7};
  decode::TranslatorOptions other{.beam = 3,
                                  .n_best = 2,
                                  .max_ratio = std::numeric_limits<double>::infinity(),
                                  .first = 4,
                                  .end_tokens = {1},
                                  .suppressed = {2, 3},
                                  .banned = {{5}, {6, 7}},
                                  .banned_text = {"word"}};
  return {decode::search_to_json({}).dump(), decode::search_to_json(sampled).dump(), decode::search_to_json(other).dump(1)};
}

int training_state(Bytes bytes) {
  static Run training;
  static const auto memory = [] {
    training.adam.step();
    const auto state = training.adam.state();
    std::vector<std::vector<float>> values;
    for (const auto& entry : state.entries) values.push_back(entry.values.values());
    return values;
  }();
  static const auto weights = numbers(training.model);
  static const auto all = training.all_numbers();
  const fs::path path = put(scratch() / "training.safetensors", bytes);
  train::TrainingState state;
  const bool taken = answers<FormatError, ValueError, IoError>([&] { state = training.read(path); });
  if (!taken) {
    expect(training.all_numbers() == all, "a run that is refused a state stays as it was");
    return 0;
  }
  for (const index_t count :
       {state.step, state.epoch, state.position, state.tokens, state.since_best, training.adam.steps(), training.adam.skipped()})
    expect(count >= 0 && count < std::int64_t{1} << 62, "a count can go on");
  training.write(path, state);
  const auto again = training.read(path);
  expect(again.step == state.step && again.tokens == state.tokens && again.generator_drawn == state.generator_drawn &&
             again.curve.size() == state.curve.size() && again.validations.size() == state.validations.size(),
         "a state that is written and read is the same");
  training.adam.update(1e-3, 1.0);
  auto entries = training.adam.state();
  for (std::size_t i = 0; i < memory.size(); ++i) std::copy(memory[i].begin(), memory[i].end(), entries.entries[i].values.data());
  entries.steps = 1, entries.skipped = 0;
  training.adam.restore(entries);
  restore(training.model, weights);
  return 0;
}
std::vector<std::string> training_state_seeds() {
  Run training;
  const fs::path path = scratch() / "seed.safetensors";
  training.write(path, some_state());
  return {io::read_file(path)};
}

}  // namespace fuzz
