#include "attend/io/torch.hpp"

#include "attend/nn/freeze.hpp"
#include "catch.hpp"
#include "nn/check.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

namespace {

constexpr index_t width = 4, inner = 6;

/// A state dict as PyTorch names it, random, in a type that a file may have.
class StateDict {
 public:
  explicit StateDict(bool biases = true) : biases_(biases) {}

  void add(const std::string& name, const Shape& shape) {
    if (!biases_ && name.ends_with("bias")) return;
    tensors_.insert_or_assign(name, test::random_tensor<double>(shape, tensors_.size() + 1));
  }
  void add_attention(const std::string& name) {
    add(name + ".in_proj_weight", {3 * width, width}), add(name + ".in_proj_bias", {3 * width});
    add(name + ".out_proj.weight", {width, width}), add(name + ".out_proj.bias", {width});
  }
  void add_norm(const std::string& name) { add(name + ".weight", {width}), add(name + ".bias", {width}); }
  void add_stack(const std::string& prefix, index_t layers, bool decoder, bool norm = true) {
    for (index_t i = 0; i < layers; ++i) {
      const std::string layer = prefix + "layers." + std::to_string(i) + ".";
      add_attention(layer + "self_attn");
      if (decoder) add_attention(layer + "multihead_attn");
      add(layer + "linear1.weight", {inner, width}), add(layer + "linear1.bias", {inner});
      add(layer + "linear2.weight", {width, inner}), add(layer + "linear2.bias", {width});
      for (int n = 1; n <= (decoder ? 3 : 2); ++n) add_norm(layer + "norm" + std::to_string(n));
    }
    if (norm) add_norm(prefix + "norm");
  }
  void add_transformer(const std::string& prefix) {
    add_stack(prefix + "encoder.", 2, false), add_stack(prefix + "decoder.", 1, true);
  }
  void add_all(const StateDict& other) { tensors_.insert(other.tensors_.begin(), other.tensors_.end()); }
  void remove(const std::string& name) { REQUIRE(tensors_.erase(name) == 1); }
  [[nodiscard]] const Tensor<double>& operator[](const std::string& name) const { return tensors_.at(name); }

  [[nodiscard]] std::filesystem::path save(io::DType stored = io::DType::f64) const {
    io::SafetensorsWriter writer;
    for (const auto& [name, value] : tensors_) io::add_tensor(writer, name, value, stored);
    writer.write(folder_ / "state");
    return folder_ / "state";
  }

 private:
  bool biases_;
  std::map<std::string, Tensor<double>> tensors_;
  TemporaryFolder folder_;
};

/// A user's own module around torch.nn.Transformer: nn.Embedding, nn.Transformer, nn.Linear.
template <class T>
struct Module {
  using value_type = T;
  using device_type = Cpu;
  nn::Embedding<T> embedding{5, width};
  io::TorchTransformer<T> transformer;
  nn::Linear<T> out{width, 5};
  template <class F>
  void fields(F&& field) {
    field("embedding", embedding);
    field("transformer", transformer);
    field("out", out);
  }
};

}  // namespace

TEST_CASE("torch: names as PyTorch has them") {
  CHECK(io::torch_name("encoder.layers.10.self_attn.q_proj.weight") == "encoder.layers.10.self_attn.in_proj_weight");
  CHECK(io::torch_name("decoder.layers.0.encoder_attn.v_proj.bias") == "decoder.layers.0.multihead_attn.in_proj_bias");
  CHECK(io::torch_name("decoder.layers.0.encoder_attn.out_proj.bias") == "decoder.layers.0.multihead_attn.out_proj.bias");
  CHECK(io::torch_name("encoder.layers.0.final_layer_norm.bias") == "encoder.layers.0.norm2.bias");
  CHECK(io::torch_name("net.decoder.layers.0.final_layer_norm.bias") == "net.decoder.layers.0.norm3.bias");
  CHECK(io::torch_name("layers.0.final_layer_norm.bias", true) == "layers.0.norm3.bias");
  CHECK(io::torch_name("layers.0.encoder_attn_layer_norm.bias", true) == "layers.0.norm2.bias");
  CHECK(io::torch_name("encoder.layer_norm.weight") == "encoder.norm.weight");
  CHECK(io::torch_name("layers.0.fc1.weight") == "layers.0.linear1.weight");
  CHECK(io::torch_name("q_proj.weight") == "in_proj_weight");
  CHECK(io::torch_name("out.weight") == "out.weight");
  CHECK(io::torch_name("").empty());
  CHECK(io::torch_name("x.q_proj") == "x.in_proj_");
}

TEST_CASE("torch: sizes come from the file; q, k and v from the packed projection") {
  StateDict dict;
  dict.add_transformer("net.");
  dict.add("head.weight", {9, width});  // of the module around it
  const auto model = io::load_torch_transformer<double>(dict.save(), {.heads = 2, .prefix = "net."});
  CHECK(model.encoder.options.d_model == width);
  CHECK(model.encoder.options.d_ff == inner);
  CHECK(model.encoder.layers.size() == 2);
  CHECK(model.decoder.layers.size() == 1);
  CHECK_FALSE(nn::is_training(model));
  CHECK(nn::frozen_names(model).empty());
  const auto& attention = model.decoder.layers[0].cross[0].attention;
  CHECK(test::distance(attention.weight.value(), dict["net.decoder.layers.0.multihead_attn.in_proj_weight"]) == 0);
  CHECK(test::distance(model.encoder.layer_norm->bias->value(), dict["net.encoder.norm.bias"]) == 0);
  CHECK(test::distance(model.decoder.layers[0].around_feed_forward.norm.weight.value(),
                       dict["net.decoder.layers.0.norm3.weight"]) == 0);

  StateDict alone;
  alone.add_stack("", 1, false, false);
  CHECK_FALSE(io::load_torch_encoder<double>(alone.save(), {.heads = 2}).layer_norm.has_value());
}

TEST_CASE("torch: without biases they are zero and stay so") {
  StateDict dict(false);
  dict.add_transformer("");
  const auto model = io::load_torch_transformer<double>(dict.save(), {.heads = 2});
  for (const auto& t : nn::state(model)) {
    INFO(t.name);
    CHECK(t.parameter.requires_grad() != t.name.ends_with("bias"));
    if (t.name.ends_with("bias")) CHECK(test::distance(t.value, Tensor<double>(t.value.shape(), 0.0)) == 0);
  }
}

TEST_CASE("torch: a last norm with biases above layers without learns on") {
  StateDict dict(false), biased;
  dict.add_stack("encoder.", 1, false, false);
  biased.add_stack("decoder.", 1, true);
  biased.add_norm("encoder.norm");
  dict.add_all(biased);
  const auto model = io::load_torch_transformer<double>(dict.save(), {.heads = 2});
  for (const auto& t : nn::state(model)) {
    INFO(t.name);
    CHECK(t.parameter.requires_grad() == !(t.name.starts_with("encoder.layers.") && t.name.ends_with("bias")));
  }
  dict.remove("decoder.layers.0.linear1.bias");
  CHECK_THROWS_WITH(io::load_torch_transformer<double>(dict.save(), {.heads = 2}),
                    ContainsSubstring("missing decoder.layers.0.linear1.bias"));
}

TEMPLATE_TEST_CASE("torch: half precision loads into any", "", double, float, bfloat16) {
  StateDict dict;
  dict.add_stack("", 1, false);
  for (const io::DType stored : {io::DType::f16, io::DType::bf16, io::DType::f32}) {
    const auto model = io::load_torch_encoder<TestType>(dict.save(stored), {.heads = 2});
    const auto& values = dict["layers.0.self_attn.in_proj_weight"];
    const auto& loaded = model.layers[0].self_attn.weight.value();
    REQUIRE(loaded.shape() == values.shape());
    for (index_t i = 0; i < values.size(); ++i) {
      const double x = values.data()[i];
      const double in_file = stored == io::DType::f16    ? static_cast<double>(io::decode_f16(io::encode_f16(x)))
                             : stored == io::DType::bf16 ? static_cast<double>(io::decode_bf16(io::encode_bf16(x)))
                                                         : static_cast<double>(static_cast<float>(x));
      REQUIRE(in_file != x);
      double expected = in_file;
      if (std::is_same_v<TestType, bfloat16>) expected = static_cast<double>(io::decode_bf16(io::encode_bf16(in_file)));
      REQUIRE(static_cast<double>(loaded.data()[i]) == expected);
    }
  }
}

TEST_CASE("torch: what does not fit is listed as PyTorch calls it") {
  StateDict dict;
  dict.add_transformer("net.");
  dict.remove("net.encoder.layers.1.self_attn.in_proj_bias");
  dict.remove("net.decoder.layers.0.norm3.bias");
  dict.add("net.decoder.layers.0.multihead_attn.in_proj_weight", {3 * width, width + 1});
  dict.add("net.decoder.layers.0.linear2.weight", {width, width});
  dict.add("net.pos.pe", {3});
  const io::TorchOptions options{.heads = 2, .prefix = "net."};
  try {
    (void)io::load_torch_transformer<float>(dict.save(), options);
    FAIL("it was loaded");
  } catch (const FormatError& e) {
    const std::string what = e.what();
    INFO(what);
    CHECK(what.find("missing net.encoder.layers.1.self_attn.in_proj_bias, net.decoder.layers.0.norm3.bias;") != what.npos);
    CHECK(what.find("unexpected net.pos.pe;") != what.npos);
    CHECK(what.find("net.decoder.layers.0.multihead_attn.in_proj_weight has shape [12, 5], which does not hold ") != what.npos);
    CHECK(what.find("net.decoder.layers.0.linear2.weight has shape [4, 4], expected [4, 6]") != what.npos);
  }
  StateDict without;
  without.add_transformer("");
  for (const char* name : {"in_proj_weight", "in_proj_bias"})
    without.remove(std::string("decoder.layers.0.multihead_attn.") + name);
  CHECK_THROWS_WITH(
      io::load_torch_transformer<float>(without.save(), {.heads = 2}),
      EndsWith("missing decoder.layers.0.multihead_attn.in_proj_weight, decoder.layers.0.multihead_attn.in_proj_bias"));  // once
  StateDict good;
  good.add_transformer("net.");
  good.add("net.pos.pe", {3});
  auto ignoring = options;
  ignoring.ignored = {"*.pe"};
  (void)io::load_torch_transformer<float>(good.save(), ignoring);
  ignoring.heads = 3;
  CHECK_THROWS_AS(io::load_torch_transformer<float>(good.save(), ignoring), ValueError);
  CHECK_THROWS_WITH(io::load_torch_transformer<float>(good.save(), {.heads = 2}),
                    ContainsSubstring("has no encoder.layers.0.linear1.weight, expected the state of a torch.nn.Transformer"));
  good.add("net.encoder.layers.0.linear1.weight", {1 << 12, 1});  // no reason to build a model of any size
  CHECK_THROWS_WITH(io::load_torch_transformer<float>(good.save(), options),
                    ContainsSubstring("layers.1.linear1.weight has shape [6, 4], expected [4096, 1]") ||
                        ContainsSubstring("in_proj_weight has shape [12, 4], expected [3, 1]"));
  for (const auto& [shape, text] : {std::pair{Shape{4}, "[4]"}, std::pair{Shape{0, 4}, "[0, 4]"}}) {
    good.add("net.encoder.layers.0.linear1.weight", shape);
    CHECK_THROWS_WITH(io::load_torch_transformer<float>(good.save(), options),
                      ContainsSubstring(std::string("has shape ") + text + ", expected [dim_feedforward, d_model]"));
  }
}

TEST_CASE("torch: a module of the user's own around nn.Transformer") {
  StateDict dict;
  dict.add_transformer("core.");
  dict.add("emb.weight", {5, width});
  dict.add("fc_out.weight", {5, width}), dict.add("fc_out.bias", {5});
  const auto path = dict.save();
  const Module<float> model{.transformer = io::load_torch_transformer<float>(path, {.heads = 2, .prefix = "core."})};
  const auto rename = [](const std::string& name) -> std::string {
    if (name.starts_with("embedding.")) return "emb." + name.substr(10);
    if (name.starts_with("out.")) return "fc_out." + name.substr(4);
    return "core." + io::torch_name(name.substr(12));
  };
  test::randomise(model);
  io::load_state(model, io::SafetensorsFile::open(path), {.rename = rename});
  CHECK(static_cast<double>(model.out.bias->value().data()[4]) == Approx(dict["fc_out.bias"].data()[4]));
  CHECK(static_cast<double>(model.embedding.weight.value().data()[3]) == Approx(dict["emb.weight"].data()[3]));
  CHECK(static_cast<double>(model.transformer.decoder.layers[0].self_attn.weight.value().data()[5]) ==
        Approx(dict["core.decoder.layers.0.self_attn.in_proj_weight"].data()[5]));
}
