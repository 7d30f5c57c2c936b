#pragma once

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::core or attend::attend"
#else

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "attend/io/model_files.hpp"
#include "attend/io/weight_files.hpp"
#include "attend/marian/config.hpp"
#include "attend/marian/export.hpp"
#include "attend/marian/tokenizer.hpp"
#include "attend/marian/weights.hpp"
#include "attend/nn/quantized.hpp"
#include "attend/pretrained/search.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/translation_model.hpp"

/// Marian models in the folders of the `transformers` library, such as the Helsinki-NLP/opus-mt-* family.
namespace attend::io {

/// How `save_marian` writes.
struct SaveMarianOptions {
  DType stored = DType::f32;  ///< the type of the stored numbers: f32, bf16 or f16
  /// What `generation_config.json` says. Its length penalty must be Marian's, or 0.
  decode::TranslatorOptions search = {
      .length_penalty = 1, .normalization = decode::LengthNormalization::marian, .stop = decode::Stop::present_length};
  /// Lets the decoder begin with an embedding of zeros, as the first Marian does and CTranslate2 takes for granted: the begin
  /// token's own goes into row 0 of a stored table of positions. Off, the begin token keeps its embedding, which serves programs
  /// that compute positions and do not read the table.
  bool start_from_zero = true;
};

}  // namespace attend::io

namespace attend::detail {

/// A tokenizer for Marian's files, and how the model's rows fit it.
struct MarianPlan {
  text::MarianTokenizer tokenizer;
  MarianLayout layout;
  std::vector<token_t> never;  ///< tokens that no translation holds
};

/// For a tokenizer of this library. Marian's marks are `</s>`, `<unk>` and, at the end of the vocabulary, `<pad>`, which targets
/// begin with: that is this library's begin token. The padding of this library is of no use there.
inline MarianPlan marian_plan(const text::SentencePiece& pieces, const io::MarianConfig& model, bool move_begin,
                              const decode::TranslatorOptions& search) {
  const token_t eos = pieces.eos(), unk = pieces.unk(), pad = pieces.pad();
  const index_t rows = model.model.decoder.vocabulary;
  const token_t begin = pieces.bos() >= 0 ? pieces.bos() : eos;
  const token_t last = begin != eos ? begin : pad;  // the row that becomes <pad>; -1: one of zeros is made for it
  std::vector<index_t> order{eos, unk};
  std::vector<std::string> names{"</s>", "<unk>"};
  std::vector<token_t> never;
  if (search.unknown == decode::Unknown::suppress) never.push_back(1);
  for (token_t t = 0; t < rows; ++t) {
    if (t == eos || t == unk || t == last) continue;
    const bool unused = t >= pieces.size() || t == pad || t == pieces.bos();
    if (unused) never.push_back(static_cast<token_t>(order.size()));
    order.push_back(t);
    names.push_back(unused ? "<unused" + std::to_string(t) + ">" : pieces.piece(t));
  }
  const auto pad_token = static_cast<token_t>(order.size());
  never.push_back(pad_token);
  order.push_back(last);
  names.emplace_back("<pad>");

  text::MarianTokenizer tokenizer(pieces, pieces, text::MarianVocabulary(std::move(names)));
  MarianLayout layout{.config = model, .source_rows = order, .target_rows = order, .begin_row = begin, .move_begin = move_begin};
  layout.config.model.encoder.vocabulary = layout.config.model.decoder.vocabulary = count_of(order);
  layout.config.eos = 0;
  layout.config.pad = pad_token;
  layout.config.begin = begin == eos && !move_begin ? 0 : pad_token;
  return {tokenizer.with_begin(layout.config.begin), std::move(layout), std::move(never)};
}

/// For a Marian tokenizer, whose vocabulary stays as it is.
inline MarianPlan marian_plan(const text::MarianTokenizer& tokenizer, const io::MarianConfig& model, bool move_begin,
                              const decode::TranslatorOptions& search) {
  const index_t sources = model.model.encoder.vocabulary, targets = model.model.decoder.vocabulary;
  MarianLayout layout{.config = model, .source_rows = {}, .target_rows = {}, .begin_row = tokenizer.bos()};
  for (index_t i = 0; i < sources; ++i) layout.source_rows.push_back(i);
  for (index_t i = 0; i < targets; ++i) layout.target_rows.push_back(i);
  layout.config.eos = tokenizer.eos();
  layout.config.pad = tokenizer.pad();
  layout.config.begin = tokenizer.bos();
  // CTranslate2 drops the last token of the vocabulary, and only <pad> can be spared.
  layout.move_begin = move_begin && tokenizer.bos() == tokenizer.pad() && tokenizer.pad() == targets - 1;
  std::vector<token_t> never;
  if (search.suppress_marks) never.push_back(tokenizer.pad());
  if (search.suppress_marks && tokenizer.bos() != tokenizer.eos()) never.push_back(tokenizer.bos());
  if (search.unknown == decode::Unknown::suppress) never.push_back(tokenizer.unk());
  for (index_t t = tokenizer.target_size(); t < targets; ++t) never.push_back(static_cast<token_t>(t));
  return {tokenizer, std::move(layout), std::move(never)};
}

/// What about a tokenizer stands in the way of a Marian folder.
inline std::vector<std::string> marian_obstacles(const text::AnyTokenizer& tokenizer, const nn::ModelOptions& o) {
  std::vector<std::string> list;
  const auto* pieces = tokenizer.as<text::SentencePiece>();
  if (pieces == nullptr && tokenizer.as<text::MarianTokenizer>() == nullptr)
    list.emplace_back("the tokenizer is neither a SentencePiece nor a MarianTokenizer");
  const index_t sources = o.encoder.vocabulary, targets = o.decoder.vocabulary;
  if (tokenizer.size() > sources || tokenizer.target_size() > targets)
    list.push_back("the tokenizer has " + std::to_string(tokenizer.size()) + " and " + std::to_string(tokenizer.target_size()) +
                   " tokens, the model's vocabularies " + std::to_string(sources) + " and " + std::to_string(targets));
  else if (pieces != nullptr && sources != targets)
    list.push_back("the model's vocabularies have " + std::to_string(sources) + " and " + std::to_string(targets) +
                   " tokens, and one tokenizer for both sides");
  if (tokenizer.eos() < 0) list.emplace_back("the tokenizer has no end token");
  return list;
}

/// What about a search stands in the way, given the size of the vocabulary.
inline std::vector<std::string> marian_obstacles(const decode::TranslatorOptions& search, index_t vocabulary) {
  auto list = io::pretrained_search_obstacles(search);
  const auto check = [&](const char* name, token_t token) {
    if (token < 0 || token >= vocabulary)
      list.push_back("the search's " + std::string(name) + " has the token " + std::to_string(token) +
                     ", outside the vocabulary of " + std::to_string(vocabulary));
  };
  for (const auto& sequence : search.banned)
    for (const token_t token : sequence) check("banned", token);
  for (const token_t token : search.suppressed) check("suppressed", token);
  for (const token_t token : search.end_tokens) check("end_tokens", token);
  if (search.first >= 0) check("first", search.first);
  return list;
}

/// How a folder of that configuration would have it searched. Throws IoError, FormatError.
inline decode::TranslatorOptions marian_search(const io::FolderReader& reader, const io::MarianConfig& config) {
  const auto path = reader.file(reader.contains("generation_config.json") ? "generation_config.json" : "config.json");
  auto search = io::pretrained_search_from(io::read_json(path), path.string(), config);
  search.max_length = std::min<index_t>(search.max_length, config.model.decoder.max_length - 1);
  return search;
}

/// Whether the embedding of a token is all zeros.
template <class T, Device D>
bool embedding_is_zero(const nn::Transformer<T, D>& model, token_t token) {
  const auto row = model.decoder.embed_tokens->weight.value().rows(token, 1).to_host();
  return std::all_of(row.data(), row.data() + row.size(), [](T x) { return x == T(0); });
}

}  // namespace attend::detail

namespace attend::io {

/// Reads a Marian folder: `config.json`, the weights (see `WeightFiles`; converted to `T`), the tokenizer's files (see
/// `text::MarianTokenizer`), and, from `generation_config.json` or else from `config.json`, how it is to be searched. The model
/// is in evaluation mode. Targets begin with the tokenizer's `bos()`, which is `decoder_start_token_id`.
///
/// Throws IoError if a file is missing, FormatError if one is not what it should be; all that is missing, unexpected or of
/// the wrong size stands in one message.
template <class T = float, Device D = Cpu>
TranslationModel<T, D> load_marian(const std::filesystem::path& folder) {
  const FolderReader reader(folder);
  const auto config_path = reader.file("config.json");
  const Json config_json = read_json(config_path);
  const MarianConfig config = marian_config_from(config_json, config_path.string());
  const auto file = WeightFiles::open(reader);
  const auto tokenizer = text::MarianTokenizer::load(folder);

  std::string faults;
  const auto fits = [&](const char* name, index_t tokens, index_t rows) {
    if (tokens > rows)
      faults += (faults.empty() ? "" : "; ") + std::string(name) + " has " + std::to_string(tokens) +
                " tokens, config.json says " + std::to_string(rows);
  };
  fits("vocab.json", tokenizer.size(), config.model.encoder.vocabulary);
  if (tokenizer.has_two_vocabularies()) fits("target_vocab.json", tokenizer.target_size(), config.model.decoder.vocabulary);
  else fits("vocab.json, for targets,", tokenizer.target_size(), config.model.decoder.vocabulary);
  if (tokenizer.eos() != config.eos)
    faults += (faults.empty() ? "" : "; ") + std::string("the end token is ") + std::to_string(tokenizer.eos()) +
              " in the vocabulary and " + std::to_string(config.eos) + " in config.json";
  if (!tokenizer.has_target_piece(config.begin))
    faults += (faults.empty() ? "" : "; ") + std::string("the vocabulary has no piece for decoder_start_token_id, ") +
              std::to_string(config.begin);
  auto model = marian_model<T, D>(config, file, faults);

  return {.model = std::move(model),
          .tokenizer = tokenizer.with_begin(config.begin),
          .search = detail::marian_search(reader, config)};
}

/// Writes, all files or none, a folder that the `transformers` library (MarianMTModel, MarianTokenizer), CTranslate2's converter
/// and `load_marian` can open. They give the same translations if they search the same way.
///
/// The tokenizer is a SentencePiece, whose marks get Marian's numbers and names (`</s>` 0, `<unk>` 1, `<pad>` last, which stands
/// for the begin token), or a MarianTokenizer. All logits are those of the model, except for the begin token's, which no
/// translation holds: see `SaveMarianOptions::start_from_zero`. CTranslate2 needs one vocabulary for both sides and as many heads
/// in the decoder as in the encoder. The kinds of dropout that Marian does not have are left out.
///
/// Throws ValueError with all that stands in the way, IoError; the folder is then as it was.
template <class T, Device D>
void save_marian(const std::filesystem::path& folder, const nn::Transformer<T, D>& model, const text::AnyTokenizer& tokenizer,
                 const SaveMarianOptions& options = {}) {
  nn::check_floats("save_marian", model);
  auto obstacles = detail::marian_obstacles(model.options);
  for (auto& more : {detail::marian_obstacles(tokenizer, model.options),
                     detail::marian_obstacles(options.search, model.options.decoder.vocabulary)})
    obstacles.insert(obstacles.end(), more.begin(), more.end());
  if (options.stored == DType::f64 || !is_floating(options.stored))
    obstacles.push_back("numbers cannot be stored as " + std::string(dtype_name(options.stored)));
  if (!obstacles.empty()) {
    std::string all;
    for (const auto& obstacle : obstacles) all += (all.empty() ? "" : "; ") + obstacle;
    throw ValueError("save_marian: this cannot be a Marian model: ", all);
  }

  MarianConfig config{.model = model.options};
  config.model.share_embeddings = model.options.share_embeddings && model.options.tie_head;
  const token_t begin = tokenizer.bos() >= 0 ? tokenizer.bos() : tokenizer.eos();
  const bool move = options.start_from_zero && !detail::embedding_is_zero(model, begin);
  const auto* pieces = tokenizer.as<text::SentencePiece>();
  const auto plan = pieces ? detail::marian_plan(*pieces, config, move, options.search)
                           : detail::marian_plan(*tokenizer.as<text::MarianTokenizer>(), config, move, options.search);
  const auto write = [&](const std::filesystem::path& staging) {
    write_json(staging / "config.json", to_json(plan.layout.config, options.stored));
    auto search = options.search;
    if (pieces != nullptr) {  // numbered as the file numbers its tokens
      const auto& order = plan.layout.target_rows;
      const auto renumber = [&](token_t& token) {
        token = static_cast<token_t>(std::find(order.begin(), order.end(), token) - order.begin());
      };
      for (auto& sequence : search.banned) std::for_each(sequence.begin(), sequence.end(), renumber);
      std::for_each(search.suppressed.begin(), search.suppressed.end(), renumber);
      std::for_each(search.end_tokens.begin(), search.end_tokens.end(), renumber);
      if (search.first >= 0) renumber(search.first);
    }
    write_json(staging / "generation_config.json", to_json(search, plan.layout.config, plan.never));
    plan.tokenizer.save_files(staging);
    detail::MarianWriter<T, D>(model, plan.layout, options.stored).write(staging / "model.safetensors");
  };
  write_folder_atomically(folder, write, replacing_tokenizer());
}

}  // namespace attend::io

#endif  // C++20
