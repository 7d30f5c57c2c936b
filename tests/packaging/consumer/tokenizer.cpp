#include <attend/text/bleu.hpp>
#include <attend/text/corpus.hpp>
#include <attend/text/sentencepiece.hpp>
#include <cstdio>

int main() {
  using namespace attend;
  text::Corpus corpus;
  corpus.pairs = {{"a dog sees a cat", "un perro ve un gato"}, {"a cat sees a dog", "un gato ve un perro"}};
  const auto tokenizer = text::SentencePiece::train(corpus, {.vocabulary = 60});
  const std::string back = tokenizer.decode(tokenizer.encode("un gato ve un perro"));
  std::printf("%s\n", back.c_str());
  return back == corpus.pairs[1].target ? 0 : 1;
}
