// Targets of text: what is done to sentences, corpora, SentencePiece models.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/glob.hpp"
#include "attend/text/bleu.hpp"
#include "attend/text/chrf.hpp"
#include "attend/text/corpus.hpp"
#include "attend/text/lowercase.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/text/split_sentences.hpp"
#include "attend/text/suspicions.hpp"
#include "attend/text/tokenize_13a.hpp"
#include "attend/text/utf8.hpp"
#include "input.hpp"

using namespace attend;
namespace fs = std::filesystem;

namespace fuzz {

namespace {

std::vector<std::string> lines_of(std::string_view all) {
  std::vector<std::string> lines;
  while (!all.empty()) {
    const std::size_t end = std::min(all.find('\n'), all.size());
    lines.emplace_back(all.substr(0, end));
    all.remove_prefix(std::min(end + 1, all.size()));
  }
  return lines;
}

/// All that is no white space.
std::string without_spaces(std::string_view line) {
  std::string out;
  text::for_each_word(line, [&](std::string_view word) { out += word; });
  return out;
}

void check_utf8(std::string_view line) {
  bool valid = true;
  for (std::size_t at = 0; at < line.size();) {
    const text::CodePoint point = text::code_point_at(line, at);
    expect(point.length >= 1 && at + static_cast<std::size_t>(point.length) <= line.size(), "a code point is within its text");
    valid = valid && point.valid;
    at += static_cast<std::size_t>(point.length);
  }
  expect(text::is_utf8(line) == valid, "a text is UTF-8 where all its code points are");
  const std::string mended = text::encode_utf8(text::decode_utf8(line));
  expect(text::is_utf8(mended), "what is encoded is UTF-8");
  expect(!valid || mended == line, "UTF-8 that is decoded and encoded is the same");
  expect(text::is_utf8(text::lowercase(line)), "lower case is UTF-8");
  const std::string collapsed = text::collapse_spaces(line);
  expect(text::collapse_spaces(collapsed) == collapsed, "collapsed spaces stay as they are");
  expect(without_spaces(collapsed) == without_spaces(line), "collapsing takes away nothing but spaces");
}

/// The parts of a text stand in it one after the other, and nothing but white space is between them.
void check_parts(std::string_view whole, const std::vector<std::string_view>& parts) {
  const char* at = whole.data();
  std::string all;
  for (const std::string_view part : parts) {
    expect(!part.empty() && part.data() >= at && part.data() + part.size() <= whole.data() + whole.size(),
           "parts stand in their text, in order");
    at = part.data() + part.size();
    all += without_spaces(part);
  }
  expect(all == without_spaces(whole), "nothing but white space is lost between parts");
}

/// `matches` as it is defined, by trying everything.
bool matches_slowly(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() == '*')
    return matches_slowly(pattern.substr(1), name) || (!name.empty() && matches_slowly(pattern, name.substr(1)));
  return !name.empty() && pattern.front() == name.front() && matches_slowly(pattern.substr(1), name.substr(1));
}

void check_scores(const std::vector<std::string>& lines) {
  const auto within = [](double score) { return score >= 0 && score <= 100.001; };
  const std::vector<std::string> turned(lines.rbegin(), lines.rend());
  expect(within(text::bleu(lines, turned).score) && within(text::bleu(lines, turned, {.lowercase = true}).score),
         "BLEU is a number from 0 to 100");
  expect(within(text::chrf(lines, turned).score), "chrF is a number from 0 to 100");
}

void check_corpus(const text::Corpus& corpus, const text::ReadOptions& options) {
  const auto& r = corpus.report;
  expect(r.lines == r.pairs + r.empty + r.too_long + r.malformed + r.invalid_utf8 + r.duplicates,
         "the lines of a report are the sum of its counts");
  expect(r.pairs == corpus.size(), "a report counts the pairs");
  expect(!r.text().empty(), "a report says something");
  std::set<std::pair<std::string, std::string>> seen;
  for (const auto& [source, target] : corpus) {
    for (const auto& side : {source, target}) {
      expect(!side.empty() && text::is_utf8(side) && text::collapse_spaces(side) == side,
             "a sentence is text, without odd spaces");
      expect(text::count_code_points(side) <= options.max_characters, "a sentence is no longer than allowed");
    }
    expect(seen.emplace(source, target).second || !options.remove_duplicates, "duplicates are removed");
  }
  (void)text::suspicions(corpus);
  if (corpus.size() < 3) return;
  const auto parts = text::split_by_source(corpus, {.validation = 1, .test = 1});
  expect(parts.train.size() + parts.validation.size() + parts.test.size() == corpus.size(), "a split has all pairs");
  std::set<std::string> held_out;
  for (const auto& pair : parts.validation) held_out.insert(pair.source);
  for (const auto& pair : parts.test) expect(held_out.count(pair.source) == 0, "the parts of a split share no source");
  for (const auto& pair : parts.test) held_out.insert(pair.source);
  for (const auto& pair : parts.train) expect(held_out.count(pair.source) == 0, "the parts of a split share no source");
}

text::ReadOptions read_options(unsigned flags) {
  return {.max_characters = (flags & 4) != 0 ? 5 : 1000,
          .remove_duplicates = (flags & 1) != 0,
          .skip_invalid_utf8 = (flags & 2) != 0};
}

/// Small tokenizers of every kind.
const std::vector<text::SentencePiece>& tokenizers() {
  static const auto all = [] {
    const std::vector<std::string> sentences{"one small house", "two quiet rivers", "no green window", "a bright old stone"};
    std::vector<text::SentencePiece> list;
    for (const auto& [kind, bytes] :
         {std::pair{text::SentencePieceModel::unigram, false}, std::pair{text::SentencePieceModel::bpe, false},
          std::pair{text::SentencePieceModel::unigram, true}})
      list.push_back(text::SentencePiece::train(
          sentences, {.vocabulary = bytes ? 300 : 60, .model = kind, .byte_fallback = bytes, .normalization = "identity"}));
    return list;
  }();
  return all;
}

void check_tokenizer(const text::SentencePiece& model, std::string_view line) {
  std::vector<token_t> tokens;
  const bool taken = answers<ValueError>([&] { tokens = model.encode(line); });
  expect(taken == text::is_utf8(line), "a line is taken where it is UTF-8");
  if (!taken) return;
  for (const token_t token : tokens) expect(token >= 0 && token < model.size(), "a token is within the vocabulary");
  const auto names = model.pieces(line);
  expect(names.size() == tokens.size(), "there are as many pieces as tokens");
  (void)model.join(names);
  (void)model.decode(tokens);
}

}  // namespace

int text(Bytes bytes) {
  const auto lines = lines_of(text_of(bytes.first(std::min<std::size_t>(bytes.size(), 4096))));
  for (const std::string& line : lines) {
    check_utf8(line);
    (void)text::tokenize_13a(line);
    check_parts(line, text::split_to_fit(line, [](std::string_view part) { return text::count_code_points(part) <= 7; }));
    for (const auto& tokenizer : tokenizers()) check_tokenizer(tokenizer, line);
  }
  const auto whole = text_of(bytes);
  check_parts(whole, text::split_sentences(whole));
  if (!lines.empty()) check_scores(lines);
  if (lines.size() > 1) {
    const auto pattern = std::string_view(lines[0]).substr(0, 8), name = std::string_view(lines[1]).substr(0, 12);
    expect(matches(pattern, name) == matches_slowly(pattern, name), "a pattern matches what its characters and stars do");
  }
  return 0;
}
std::vector<std::string> text_seeds() {
  return {"encoder.*\nencoder.layers.0.bias\n", "Dr. Who came. \"He left!\" 3. Oktober, e.g. this… And 12,5 %.\nno green window",
          "日本語の文。次の文！ そして、これ\n\xE2\x80\xA8ΟΔΟΣ İstanbul Straße\xC2\xA0x",
          "\xFF\xC3(\xED\xA0\x80 a\xF4\x90\x80\x80\n\tx  y "};
}

int corpus_tsv(Bytes bytes) {
  Input input(bytes);
  const auto options = read_options(input.byte());
  const fs::path path = put(scratch() / "pairs.tsv", input.rest());
  answers<FormatError, IoError>([&] {
    const auto corpus = text::read_tsv(path, options);
    check_corpus(corpus, options);
    std::string all = "\xEF\xBB\xBF";  // which is taken away, and what a sentence may begin with is not
    for (const auto& pair : corpus) all += pair.source + '\t' + pair.target + '\n';
    expect(text::read_tsv(put(path, all), options).pairs == corpus.pairs, "pairs that are written and read are the same");
  });
  return 0;
}
std::vector<std::string> corpus_tsv_seeds() {
  const std::string lines = "one\tuno\ntwo small words\tdos  palabras\tnote\r\n\n\tempty\none\tuno\nthree\ttres\nfour\tcuatro";
  return {'\0' + lines, '\1' + lines, "\2\xEF\xBB\xBF" + lines + "\nno tab\n\xFF\tx\n", '\4' + lines + "\na long one\tx\n"};
}

int corpus_aligned(Bytes bytes) {
  Input input(bytes);
  const auto options = read_options(input.byte());
  // The two files are parted by a byte that no UTF-8 has.
  const std::string_view all = text_of(input.rest());
  const std::size_t middle = std::min(all.find('\xFE'), all.size());
  const fs::path source = put(scratch() / "source.txt", all.substr(0, middle)),
                 target = put(scratch() / "target.txt", all.substr(std::min(middle + 1, all.size())));
  answers<FormatError, IoError>([&] {
    const auto corpus = text::read_aligned(source, target, options);
    check_corpus(corpus, options);
    std::string sources = "\xEF\xBB\xBF", targets = sources;
    for (const auto& pair : corpus) sources += pair.source + '\n', targets += pair.target + '\n';
    expect(text::read_aligned(put(source, sources), put(target, targets), options).pairs == corpus.pairs,
           "pairs that are written and read are the same");
  });
  return 0;
}
std::vector<std::string> corpus_aligned_seeds() {
  return {std::string(1, '\0') + "one\ntwo\nthree\nfour\xFEuno\ndos\ntres\ncuatro\n", "\3one\none\ntwo\xFEuno\nuno\n\xFF",
          "\4"
          "a\xFE",
          std::string(1, '\0') + "one\ntwo\xFEuno"};
}

int sentencepiece(Bytes bytes) {
  std::optional<text::SentencePiece> model;
  answers<FormatError>([&] { model = text::SentencePiece::from_serialized(text_of(bytes)); });
  if (!model) return 0;
  expect(model->size() > 0, "a model has pieces");
  for (const token_t mark : {model->pad(), model->bos(), model->eos(), model->unk()})
    expect(mark >= -1 && mark < model->size(), "a mark is within the vocabulary");
  for (const std::string_view line : {"", " ", "one small house", "ab  \xE2\x96\x81z\xFF\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD",
                                      "\xE2\x85\xA3 \xEF\xBC\xA1 \xCC\x81 \xC2\xAD\xE2\x80\x8B 12"})
    answers<Error>([&] { check_tokenizer(*model, line); });
  const index_t shown = std::min<index_t>(model->size(), 300);
  std::vector<token_t> tokens;
  for (token_t t = 0; t < static_cast<token_t>(shown); ++t) {
    tokens.push_back(t);
    const std::string& piece = model->piece(t);
    const token_t found = model->token(piece);
    expect(found >= 0 && found < model->size(), "a piece has a token");
  }
  answers<Error>([&] { (void)model->decode(tokens); });
  return 0;
}
std::vector<std::string> sentencepiece_seeds() {
  std::vector<std::string> seeds;
  for (const auto& tokenizer : tokenizers()) seeds.push_back(tokenizer.serialized());
  return seeds;
}

}  // namespace fuzz
