#include <attend/attend.hpp>
#include <iostream>
using namespace attend;

int main() {
  text::Corpus corpus;
  corpus.pairs = {{"a dog sees a cat", "un perro ve un gato"}, {"a cat sees a dog", "un gato ve un perro"}};
  const auto tokenizer = text::SentencePiece::train(corpus, {.vocabulary = 60});

  nn::Transformer<float> model({.vocabulary = tokenizer.size(), .d_model = 32, .heads = 2, .layers = 1, .dropout = 0});
  train::fit(model, corpus, tokenizer, {.epochs = 100, .schedule = optim::Schedule({.learning_rate = 1e-2})});
  io::save("model", model, tokenizer);

  const decode::Translator translate(io::load_model("model"), tokenizer);
  std::cout << translate("a dog sees a cat") << '\n';
  return translate("a dog sees a cat") == "un perro ve un gato" ? 0 : 1;
}
