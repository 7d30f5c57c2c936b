#include <attend/attend.hpp>
#include <iostream>
using namespace attend;

int main() {
  auto corpus = text::read_tsv("en-es.tsv");
  auto tokenizer = text::SentencePiece::train(corpus, {.vocabulary = 8000});
  nn::Transformer<float> model({.vocabulary = tokenizer.size(), .d_model = 256, .heads = 4, .layers = 3});
  train::fit(model, corpus, tokenizer, {.epochs = 10, .tokens_per_batch = 4096});
  io::save("model", model, tokenizer);

  auto translate = decode::Translator(model, tokenizer, {.beam = 4});
  std::cout << translate("Where is the library?") << '\n';
}
