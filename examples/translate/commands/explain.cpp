// translate explain: one sentence, and all that the model did with it, as a page.

#include "pages/explain.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/tokenizer.hpp"
#include "attend/decode/beam.hpp"
#include "attend/decode/beam_trace.hpp"
#include "attend/translate/translator_options.hpp"
#include "commands.hpp"
#include "flags/language_flags.hpp"
#include "flags/place.hpp"
#include "flags/search_flags.hpp"
#include "pages/explain_model.hpp"
#include "pages/markup.hpp"

namespace translate {

namespace {

using namespace attend;
using Tokens = std::vector<token_t>;

struct ExplainCommand {
  std::string sentence, model, target, out = "explain.html";
  bool given = false, listed = false;  // whether there is a --target, and an --n-best
  LanguageFlags languages;
  SearchFlags search;
  Place place;

  /// One search, one page, and a list to look at.
  void adjust(decode::TranslatorOptions& o) const {
    if (!listed) o.n_best = o.sample ? 1 : std::min<index_t>(o.beam, 4);
    o.split_sentences = false, o.long_input = decode::LongInput::refuse;
  }
};

/// A model and how it is asked.
class Explainer {
 public:
  explicit Explainer(const ExplainCommand& flags)
      : flags_(flags),
        model_(load_explained(flags.model, flags.languages, flags.place)),
        tokenizer_(model_->tokenizer()),
        options_(flags.search.over(model_->search())) {
    flags.adjust(options_);
    check_value(tokenizer_.eos() >= 0, "explain", "the tokenizer has no end token");
    begin_ = tokenizer_.bos() >= 0 ? tokenizer_.bos() : tokenizer_.eos();
    end_ = tokenizer_.eos();
  }

  [[nodiscard]] report::Explanation explain() {
    report::Explanation data;
    data.source = flags_.sentence;
    data.given = flags_.given;
    source_ = tokenizer_.encode(flags_.sentence);
    check_value(!source_.empty(), "explain", "the sentence is empty");
    text::add_source_end(tokenizer_, source_);
    check_length("the sentence", source_, model_->sizes().encoder.max_length);
    for (const token_t id : source_) data.source_pieces.push_back(piece(id, false));
    show_unknown(data.source_pieces, flags_.sentence);

    decode::BeamTrace trace;
    std::vector<Tokens> found;
    if (!flags_.given) found = search(data, trace);
    else found = {given_target()};
    auto inputs = found.front();
    inputs.insert(inputs.begin(), begin_);
    check_length("the translation", inputs, model_->sizes().decoder.max_length);
    const auto looks = model_->look(source_, inputs);
    auto outputs = found.front();
    if (flags_.given || data.translations.front().finished) outputs.push_back(end_);
    if (flags_.given) data.translations = {rated(outputs, looks)};
    data.searched = !trace.sentences.empty();
    if (data.searched) data.beam = std::move(trace.sentences.front());
    else data.beam = alternatives(outputs, looks);
    for (const auto& candidate : data.beam) data.beam_pieces.push_back(piece(candidate.token, true));
    add_attention(data, inputs, outputs, looks);
    add_settings(data);
    return data;
  }

 private:
  [[nodiscard]] report::Piece piece(token_t id, bool target) const {
    using report::PieceKind;
    report::Piece p{"<unused>", id, PieceKind::text};  // the model may have room for more tokens than there are
    if (id < (target ? tokenizer_.target_size() : tokenizer_.size()))
      p.text = target ? tokenizer_.target_piece(id) : tokenizer_.piece(id);
    const auto hexadecimal = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
    if (id == tokenizer_.eos() || (target && is_end(id))) p.kind = PieceKind::end;
    else if (id == tokenizer_.unk()) p.kind = PieceKind::unk;
    else if (p.text.size() == 6 && p.text.rfind("<0x", 0) == 0 && hexadecimal(p.text[3]) && hexadecimal(p.text[4]))
      p.kind = PieceKind::byte;
    return p;
  }
  [[nodiscard]] bool is_end(token_t token) const {
    const auto& others = options_.end_tokens;
    return token == tokenizer_.eos() || std::find(others.begin(), others.end(), token) != others.end();
  }
  /// Puts what the sentence has there in the place of `<unk>`, if the tokenizer can tell.
  void show_unknown(std::vector<report::Piece>& pieces, const std::string& sentence) const {
    const auto* tokenizer = tokenizer_.as<text::SentencePiece>();
    if (!tokenizer) return;
    const auto shown = tokenizer->pieces(sentence);
    for (std::size_t i = 0; i < std::min(shown.size(), pieces.size()); ++i)
      if (pieces[i].kind == report::PieceKind::unk) pieces[i].text = shown[i];
  }
  [[nodiscard]] std::vector<report::Piece> target_pieces(const Tokens& tokens) const {
    std::vector<report::Piece> pieces;
    for (const token_t id : tokens) pieces.push_back(piece(id, true));
    if (flags_.given) show_unknown(pieces, flags_.target);
    return pieces;
  }

  static void check_length(const char* what, const Tokens& tokens, index_t longest) {
    check_value(count_of(tokens) <= longest, "explain", what, " has ", tokens.size(), " tokens, the model takes ", longest);
  }

  /// The tokens of the translation that was given, with the first one as a search would have it.
  [[nodiscard]] Tokens given_target() const {
    auto tokens = text::encode_whole_target(tokenizer_, flags_.target);
    if (tokenizer_.forced_begin() < 0 && options_.first >= 0) tokens.insert(tokens.begin(), options_.first);
    return tokens;
  }
  /// Whether translations begin with a token that is certain.
  [[nodiscard]] bool first_is_forced() const { return tokenizer_.forced_begin() >= 0 || options_.first >= 0; }

  /// Fills in the translations that a search finds, and gives their tokens.
  std::vector<Tokens> search(report::Explanation& data, decode::BeamTrace& trace) {
    auto options = options_;
    options.trace = &trace;
    std::vector<Tokens> found;  // of each
    for (auto& best : model_->translate(flags_.sentence, options)) {
      auto outputs = best.tokens;
      if (best.finished) outputs.push_back(best.end_token);
      if (best.finished && found.empty()) end_ = best.end_token;
      report::ScoredTranslation translation{std::move(best.text), target_pieces(outputs), {}, best.log_probability,
                                            best.score,           best.finished};
      translation.log_probabilities.assign(best.token_log_probabilities.begin(), best.token_log_probabilities.end());
      data.translations.push_back(std::move(translation));
      found.push_back(std::move(best.tokens));
    }
    return found;
  }

  /// Whether scores are normalised by the length.
  [[nodiscard]] bool normalises() const { return options_.length_penalty != 0; }
  [[nodiscard]] double score(double log_probability, std::size_t length) const {
    if (!normalises()) return log_probability;
    return decode::normalized_score(log_probability, length, options_.length_penalty, options_.normalization);
  }

  /// The translation that was given.
  [[nodiscard]] report::ScoredTranslation rated(const Tokens& outputs, const Looks& looks) const {
    report::ScoredTranslation t;
    t.text = flags_.target;
    t.pieces = target_pieces(outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      t.log_probabilities.push_back(static_cast<double>(looks.log_probabilities(i, outputs[i])));
    if (first_is_forced()) t.log_probabilities.front() = 0;  // as a search counts it
    t.log_probability = std::accumulate(t.log_probabilities.begin(), t.log_probabilities.end(), 0.0);
    t.score = score(t.log_probability, outputs.size());
    return t;
  }

  /// What was chosen at each step, among the most probable tokens there.
  [[nodiscard]] std::vector<decode::BeamCandidate> alternatives(const Tokens& outputs, const Looks& looks) const {
    constexpr index_t shown = 5;
    std::vector<decode::BeamCandidate> all;
    const index_t vocabulary = looks.log_probabilities.dim(1);
    index_t parent = -1;
    double sum = 0;
    for (std::size_t step = 0; step < outputs.size(); ++step) {
      const float* row = looks.log_probabilities.data() + static_cast<index_t>(step) * vocabulary;
      Tokens best(vocabulary);
      std::iota(best.begin(), best.end(), 0);
      const auto better = [row](token_t a, token_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; };
      const auto count = std::min(shown, vocabulary);
      std::partial_sort(best.begin(), best.begin() + count, best.end(), better);
      best.resize(count);
      if (std::find(best.begin(), best.end(), outputs[step]) == best.end()) best.push_back(outputs[step]);
      index_t next = parent;
      for (const token_t token : best) {
        const bool said = token == outputs[step];
        const double value = static_cast<double>(row[token]);
        if (said) next = count_of(all);
        all.push_back({static_cast<index_t>(step), parent, token, value, sum + value, score(sum + value, step + 1),
                       !said           ? decode::Fate::dropped
                       : is_end(token) ? decode::Fate::ended
                                       : decode::Fate::live});
      }
      parent = next;
      sum += static_cast<double>(row[outputs[step]]);
    }
    return all;
  }

  void add_attention(report::Explanation& data, const Tokens& inputs, const Tokens& outputs, const Looks& looks) const {
    auto read = target_pieces(Tokens(inputs.begin() + 1, inputs.end())), written = target_pieces(outputs);
    read.insert(read.begin(), {"", begin_, report::PieceKind::begin});
    if (written.size() < read.size()) written.push_back({"…", -1, report::PieceKind::text});  // cut off
    const auto add = [&](const char* name, const char* title, const char* note, const std::vector<report::Piece>& down,
                         const std::vector<report::Piece>& across, const std::vector<AttentionWeights<float>>& layers) {
      report::AttentionKind kind{name, title, note, down, across, {}};
      for (const auto& layer : layers) {
        kind.weights.emplace_back();
        for (index_t h = 0; h < layer.heads(); ++h) {
          const auto weights = layer.matrix(0, h);  // [down, across]
          kind.weights.back().emplace_back(weights.data(), weights.data() + weights.size());
        }
      }
      data.attention.push_back(std::move(kind));
    };
    add("cross", "Cross-attention: the translation looks at the source",
        "Down: the piece that is about to be written. Across: the pieces of the source. A good aligner draws a path from the top "
        "left to the bottom right, with steps where the languages order their words differently.",
        written, data.source_pieces, looks.cross);
    add("encoder", "Encoder self-attention: the source looks at itself",
        "Down: the piece whose meaning is worked out. Across: the pieces it takes it from. Diagonals are heads that look at a "
        "neighbour, columns are pieces that many look at.",
        data.source_pieces, data.source_pieces, looks.encoder);
    add("decoder", "Decoder self-attention: the translation looks at what is written",
        "Down: the piece that is about to be written. Across: what the decoder has read by then, from the begin mark on; what "
        "comes later is hidden from it, so the upper right stays empty.",
        written, read, looks.decoder);
  }

  void add_settings(report::Explanation& data) const {
    const auto &encoder = model_->sizes().encoder, &decoder = model_->sizes().decoder;
    const auto add = [&](const char* name, const std::string& value) { data.settings.push_back({name, value}); };
    add("model", flags_.model);
    add("layers", std::to_string(encoder.layers) + " + " + std::to_string(decoder.layers));
    add("heads", std::to_string(decoder.heads));
    add("d_model", std::to_string(decoder.d_model));
    add("vocabulary", report::grouped(decoder.vocabulary));
    if (flags_.place.device != "cpu" || flags_.place.precision != "float32")
      add("computed", flags_.place.device + ", " + flags_.place.precision);
    if (flags_.given) add("search", "none: the translation was given");
    else if (options_.sample) add("search", "sampling, temperature " + report::general(options_.temperature, 4));
    else add("search", options_.beam == 1 ? "greedy" : "beam of " + std::to_string(options_.beam));
    const bool google = options_.normalization == decode::LengthNormalization::google;
    add("length penalty",
        normalises() ? report::general(options_.length_penalty, 4) + (google ? " (Google's)" : " (Marian's)") : "none");
  }

  const ExplainCommand& flags_;
  std::unique_ptr<ExplainedModel> model_;
  const text::AnyTokenizer& tokenizer_;
  decode::TranslatorOptions options_;
  token_t begin_ = 0, end_ = 0;  // of the translation
  Tokens source_;
};

void run_explain(const ExplainCommand& flags) {
  const auto data = Explainer(flags).explain();
  report::write_explanation(flags.out, data);
  std::printf("%s\n", data.translations.front().text.c_str());
  std::fprintf(stderr, "what happened: %s\n", flags.out.c_str());
}

}  // namespace

void add_explain(CLI::App& app) {
  auto* command = app.add_subcommand("explain", "Translate one sentence and draw a page of how: pieces, search, attention");
  auto flags = std::make_shared<ExplainCommand>();
  command->add_option("sentence", flags->sentence, "What to translate")->type_name("TEXT")->required();
  command->add_option("--model", flags->model, "Folder of a model, or the --out of a training, whose best model it then is")
      ->type_name("FOLDER")
      ->required();
  flags->languages.add_to(*command, "the sentence");
  auto* target = command->add_option("--target", flags->target, "Explain this translation instead of searching one");
  target->type_name("TEXT");
  command->add_option("--out", flags->out, "Where the page goes")->type_name("FILE")->capture_default_str();
  flags->place.add_to(*command, true);
  flags->search.add_to(*command);
  auto* n_best = command->get_option("--n-best");
  n_best->default_str("the beam, at most 4");
  command->callback([flags, n_best, target] {
    flags->given = target->count() > 0;
    flags->listed = n_best->count() > 0;
    run_explain(*flags);
  });
}

}  // namespace translate
