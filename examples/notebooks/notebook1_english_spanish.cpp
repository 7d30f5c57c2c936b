// Notebook 1: an English to Spanish translator. `build` makes the network from a few numbers; encoder and decoder can be called
// apart; it gives log-probabilities; it is trained on a handful of sentences and then translates them.

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "attend/attend.hpp"
#include "show.hpp"

using namespace attend;

namespace {

/// What `build` may be told besides the vocabularies and the longest sentences.
struct BuildOptions {
  index_t d_model = 512, layers = 6, heads = 8, d_ff = 2048;
  double dropout = 0.1;
};

/// Embeddings times sqrt(d_model), sinusoids of base 1000, a layer norm with one scalar gain and bias over the sample standard
/// deviation, no biases on q, k and v, log-probabilities out, every matrix drawn by Xavier's rule.
nn::Transformer<float> build(index_t source_vocabulary, index_t target_vocabulary, index_t source_length, index_t target_length,
                             const BuildOptions& o = {}) {
  const nn::StackOptions stack{
      .d_model = o.d_model,
      .heads = o.heads,
      .d_ff = o.d_ff,
      .layers = o.layers,
      .norm = {.eps = 1e-6, .sample_deviation = true, .scalar_affine = true},
      .attention_bias = false,
      .position_base = 1000,
      .dropout = {.embedding = o.dropout, .attention = o.dropout, .activation = o.dropout, .norm = o.dropout}};
  nn::ModelOptions options{.encoder = stack, .decoder = stack, .output = nn::Output::log_probabilities};
  options.encoder.vocabulary = source_vocabulary, options.encoder.max_length = source_length;
  options.decoder.vocabulary = target_vocabulary, options.decoder.max_length = target_length;
  nn::Transformer<float> model(options);
  nn::xavier_uniform_all(model);
  return model;
}

struct Sentences {
  std::string source, target;
};

const std::vector<Sentences> corpus{
    {"the cat sleeps", "el gato duerme"},
    {"the dog sleeps", "el perro duerme"},
    {"the house is red", "la casa es roja"},
    {"the car is red", "el coche es rojo"},
    {"the cat drinks milk", "el gato bebe leche"},
    {"the dog drinks water", "el perro bebe agua"},
    {"i read a book", "leo un libro"},
    {"i write a letter", "escribo una carta"},
    {"we read the letter", "leemos la carta"},
    {"we drink water", "bebemos agua"},
    {"good morning", "buenos días"},
    {"good night", "buenas noches"},
};

/// A tokenizer of whole words, for both languages. Any type with these members is one.
class Words {
 public:
  explicit Words(const std::vector<Sentences>& pairs) {
    for (const auto& pair : pairs) {
      std::istringstream in(pair.source + " " + pair.target);
      for (std::string word; in >> word;)
        if (tokens_.emplace(word, size()).second) words_.push_back(word);
    }
  }
  [[nodiscard]] std::vector<token_t> encode(const std::string& sentence) const {
    std::vector<token_t> list;
    std::istringstream in(sentence);
    for (std::string word; in >> word;)
      if (const auto found = tokens_.find(word); found != tokens_.end()) list.push_back(found->second);
    return list;
  }
  [[nodiscard]] std::string decode(std::span<const token_t> tokens) const {
    std::string text;
    for (const token_t t : tokens)
      if (t > eos()) text += (text.empty() ? "" : " ") + nth(words_, t);
    return text;
  }
  [[nodiscard]] token_t size() const { return static_cast<token_t>(words_.size()); }
  [[nodiscard]] token_t pad() const { return 0; }
  [[nodiscard]] token_t bos() const { return 1; }
  [[nodiscard]] token_t eos() const { return 2; }

 private:
  std::vector<std::string> words_{"<pad>", "<s>", "</s>"};
  std::map<std::string, token_t> tokens_;
};

}  // namespace

int main() {
  seed(1);
  {  // the network at its defaults, encoder and decoder called apart
    auto model = build(20000, 20000, 64, 64);
    nn::set_training(model, false);
    const NoGrad no_grad;
    std::printf("parameters at the defaults: %lld\n", static_cast<long long>(nn::parameter_count(model)));
    const auto sentences = Segments::dense(2, 32);
    const auto memory = model.encode(random_tokens({64}, 20000), sentences);
    const auto x = model.decode(random_tokens({64}, 20000), sentences, memory);
    show("encoder", memory.x.value().reshape({2, 32, 512}));
    show("decoder", x.value().reshape({2, 32, 512}));
    show("log-probabilities", log_softmax(model.logits(x)).value().reshape({2, 32, 20000}));
  }

  // A smaller one learns the handful by heart.
  const Words words(corpus);
  auto model = build(words.size(), words.size(), 16, 16, {.d_model = 64, .layers = 2, .heads = 4, .d_ff = 128});
  std::printf("\ntraining on %zu pairs, %d words\n", corpus.size(), words.size());
  const auto report = train::fit(model, corpus, words,
                                 {.epochs = 120,
                                  .tokens_per_batch = 64,
                                  .schedule = optim::ScheduleOptions{.learning_rate = 3e-3, .warmup = 40},
                                  .progress = {.mode = train::ProgressMode::off},
                                  .curve_every = 40});
  for (const auto& point : report.curve) std::printf("  step %4lld  loss %.4f\n", static_cast<long long>(point.step), point.loss);

  const decode::Translator translate(model, words, {.beam = 1});  // greedy search
  int right = 0;
  for (const auto& [source, target] : corpus) {
    const std::string translation = translate(source);
    right += translation == target;
    std::printf("  %-22s %s\n", source.c_str(), translation.c_str());
  }
  std::printf("%d of %zu as in the corpus\n", right, corpus.size());
}
