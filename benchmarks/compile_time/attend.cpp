#include <attend/attend.hpp>
#include <iostream>
using namespace attend;

int main() {
  auto corpus = text::read_tsv("en-es.tsv");
  auto recipe = train::recipe(corpus.size());  // sizes that suit so many pairs
  auto tokenizer = text::SentencePiece::train(corpus, {.vocabulary = recipe.vocabulary});
  nn::Transformer<float> model(recipe.model(tokenizer.size()));
  train::fit(model, corpus, tokenizer);
  io::save("model", model, tokenizer);

  auto translate = decode::Translator(model, tokenizer, {.beam = 4});
  std::cout << translate("Where is the library?") << '\n';
}
