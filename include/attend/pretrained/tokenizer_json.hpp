#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/io/json.hpp"
#include "attend/pretrained/added_tokens.hpp"
#include "attend/pretrained/bpe.hpp"
#include "attend/pretrained/piece_model.hpp"
#include "attend/pretrained/piece_table.hpp"
#include "attend/pretrained/text_steps.hpp"
#include "attend/pretrained/tokenizer_settings.hpp"
#include "attend/pretrained/unigram.hpp"

/// Tokenizers of the tokenizers library: `tokenizer.json`, and the older `vocab.json` with `merges.txt`.

namespace attend::text {

/// Pieces by the steps of the tokenizers library: a part is normalized, cut at the added tokens that are looked for after that,
/// cut into words, and each word into pieces by a model of pairs or of scores.
class StepwisePieces final : public PieceModel {
 public:
  using Model = std::variant<BytePairModel, UnigramModel>;

  /// `added`: those of the tokenizer's that are `normalized`.
  StepwisePieces(Model model, TextSteps steps, std::vector<AddedToken> added)
      : model_(std::move(model)), steps_(std::move(steps)) {
    for (AddedToken& token : added) normalize(token.content);
    std::erase_if(added, [](const AddedToken& token) { return token.content.empty(); });
    added_ = AddedTokens(std::move(added));
  }

  void encode(std::string_view part, bool first, std::vector<token_t>& tokens) const override {
    std::string text(part);
    normalize(text);
    added_.split(
        text, true,
        [&](std::string_view rest) {
          std::vector<TextPart> parts{{std::string(rest), first && rest.data() == text.data()}};
          for (const auto& cut : steps_.cutters) cut(parts);
          for (const TextPart& word : parts)
            if (!word.text.empty()) std::visit([&](const auto& model) { model.encode(word.text, tokens); }, model_);
        },
        [&](token_t token) { tokens.push_back(token); });
  }
  [[nodiscard]] std::string join(const std::vector<std::string>& pieces) const override {
    std::vector<std::string> texts = pieces;
    for (const auto& decode : steps_.decoders) decode(texts);
    std::string text;
    for (std::size_t i = 0; i < texts.size(); ++i) text += (i > 0 && steps_.decoders.empty() ? " " : "") + texts[i];
    return text;
  }
  [[nodiscard]] index_t size() const override { return table().size(); }
  [[nodiscard]] std::string piece(token_t token) const override { return table().piece(token); }
  [[nodiscard]] token_t token(const std::string& piece) const override { return table().token(piece); }
  [[nodiscard]] std::string shown(const std::string& piece) const override {
    if (!steps_.byte_level) return piece;
    std::string text = characters_as_bytes({piece});
    // Bytes that are only a part of a character, and control characters, stay as they are written.
    const auto is_odd = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
    if (text.find("\uFFFD") != text.npos || std::any_of(text.begin(), text.end(), is_odd)) text = piece;
    replace_all(text, " ", "\u2581");
    replace_all(text, "\u0120", "\u2581");  // what stands for a space in such pieces
    return text;
  }
  [[nodiscard]] bool joins_added() const override { return true; }

 private:
  void normalize(std::string& text) const {
    for (const auto& step : steps_.normalizers) step(text);
  }
  [[nodiscard]] const PieceTable& table() const {
    return std::visit([](const auto& model) -> const PieceTable& { return model.pieces(); }, model_);
  }

  Model model_;
  TextSteps steps_;
  AddedTokens added_;
};

}  // namespace attend::text

namespace attend::detail {

/// What a `tokenizer.json` describes.
struct TokenizerJson {
  std::shared_ptr<const text::PieceModel> model;
  std::vector<text::AddedToken> added;
  std::vector<token_t> prefix, suffix;  // what texts begin and end with
};

/// `a b`: two pieces to be merged.
inline std::pair<std::string, std::string> merge_of(std::string_view line, const std::string& where) {
  const std::size_t space = line.find(' ');
  if (space == 0 || space == line.npos || space + 1 == line.size() || line.find(' ', space + 1) != line.npos)
    throw FormatError(where, ": has the merge '", printable(line), "', expected two pieces with a space between");
  return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

/// A model of type BPE. Throws FormatError for what is damaged or not supported.
inline text::BytePairModel byte_pair_model(const io::JsonObject& json) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!json.get<std::string>(key, "").empty())
      throw FormatError(json.name(), ": the model has a ", key, ", which is not supported");
  if (json.get<double>("dropout", 0) != 0)
    throw FormatError(json.name(), ": the model has dropout, and pieces are never drawn at random here");
  std::vector<std::pair<std::string, std::string>> merges;
  const auto list = json.json().find("merges");
  if (list == json.json().end() || !list->is_array()) throw FormatError(json.name(), ": the model has no array merges");
  for (const auto& item : *list) {
    const bool is_pair = item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string();
    if (!is_pair && !item.is_string())
      throw FormatError(json.name(), ": merges has ", json_excerpt(item), ", expected two pieces");
    if (is_pair) merges.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
    else merges.push_back(merge_of(item.get_ref<const std::string&>(), json.name()));
  }
  text::PieceTable pieces = piece_table(json.object("vocab"));
  text::UnknownOptions unknown{.fuse = json.get<bool>("fuse_unk", false), .bytes = json.get<bool>("byte_fallback", false)};
  if (const auto piece = json.get<std::string>("unk_token", ""); !piece.empty()) {
    unknown.token = pieces.token(piece);
    if (unknown.token < 0) throw FormatError(json.name(), ": the vocabulary has no ", printable(piece), ", which is unk_token");
  }
  return {std::move(pieces), merges, unknown, json.get<bool>("ignore_merges", false), json.name()};
}

/// A model of type Unigram. Throws FormatError for what is damaged or not supported.
inline text::UnigramModel unigram_model(const io::JsonObject& json) {
  const auto list = json.json().find("vocab");
  if (list == json.json().end() || !list->is_array() || list->empty())
    throw FormatError(json.name(), ": the model has no array vocab of pieces and scores");
  std::vector<std::string> pieces;
  std::vector<double> scores;
  for (const auto& item : *list) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number())
      throw FormatError(json.name(), ": vocab has ", json_excerpt(item), ", expected a piece and its score");
    pieces.push_back(item[0].get<std::string>());
    scores.push_back(item[1].get<double>());
  }
  const auto unknown = json.get<token_t>("unk_id");
  if (unknown < 0 || unknown >= count_of(pieces))
    throw FormatError(json.name(), ": unk_id is ", unknown, ", outside the vocabulary of ", pieces.size());
  return {text::PieceTable(std::move(pieces)),
          std::move(scores),
          {.token = unknown, .fuse = true, .bytes = json.get<bool>("byte_fallback", false)}};
}

/// What a post-processor puts around a text.
inline void read_frame(const io::JsonObject& json, TokenizerJson& out) {
  const auto type = json.get<std::string>("type");
  if (type == "ByteLevel") return;  // says something of positions alone
  if (type == "RobertaProcessing" || type == "BertProcessing") {
    for (auto [key, tokens] : {std::pair{"cls", &out.prefix}, std::pair{"sep", &out.suffix}}) {
      const auto mark = json.json().find(key);
      if (mark == json.json().end() || !mark->is_array() || mark->size() != 2)
        throw FormatError(json.name(), ": ", type, " has no ", key, ", expected a mark and its number");
      const io::Json number = {{key, (*mark)[1]}};
      tokens->push_back(io::JsonObject(number, json.name()).get<token_t>(key));
    }
  } else if (type == "TemplateProcessing") {
    const auto single = json.json().find("single");
    if (single == json.json().end() || !single->is_array())
      throw FormatError(json.name(), ": TemplateProcessing has no array single");
    bool after = false;
    for (const auto& item : *single) {
      const io::JsonObject part(item, json.name());
      if (part.contains("Sequence")) {
        if (std::exchange(after, true)) throw FormatError(json.name(), ": TemplateProcessing has the text twice");
        continue;
      }
      const auto name = part.object("SpecialToken").get<std::string>("id");
      const auto ids = json.object("special_tokens").object(name).get<std::vector<token_t>>("ids");
      auto& tokens = after ? out.suffix : out.prefix;
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    }
  } else if (type == "Sequence") {
    const auto list = json.json().find("processors");
    if (list == json.json().end() || !list->is_array()) throw FormatError(json.name(), ": a Sequence has no array processors");
    for (const auto& item : *list) {
      const io::JsonObject part(item, json.name());
      if (part.get<std::string>("type") == "Sequence")
        throw FormatError(json.name(), ": has Sequences of post-processors in others");
      read_frame(part, out);
    }
  } else {
    throw FormatError(json.name(), ": has the post-processor ", printable(type), ", which is not supported");
  }
}

/// Reads a `tokenizer.json`. Throws FormatError for what is damaged, and by its name for what is not supported.
inline TokenizerJson read_tokenizer_json(const io::Json& json, const std::string& name) {
  const io::JsonObject object(json, name);
  TokenizerJson out;
  if (const auto list = json.find("added_tokens"); list != json.end() && list->is_array())
    for (const auto& item : *list) {
      const io::JsonObject entry(item, name);
      out.added.push_back(TokenizerSettings::added_token(entry));
      out.added.back().token = entry.get<token_t>("id");
    }
  if (object.contains("post_processor")) read_frame(object.object("post_processor"), out);
  const io::JsonObject model = object.object("model");
  // Files from before models had a type are told by what their vocabulary is.
  const auto vocabulary = model.json().find("vocab");
  const bool is_list = vocabulary != model.json().end() && vocabulary->is_array();
  const auto type = model.get<std::string>("type", is_list ? "Unigram" : "BPE");
  if (type != "BPE" && type != "Unigram")
    throw FormatError(name, ": has a model of the type ", printable(type), ", expected BPE or Unigram");
  std::vector<text::AddedToken> normalized;
  std::copy_if(out.added.begin(), out.added.end(), std::back_inserter(normalized),
               [](const auto& token) { return token.normalized; });
  text::StepwisePieces::Model pieces =
      type == "BPE" ? text::StepwisePieces::Model(byte_pair_model(model)) : text::StepwisePieces::Model(unigram_model(model));
  out.model = std::make_shared<text::StepwisePieces>(std::move(pieces), TextStepsReader::read(object), std::move(normalized));
  return out;
}

/// The model of `vocab.json` and the lines of `merges.txt`, whose pieces are those of bytes, as GPT-2 and BART have them.
inline std::shared_ptr<const text::PieceModel> byte_level_pieces(const io::JsonObject& vocabulary, std::string_view merges,
                                                                 const std::string& merges_name, bool add_prefix_space) {
  std::vector<std::pair<std::string, std::string>> list;
  for (std::size_t begin = 0; begin < merges.size();) {
    const std::size_t end = std::min(merges.find('\n', begin), merges.size());
    std::string_view line = merges.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    begin = end + 1;
    if (!line.empty() && !line.starts_with("#version")) list.push_back(merge_of(line, merges_name));
  }
  text::BytePairModel model(piece_table(vocabulary), list, {}, false, merges_name);
  const io::Json steps = {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}}},
                          {"decoder", {{"type", "ByteLevel"}}}};
  return std::make_shared<text::StepwisePieces>(std::move(model), TextStepsReader::read(io::JsonObject(steps, "byte level")),
                                                std::vector<text::AddedToken>{});
}

}  // namespace attend::detail
