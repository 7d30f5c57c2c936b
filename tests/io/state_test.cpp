#include "attend/io/state.hpp"

#include "attend/nn/linear.hpp"
#include "attend/nn/multi_head_attention.hpp"
#include "catch.hpp"
#include "nn/check.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using Attention = nn::MultiHeadAttention<double>;

namespace {

/// Two layers that share a matrix.
struct Shared {
  using value_type = double;
  using device_type = Cpu;
  nn::Linear<double> first{2, 2}, second{2, 2};
  Shared() { second.weight = first.weight; }
  template <class F>
  void fields(F&& field) {
    field("first", first);
    field("second", second);
  }
};

/// A file of the given tensors.
class File {
 public:
  explicit File(const std::vector<std::pair<std::string, Tensor<double>>>& tensors) {
    io::SafetensorsWriter writer;
    for (const auto& [name, value] : tensors) io::add_tensor(writer, name, value);
    writer.write(folder_ / "state");
  }
  template <class M>
  void load_into(const M& model, const io::LoadOptions& options = {}) const {
    io::load_state(model, io::SafetensorsFile::open(folder_ / "state"), options);
  }

 private:
  TemporaryFolder folder_;
};

/// The rows of `parts`, each split over `heads`, head by head: what a packed projection holds.
Tensor<double> head_by_head(const std::vector<Tensor<double>>& parts, index_t heads) {
  std::vector<double> values;
  index_t rows = 0;
  for (const auto& p : parts) rows += p.dim(0);
  for (index_t h = 0; h < heads; ++h)
    for (const auto& p : parts) {
      const index_t n = p.size() / heads;
      values.insert(values.end(), p.data() + h * n, p.data() + (h + 1) * n);
    }
  return Tensor<double>(parts[0].shape().with(0, rows), std::span<const double>(values));
}

void check_equal(const Attention& a, const Attention& b) {
  const auto x = nn::state(a), y = nn::state(b);
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    INFO(x[i].name);
    CHECK(test::distance(x[i].value, y[i].value) == 0);
  }
}

}  // namespace

TEST_CASE("state: what add_state writes load_state reads, bit for bit, and each tensor once") {
  const Attention from({.d_model = 4, .heads = 2, .d_v = 3, .d_memory = 5}),
      to({.d_model = 4, .heads = 2, .d_v = 3, .d_memory = 5});
  test::randomise(from);
  const TemporaryFolder folder;
  io::SafetensorsWriter writer;
  io::add_state(writer, from);
  writer.write(folder / "state");
  const auto file = io::SafetensorsFile::open(folder / "state");
  CHECK(file.tensors().size() == 8);
  io::load_state(to, file);
  check_equal(from, to);
}

TEST_CASE("state: projections packed in the ways that checkpoints have them") {
  for (const nn::MultiHeadAttentionOptions& o :
       {nn::MultiHeadAttentionOptions{.d_model = 4, .heads = 2},
        nn::MultiHeadAttentionOptions{.d_model = 4, .heads = 2, .d_k = 3, .d_v = 5},
        nn::MultiHeadAttentionOptions{.d_model = 4, .heads = 2, .d_k = 3, .d_v = 1, .bias = false}}) {
    const Attention from(o);
    test::randomise(from);
    std::vector<std::pair<std::string, Tensor<double>>> blocks, by_head, q_apart, rest;
    for (const std::string kind : {"weight", "bias"}) {
      std::vector<Tensor<double>> qkv;
      for (const auto& t : nn::state(from)) {
        if (t.name.starts_with("out_proj") && t.name.ends_with(kind)) rest.emplace_back(t.name, t.value);
        else if (t.name.ends_with(kind)) qkv.push_back(t.value);
      }
      if (qkv.empty()) continue;
      blocks.emplace_back("in_proj_" + kind, head_by_head(qkv, 1));
      by_head.emplace_back("qkv_proj." + kind, head_by_head(qkv, o.heads));
      q_apart.emplace_back("q_proj." + kind, qkv[0]);
      q_apart.emplace_back("kv_proj." + kind, head_by_head({qkv[1], qkv[2]}, o.heads));
    }
    for (auto tensors : {blocks, by_head, q_apart}) {
      tensors.insert(tensors.end(), rest.begin(), rest.end());
      INFO(tensors[0].first);
      const Attention to(o);
      File(tensors).load_into(to);
      check_equal(from, to);
    }
  }
}

TEST_CASE("state: a packed projection of another size is refused") {
  const Attention attention({.d_model = 4, .heads = 2, .bias = false, .out_bias = false});
  const Tensor<double> out({4, 4}, 0.0);
  CHECK_THROWS_WITH(File({{"qkv_proj.weight", Tensor<double>({11, 4}, 0.0)}, {"out_proj.weight", out}}).load_into(attention),
                    ContainsSubstring("qkv_proj.weight has shape [11, 4], which does not hold q_proj.weight [4, 4]"));
  for (const Shape& shape : {Shape{12, 5}, Shape{12}, Shape{2, 4}, Shape{0, 4}, Shape{12, 4, 1}, Shape{}})
    CHECK_THROWS_AS(File({{"in_proj_weight", Tensor<double>(shape, 0.0)}, {"out_proj.weight", out}}).load_into(attention),
                    FormatError);
}

TEST_CASE("state: a packed projection with rows to spare is refused") {
  const Attention attention({.d_model = 4, .heads = 2, .bias = false, .out_bias = false});
  const Tensor<double> out({4, 4}, 0.0);
  for (const char* name : {"in_proj_weight", "qkv_proj.weight"})
    CHECK_THROWS_WITH(File({{name, Tensor<double>({16, 4}, 0.0)}, {"out_proj.weight", out}}).load_into(attention),
                      ContainsSubstring("has shape [16, 4], expected 12 rows"));
}

TEST_CASE("state: a shared tensor is found under any of its names") {
  const Tensor<double> w({2, 2}, {1, 2, 3, 4}), b({2}, 0.0);
  for (const auto& names :
       {test::Names{"first.weight"}, test::Names{"second.weight"}, test::Names{"first.weight", "second.weight"}}) {
    const Shared model;
    std::vector<std::pair<std::string, Tensor<double>>> tensors{{"first.bias", b}, {"second.bias", b}};
    for (const auto& name : names) tensors.emplace_back(name, w);
    File(tensors).load_into(model);
    CHECK(model.second.weight.value().values() == std::vector<double>{1, 2, 3, 4});
    CHECK(model.second.weight.id() == model.first.weight.id());
  }
}

TEST_CASE("state: everything that does not fit is named at once, and the model stays as it was") {
  const Shared model;
  test::randomise(model);
  const auto before = nn::state(model)[0].value.clone();
  const auto bias = model.first.bias->value().clone();
  try {
    File({{"first.bias", Tensor<double>({2}, 1.0)},
          {"second.weight", Tensor<double>({3, 2}, 1.0)},
          {"third.weight", Tensor<double>({1}, 1.0)}})
        .load_into(model);
    FAIL("it was loaded");
  } catch (const FormatError& e) {
    const std::string what = e.what();
    INFO(what);
    CHECK(what.find("missing second.bias") != std::string::npos);
    CHECK(what.find("unexpected third.weight") != std::string::npos);
    CHECK(what.find("second.weight has shape [3, 2], expected [2, 2]") != std::string::npos);
  }
  CHECK(test::distance(nn::state(model)[0].value, before) == 0);
  CHECK(test::distance(model.first.bias->value(), bias) == 0);
}

TEST_CASE("state: a long list of names is cut") {
  const nn::Linear<double> linear(2, 2, {.bias = false});
  std::vector<std::pair<std::string, Tensor<double>>> tensors{{"weight", Tensor<double>({2, 2}, 1.0)}};
  for (int i = 0; i < 20; ++i) tensors.emplace_back("extra" + std::to_string(i), Tensor<double>({1}, 1.0));
  CHECK_THROWS_WITH(File(tensors).load_into(linear), ContainsSubstring("and 12 more"));
}

TEST_CASE("state: names that a file has are quoted without control characters") {
  const nn::Linear<double> linear(2, 2, {.bias = false});
  const File file({{"weight", Tensor<double>({2, 2}, 1.0)}, {"a\n\x1B[2Jb", Tensor<double>({1}, 1.0)}});
  CHECK_THROWS_WITH(file.load_into(linear), ContainsSubstring("unexpected a??[2Jb"));
}

TEST_CASE("state: other names, a prefix, what may be absent and what is ignored") {
  const nn::Linear<double> linear(2, 1);
  test::randomise(linear);
  const double bias = linear.bias->value().item();
  const File file({{"net.kernel", Tensor<double>({1, 2}, {1, 2})},
                   {"net.steps", Tensor<double>({1}, 5.0)},
                   {"other.weight", Tensor<double>({7}, 0.0)}});
  io::LoadOptions options{.rename = [](const std::string& name) { return name == "weight" ? "kernel" : name; }, .prefix = "net."};
  CHECK_THROWS_WITH(file.load_into(linear, options), ContainsSubstring("missing net.bias; unexpected net.steps"));
  options.absent = {"b*s"};
  CHECK_THROWS_WITH(file.load_into(linear, options), ContainsSubstring("the model: unexpected net.steps"));
  options.ignored = {"*.steps"};
  file.load_into(linear, options);
  CHECK(linear.weight.value().values() == std::vector<double>{1, 2});
  CHECK(linear.bias->value().item() == bias);
}

TEST_CASE("state: a packed projection is found under the name that q, k and v are given, or that of the packed one") {
  const Attention from({.d_model = 4, .heads = 2, .bias = false, .out_bias = false});
  test::randomise(from);
  const auto state = nn::state(from);
  const File file({{"qkv", head_by_head({state[0].value, state[1].value, state[2].value}, 1)}, {"out", state[3].value}});
  const auto out = [](const std::string& name) { return name.starts_with("out") ? std::string("out") : name; };
  for (const char* given : {"q_proj.weight k_proj.weight v_proj.weight in_proj_weight", "in_proj_weight"}) {
    const Attention to({.d_model = 4, .heads = 2, .bias = false, .out_bias = false});
    file.load_into(to, {.rename = [&](const std::string& name) {
                     return std::string(given).find(name) == std::string::npos ? out(name) : std::string("qkv");
                   }});
    check_equal(from, to);
  }
  const Attention larger({.d_model = 4, .heads = 2, .d_k = 3, .bias = false, .out_bias = false});
  CHECK_THROWS_WITH(
      file.load_into(larger, {.rename = [&](const std::string& name) { return name == "in_proj_weight" ? "qkv" : out(name); }}),
      ContainsSubstring("qkv has shape [12, 4], expected 18 rows"));
}
