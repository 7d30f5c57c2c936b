#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "attend/decode/beam_trace.hpp"
#include "report.hpp"

/// What a model did with one sentence, as one HTML page that needs nothing else: pieces, search and attention.
namespace report {

/// What a piece is besides text.
enum class PieceKind { text, byte, unk, begin, end };

/// A token and what it stands for.
struct Piece {
  std::string text = {};  ///< sentencepiece's ▁ stands for a space; of begin and end it does not matter
  std::int64_t id = 0;
  PieceKind kind = PieceKind::text;
};

/// A translation and how sure the model was of it.
struct ScoredTranslation {
  std::string text = {};
  std::vector<Piece> pieces = {};              ///< the end mark too, if it is finished
  std::vector<double> log_probabilities = {};  ///< of each piece
  double log_probability = 0;                  ///< of all together
  double score = 0;                            ///< the same normalised by the length
  bool finished = true;
};

/// All heads of one kind of attention. Row i of a head's matrix says where piece `down[i]` looked, and adds up to 1.
struct AttentionKind {
  std::string name = {};                                      ///< "cross": part of the page's ids, so letters and digits only
  std::string title = {}, note = {};                          ///< above it; what one sees in it
  std::vector<Piece> down = {}, across = {};                  ///< what looks; what is looked at
  std::vector<std::vector<std::vector<float>>> weights = {};  ///< [layer][head][down * across]
};

struct Explanation {
  std::string source = {};
  std::vector<Piece> source_pieces = {};             ///< with the end mark
  std::vector<ScoredTranslation> translations = {};  ///< best first; attention and beam are about the first
  std::vector<AttentionKind> attention = {};
  std::vector<attend::decode::BeamCandidate> beam = {};  ///< all that the search looked at; empty: no such part
  std::vector<Piece> beam_pieces = {};                   ///< of each candidate
  bool searched = true;                                  ///< otherwise `beam` holds each piece among those most probable there
  bool given = false;                                    ///< the translation was given
  std::vector<Setting> settings = {};                    ///< of model and search, in the order to show them
};

/// The page as HTML. Throws ValueError if lists that belong together differ in length or the beam is no tree.
std::string html(const Explanation& explanation);

/// Writes the page; the file that was there before is lost only once the new one is whole. Throws IoError as well.
void write_explanation(const std::filesystem::path& path, const Explanation& explanation);

// The parts of the page.

/// Source and translation with lines between what belongs together.
std::string links_html(const Explanation& explanation);
/// Small multiples of every head, and a chooser that shows one of them large.
std::string attention_html(const std::vector<AttentionKind>& kinds);
/// The search as a tree from left to right, and as a table.
std::string beam_html(const Explanation& explanation);
/// Pieces as words: the pieces of a word stand together. `below` of each piece: a line under it, as HTML; `notes`: shown when the
/// mouse rests on it.
std::string pieces_html(const std::vector<Piece>& pieces, const std::vector<std::string>& below,
                        const std::vector<std::string>& notes);

/// As labels show a piece: "end" for the end mark.
std::string label(const Piece& piece);
/// Whether a word begins with the piece.
bool begins_word(const Piece& piece);
/// Whether the first letter of the pieces belongs to a script that is written from right to left.
bool is_right_to_left(const std::vector<Piece>& pieces);
/// The mean of a layer's heads, of which there is at least one.
std::vector<float> mean_of(const std::vector<std::vector<float>>& heads);

}  // namespace report
