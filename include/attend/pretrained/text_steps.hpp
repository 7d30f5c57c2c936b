#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/io/json.hpp"
#include "attend/pretrained/byte_level.hpp"
#include "attend/pretrained/charsmap.hpp"
#include "attend/text/clean_up.hpp"
#include "attend/text/utf8.hpp"

/// The steps of a `tokenizer.json` before and after its model: normalizers, pre-tokenizers and decoders. Source: the crate of
/// github.com/huggingface/tokenizers.

namespace attend::text {

/// A part of a text on its way to the model.
struct TextPart {
  std::string text;
  bool first = false;  ///< whether the whole text begins with it
};

/// The steps as functions.
struct TextSteps {
  std::vector<std::function<void(std::string&)>> normalizers;
  std::vector<std::function<void(std::vector<TextPart>&)>> cutters;
  std::vector<std::function<void(std::vector<std::string>&)>> decoders;  ///< none: pieces are joined with spaces
  bool byte_level = false;  ///< whether pieces are of characters that stand for bytes
};

}  // namespace attend::text

namespace attend::detail {

/// The bytes that base 64 stands for. Throws FormatError, which begins with `where`.
inline std::string from_base64(std::string_view text, const std::string& where) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  unsigned bits = 0, count = 0;
  for (const char c : text) {
    const std::size_t digit = digits.find(c);
    if (digit == digits.npos) throw FormatError(where, ": precompiled_charsmap is not in base 64");
    bits = (bits << 6 | static_cast<unsigned>(digit)) & 0xFFFF;
    count += 6;
    if (count >= 8) count -= 8, bytes.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  return bytes;
}

/// Reads the steps of a `tokenizer.json`. Throws FormatError for a step, or an option of one, that is not here, by its name.
class TextStepsReader {
 public:
  static text::TextSteps read(const io::JsonObject& json) {
    TextStepsReader reader;
    if (json.contains("normalizer")) reader.add_normalizer(json.object("normalizer"));
    if (json.contains("pre_tokenizer")) reader.add_cutter(json.object("pre_tokenizer"));
    if (json.contains("decoder")) reader.add_decoder(json.object("decoder"));
    return std::move(reader.steps_);
  }

 private:
  static constexpr int deepest = 8;

  [[noreturn]] static void fail(const io::JsonObject& json, const char* what) {
    throw FormatError(json.name(), ": has the ", what, " ", printable(json.get<std::string>("type")), ", which is not supported");
  }
  /// add(step) for each step of a Sequence.
  template <class Add>
  void each(const io::JsonObject& json, const char* list, Add&& add) {
    const auto found = json.json().find(list);
    if (found == json.json().end() || !found->is_array()) throw FormatError(json.name(), ": a Sequence has no array ", list);
    if (++depth_ > deepest) throw FormatError(json.name(), ": has Sequences more than ", deepest, " deep");
    for (const auto& item : *found) add(io::JsonObject(item, json.name()));
    --depth_;
  }

  void add_normalizer(const io::JsonObject& json) {
    const auto type = json.get<std::string>("type");
    auto& list = steps_.normalizers;
    if (type == "Sequence") {
      each(json, "normalizers", [&](const io::JsonObject& item) { add_normalizer(item); });
    } else if (type == "Precompiled") {
      const auto bytes = from_base64(json.get<std::string>("precompiled_charsmap", ""), json.name());
      const auto map = in_context(json.name() + ": ", [&] { return std::make_shared<const text::Charsmap>(bytes); });
      list.push_back([map](std::string& text) { text = map->apply(text); });
    } else if (type == "Strip") {
      const bool left = json.get<bool>("strip_left", true), right = json.get<bool>("strip_right", true);
      list.push_back([left, right](std::string& text) { strip(text, left, right); });
    } else if (type == "Replace") {
      list.push_back(replacement(json));
    } else if (type == "Prepend") {
      const auto prefix = json.get<std::string>("prepend");
      list.push_back([prefix](std::string& text) {
        if (!text.empty()) text = prefix + text;
      });
    } else {
      fail(json, "normalizer");
    }
  }

  static void strip(std::string& text, bool left, bool right) {
    const auto words = words_of(text);
    const std::string_view all = text;
    const auto place = [&](const char* at) { return static_cast<std::size_t>(at - all.data()); };
    const std::size_t begin = !left ? 0 : words.empty() ? all.size() : place(words.front().data());
    const std::size_t end = !right ? all.size() : words.empty() ? 0 : place(words.back().data()) + words.back().size();
    text = begin < end ? std::string(all.substr(begin, end - begin)) : std::string();
  }

  /// A Replace of a string, or of runs of two spaces and more.
  static std::function<void(std::string&)> replacement(const io::JsonObject& json) {
    const io::JsonObject pattern = json.object("pattern");
    const auto content = json.get<std::string>("content");
    if (pattern.contains("String")) {
      const auto from = pattern.get<std::string>("String");
      return [from, content](std::string& text) { text::replace_all(text, from, content); };
    }
    if (const auto regex = pattern.get<std::string>("Regex"); regex != " {2,}")
      throw FormatError(json.name(), ": Replace has the pattern ", printable(regex), ", expected a string or ' {2,}'");
    return [content](std::string& text) {
      std::string out;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find_first_not_of(' ', at), text.size());
        if (end >= at + 2) out += content, at = end;
        else out.push_back(text[at++]);
      }
      text = std::move(out);
    };
  }

  void add_cutter(const io::JsonObject& json) {
    const auto type = json.get<std::string>("type");
    auto& list = steps_.cutters;
    if (type == "Sequence") {
      each(json, "pretokenizers", [&](const io::JsonObject& item) { add_cutter(item); });
    } else if (type == "WhitespaceSplit") {
      list.push_back([](std::vector<text::TextPart>& parts) { cut(parts, words_of); });
    } else if (type == "Metaspace") {
      const Metaspace metaspace(json);
      list.push_back([metaspace](std::vector<text::TextPart>& parts) { metaspace.cut(parts); });
    } else if (type == "ByteLevel") {
      const bool prefix = json.get<bool>("add_prefix_space", true), pattern = json.get<bool>("use_regex", true);
      list.push_back([prefix, pattern](std::vector<text::TextPart>& parts) {
        for (auto& part : parts)
          if (prefix && !part.text.empty() && !part.text.starts_with(' ')) part.text.insert(0, " ");
        if (pattern) cut(parts, [](std::string_view text) { return text::byte_level_words(text); });
        for (auto& part : parts) part.text = text::bytes_as_characters(part.text);
      });
    } else {
      fail(json, "pre-tokenizer");
    }
  }

  /// Puts the parts of a part, views of its text, in its place.
  template <class PartsOf>
  static void cut(std::vector<text::TextPart>& parts, PartsOf&& parts_of) {
    std::vector<text::TextPart> all;
    for (const auto& part : parts)
      for (const std::string_view piece : parts_of(std::string_view(part.text)))
        all.push_back({std::string(piece), part.first && piece.data() == part.text.data()});
    parts = std::move(all);
  }

  static std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    text::for_each_word(
        text, [&](std::string_view word) { words.push_back(word); }, text::is_white_space);
    return words;
  }

  /// A visible character for spaces, mostly `▁`; words begin with it.
  struct Metaspace {
    enum class Prepend { always, first, never };

    std::string space;
    Prepend prepend = Prepend::always;
    bool split = true;

    explicit Metaspace(const io::JsonObject& json)
        : space(json.get<std::string>("replacement", "\u2581")), split(json.get<bool>("split", true)) {
      const auto scheme = json.get<std::string>("prepend_scheme", json.get<bool>("add_prefix_space", true) ? "always" : "never");
      if (scheme != "always" && scheme != "first" && scheme != "never")
        throw FormatError(json.name(), ": prepend_scheme is ", printable(scheme), ", expected always, first or never");
      prepend = scheme == "always" ? Prepend::always : scheme == "first" ? Prepend::first : Prepend::never;
      if (text::count_code_points(space) != 1)
        throw FormatError(json.name(), ": replacement is '", printable(space), "', expected one character");
    }

    void cut(std::vector<text::TextPart>& parts) const {
      for (auto& part : parts) {
        if (part.text.empty()) continue;
        text::replace_all(part.text, " ", space);
        if ((prepend == Prepend::always || (prepend == Prepend::first && part.first)) && !part.text.starts_with(space))
          part.text = space + part.text;
      }
      if (split)
        TextStepsReader::cut(parts, [&](std::string_view text) {
          std::vector<std::string_view> words;
          for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = std::min(text.find(space, begin + 1), text.size());
            words.push_back(text.substr(begin, end - begin));
            begin = end;
          }
          return words;
        });
    }

    void decode(std::vector<std::string>& pieces) const {
      for (std::size_t i = 0; i < pieces.size(); ++i)
        text::replace_all(pieces[i], space, i == 0 && prepend != Prepend::never ? "" : " ");
    }
  };

  void add_decoder(const io::JsonObject& json) {
    const auto type = json.get<std::string>("type");
    auto& list = steps_.decoders;
    if (type == "Sequence") {
      each(json, "decoders", [&](const io::JsonObject& item) { add_decoder(item); });
    } else if (type == "Metaspace") {
      const Metaspace metaspace(json);
      list.push_back([metaspace](std::vector<std::string>& pieces) { metaspace.decode(pieces); });
    } else if (type == "ByteLevel") {
      list.push_back([](std::vector<std::string>& pieces) { pieces = {text::characters_as_bytes(pieces)}; });
      steps_.byte_level = true;
    } else if (type == "Replace") {
      const auto replace = replacement(json);
      list.push_back([replace](std::vector<std::string>& pieces) { std::for_each(pieces.begin(), pieces.end(), replace); });
    } else if (type == "Fuse") {
      list.push_back([](std::vector<std::string>& pieces) {
        std::string all;
        for (const auto& piece : pieces) all += piece;
        pieces = {all};
      });
    } else if (type == "ByteFallback") {
      list.push_back(join_bytes);
    } else if (type == "Strip") {
      const auto content = json.get<std::string>("content");
      const auto start = json.get<std::size_t>("start"), stop = json.get<std::size_t>("stop");
      if (content.empty()) throw FormatError(json.name(), ": the decoder Strip has no content");
      list.push_back([content, start, stop](std::vector<std::string>& pieces) {
        for (auto& piece : pieces) {
          for (std::size_t i = 0; i < start && piece.starts_with(content); ++i) piece.erase(0, content.size());
          for (std::size_t i = 0; i < stop && piece.ends_with(content); ++i) piece.resize(piece.size() - content.size());
        }
      });
    } else {
      fail(json, "decoder");
    }
  }

  /// Pieces that name bytes, `<0xE3>`, become the text of those bytes, or U+FFFD for each if together they are not UTF-8.
  static void join_bytes(std::vector<std::string>& pieces) {
    std::vector<std::string> out;
    std::string bytes;
    const auto end_bytes = [&] {
      if (bytes.empty()) return;
      if (text::is_utf8(bytes)) out.push_back(bytes);
      else out.insert(out.end(), bytes.size(), "\uFFFD");
      bytes.clear();
    };
    const auto value = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
    for (auto& piece : pieces) {
      const bool is_byte =
          piece.size() == 6 && piece.starts_with("<0x") && piece.back() == '>' && value(piece[3]) >= 0 && value(piece[4]) >= 0;
      if (is_byte) {
        bytes.push_back(static_cast<char>(value(piece[3]) * 16 + value(piece[4])));
        continue;
      }
      end_bytes();
      out.push_back(std::move(piece));
    }
    end_bytes();
    pieces = std::move(out);
  }

  text::TextSteps steps_;
  int depth_ = 0;
};

}  // namespace attend::detail
