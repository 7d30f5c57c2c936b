// Notebook 4: attention of both kinds on small numbers, blocks, an encoder and a decoder that differ, a whole model that gives
// probabilities, and a picture of the positions.

#include <fstream>
#include <string>
#include <vector>

#include "attend/core.hpp"
#include "show.hpp"

using namespace attend;

namespace {

/// What a model of the notebook has in common: dropout on each sublayer before it is added.
nn::StackOptions stack(index_t vocabulary, index_t layers, double dropout) {
  return {.vocabulary = vocabulary, .d_model = 512, .heads = 8, .d_ff = 2048, .layers = layers, .dropout = {.residual = dropout}};
}

void attentions() {
  // 4 queries and 2 keys in each of 2 sentences, d_k 2, d_v 3
  const Var<float> q(random_numbers({2, 4, 2})), k(random_numbers({2, 2, 2})), v(random_numbers({2, 2, 3}));
  const auto queries = Segments::dense(2, 4), keys = Segments::dense(2, 2);
  AttentionWeights<float> weights;
  show("attention", attention(q, k, v, queries, keys, {.weights = &weights}).value(), 4);
  show("its weights in the first sentence", weights.matrix(0, 0), 4);
  const auto masked = Segments::dense(2, 2, std::vector<index_t>{1, 2});  // the second key of the first sentence is padding
  show("attention with a mask", attention(q, k, v, queries, masked).value(), 4);

  const nn::AdditiveAttention<float> additive(2, 2, 5);
  show("additive attention", additive(q, queries, k, v, keys).value(), 4);
  show("additive attention with a mask", additive(q, queries, k, v, masked).value(), 4);
}

void blocks() {
  const nn::MultiHeadAttention<float> multi_head({.d_model = 64, .heads = 8});
  const auto ten = Segments::dense(2, 10), twenty = Segments::dense(2, 20);
  const Var<float> x(random_numbers({2, 10, 64})), y(random_numbers({2, 20, 64}));
  show("\nmulti-head attention", multi_head(x, {.segments = ten}).value());
  show("multi-head attention, masked", multi_head(x, {.segments = ten, .causal = true}).value());
  const nn::StackOptions options{.d_model = 64, .heads = 8, .d_ff = 256};
  const nn::EncoderLayer<float> encoder_layer(options);
  const nn::DecoderLayer<float> decoder_layer(options);
  const auto memory = encoder_layer(y, twenty);
  show("encoder layer", memory.value());
  const std::vector<nn::Memory<float>> memories{{memory, twenty}};
  show("decoder layer", decoder_layer(y, twenty, {.memories = memories}).value());
}

/// Encoder and decoder by themselves: [4, 128] tokens to [4, 128, 512], and on to probabilities [4, 128, 64].
void stacks() {
  const nn::Encoder<float> encoder(stack(122, 6, 0.1));
  const nn::Decoder<float> decoder(stack(64, 6, 0.1));
  const nn::Linear<float> head(512, 64);
  const auto sentences = Segments::dense(4, 128);
  const auto memory = encoder(random_tokens({4, 128}, 122), sentences);
  show("\nencoder", memory.value().reshape({4, 128, 512}));
  const std::vector<nn::Memory<float>> memories{{memory, sentences}};
  const auto x = decoder(random_tokens({4, 128}, 64), sentences, {.memories = memories});
  show("decoder", softmax(head(x)).value().reshape({4, 128, 64}));
}

void whole_model() {
  const nn::Transformer<float> model(
      nn::ModelOptions{.encoder = stack(100, 6, 0.2), .decoder = stack(52, 6, 0.2), .output = nn::Output::probabilities});
  const auto sentences = Segments::dense(5, 128);
  const nn::Batch<> batch{.source = random_tokens({5 * 128}, 100),
                          .source_segments = sentences,
                          .target = random_tokens({5 * 128}, 52),
                          .target_segments = sentences,
                          .labels = {}};
  std::printf("\nparameters of the whole model: %lld\n", static_cast<long long>(nn::parameter_count(model)));
  Tensor<float> probabilities;
  const double time = seconds([&] { probabilities = model(batch).value().reshape({5, 128, 52}); });
  show("whole model", probabilities);
  double sum = 0;
  const Tensor<float> first = probabilities.rows(0, 1).reshape({128, 52}).rows(0, 1);
  for (const float p : first.span()) sum += static_cast<double>(p);
  std::printf("the first row adds up to %.6f; time %.2f s\n", sum, time);
}

/// The table as an SVG: a row for each position, a column for each feature, from blue (-1) through white to red (1). Cells of one
/// shade are one path.
bool draw(const Tensor<float>& table, const std::string& file) {
  constexpr int shades = 33, cell = 8;
  std::vector<std::string> paths(shades);
  for (index_t i = 0; i < table.dim(0); ++i)
    for (index_t j = 0; j < table.dim(1); ++j) {
      const int shade = static_cast<int>((table(i, j) + 1) / 2 * (shades - 1) + 0.5f);
      nth(paths, shade) += "M" + std::to_string(j) + " " + std::to_string(i) + "h1v1h-1z";
    }
  std::ofstream out(file);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << table.dim(1) * cell << "\" height=\"" << table.dim(0) * cell
      << "\" viewBox=\"0 0 " << table.dim(1) << " " << table.dim(0) << "\" shape-rendering=\"crispEdges\">\n"
      << "<title>Sinusoidal positions: " << table.dim(0) << " positions, " << table.dim(1) << " features</title>\n";
  for (int shade = 0; shade < shades; ++shade) {
    const int away = 255 * std::abs(2 * shade - (shades - 1)) / (shades - 1);  // from white
    const int red = 2 * shade < shades ? 255 - away : 255, blue = 2 * shade < shades ? 255 : 255 - away;
    out << "<path fill=\"rgb(" << red << "," << 255 - away << "," << blue << ")\" d=\"" << nth(paths, shade) << "\"/>\n";
  }
  out << "</svg>\n";
  return static_cast<bool>(out.flush());
}

}  // namespace

int main(int argc, char** argv) {
  seed(4);
  const NoGrad no_grad;
  attentions();
  blocks();
  stacks();
  whole_model();

  const std::string file = argc > 1 ? argv[1] : "positions.svg";
  const auto positions = sinusoid<float>(60, 128);
  show("\npositions", positions, 4, 8);
  if (!draw(positions, file)) {
    std::fprintf(stderr, "cannot write %s\n", file.c_str());
    return 1;
  }
  std::printf("drawn in %s\n", file.c_str());
}
