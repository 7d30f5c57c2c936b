#pragma once

#include <concepts>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/tokenizer.hpp"

namespace attend::text {

/// Any tokenizer behind one type, so that a program can learn from the folder of a model which kind it has, and training and
/// translation are compiled once for all kinds. Copies share one tokenizer, which must not change meanwhile.
///
/// What the tokenizer does not have is filled in by the functions of core/tokenizer.hpp.
class AnyTokenizer {
 public:
  template <Tokenizer X>
  requires(!std::same_as<std::remove_cvref_t<X>, AnyTokenizer>) AnyTokenizer(X tokenizer)
      : held_(hold(std::make_shared<const X>(std::move(tokenizer)))) {}  // NOLINT: any will do

  /// Of a tokenizer that others hold too, which need be neither copyable nor movable. Throws ValueError for a null pointer.
  template <class X>
  requires Tokenizer<std::remove_cv_t<X>>
  [[nodiscard]] static AnyTokenizer sharing(std::shared_ptr<X> tokenizer) {
    check_value(tokenizer != nullptr, "AnyTokenizer", "got a null pointer, expected a tokenizer");
    if constexpr (std::same_as<std::remove_cv_t<X>, AnyTokenizer>) return *tokenizer;
    else return AnyTokenizer(hold<std::remove_cv_t<X>>(std::move(tokenizer)));
  }
  /// Of a tokenizer that lives longer than this and all its copies.
  template <Tokenizer X>
  [[nodiscard]] static AnyTokenizer viewing(const X& tokenizer) {
    return sharing(std::shared_ptr<const X>(std::shared_ptr<const void>(), std::addressof(tokenizer)));
  }
  /// None of a temporary, which does not.
  template <class X>
  static AnyTokenizer viewing(const X&&) = delete;

  /// The tokens of a source sentence, without begin and end marks.
  [[nodiscard]] std::vector<token_t> encode(const std::string& text) const { return held_->encode(text); }
  /// The tokens of a target sentence, without begin and end marks.
  [[nodiscard]] std::vector<token_t> encode_target(const std::string& text) const { return held_->encode_target(text); }
  /// The text of a target's tokens; marks among them give no text.
  [[nodiscard]] std::string decode(std::span<const token_t> tokens) const { return held_->decode(tokens); }

  /// Tokens of sources are 0 to size() - 1, those of targets 0 to target_size() - 1.
  [[nodiscard]] index_t size() const { return held_->size(); }
  [[nodiscard]] index_t target_size() const { return held_->target_size(); }
  /// The marks; -1 for one that the tokenizer does not have.
  [[nodiscard]] token_t bos() const { return held_->bos(); }
  [[nodiscard]] token_t eos() const { return held_->eos(); }
  [[nodiscard]] token_t pad() const { return held_->pad(); }
  [[nodiscard]] token_t unk() const { return held_->unk(); }

  /// What a token of a source or of a target looks like. Throws as the tokenizer does for a token outside the vocabulary.
  [[nodiscard]] std::string piece(token_t token) const { return held_->piece(token); }
  [[nodiscard]] std::string target_piece(token_t token) const { return held_->target_piece(token); }

  /// The tokens that a source ends with.
  [[nodiscard]] std::vector<token_t> source_end() const { return held_->source_end(); }
  /// Whether a token of a source is a mark and no part of its text.
  [[nodiscard]] bool is_mark(token_t token) const { return held_->is_mark(token); }
  /// The names of the languages that the tokenizer has tokens for; none if languages are no concern of its own.
  [[nodiscard]] std::vector<std::string> languages() const { return held_->languages(); }
  /// The tokenizer for sources and targets in these languages. Throws ValueError for one that it does not have, and if languages
  /// are no concern of its own.
  [[nodiscard]] AnyTokenizer with_languages(const std::string& from, const std::string& to) const {
    return AnyTokenizer(held_->with_languages(from, to));
  }
  /// The languages that were chosen for sources and targets; empty for none.
  [[nodiscard]] std::string source_language() const { return held_->source_language(); }
  [[nodiscard]] std::string target_language() const { return held_->target_language(); }
  /// The token that translations begin with, since it says their language; -1 if there is none.
  [[nodiscard]] token_t forced_begin() const { return held_->forced_begin(); }

  /// Writes the files that `load` needs to restore it. Throws IoError.
  void save_files(const std::filesystem::path& folder) const { held_->save_files(folder); }

  /// The tokenizer itself if it is an `X`, otherwise a null pointer.
  template <class X>
  [[nodiscard]] const X* as() const {
    using Plain = std::remove_cv_t<X>;
    return held_->type() == &tag<Plain> ? static_cast<const Held<Plain>&>(*held_).tokenizer.get() : nullptr;
  }

 private:
  /// Its address stands for the type, so that programs without run-time type information (-fno-rtti) have `as` too.
  template <class X>
  static inline char tag = 0;

  struct Interface {
    virtual ~Interface() = default;
    [[nodiscard]] virtual const void* type() const = 0;
    [[nodiscard]] virtual std::vector<token_t> encode(const std::string& text) const = 0;
    [[nodiscard]] virtual std::vector<token_t> encode_target(const std::string& text) const = 0;
    [[nodiscard]] virtual std::string decode(std::span<const token_t> tokens) const = 0;
    [[nodiscard]] virtual index_t size() const = 0;
    [[nodiscard]] virtual index_t target_size() const = 0;
    [[nodiscard]] virtual token_t bos() const = 0;
    [[nodiscard]] virtual token_t eos() const = 0;
    [[nodiscard]] virtual token_t pad() const = 0;
    [[nodiscard]] virtual token_t unk() const = 0;
    [[nodiscard]] virtual std::string piece(token_t token) const = 0;
    [[nodiscard]] virtual std::string target_piece(token_t token) const = 0;
    [[nodiscard]] virtual std::vector<token_t> source_end() const = 0;
    [[nodiscard]] virtual bool is_mark(token_t token) const = 0;
    [[nodiscard]] virtual std::vector<std::string> languages() const = 0;
    [[nodiscard]] virtual std::shared_ptr<const Interface> with_languages(const std::string& from,
                                                                          const std::string& to) const = 0;
    [[nodiscard]] virtual std::string source_language() const = 0;
    [[nodiscard]] virtual std::string target_language() const = 0;
    [[nodiscard]] virtual token_t forced_begin() const = 0;
    virtual void save_files(const std::filesystem::path& folder) const = 0;
  };

  template <class X>
  struct Held final : Interface {
    std::shared_ptr<const X> tokenizer;

    explicit Held(std::shared_ptr<const X> t) : tokenizer(std::move(t)) {}
    [[nodiscard]] const void* type() const override { return &tag<X>; }
    [[nodiscard]] std::vector<token_t> encode(const std::string& text) const override { return tokenizer->encode(text); }
    [[nodiscard]] std::vector<token_t> encode_target(const std::string& text) const override {
      return text::encode_target(*tokenizer, text);
    }
    [[nodiscard]] std::string decode(std::span<const token_t> tokens) const override { return tokenizer->decode(tokens); }
    [[nodiscard]] index_t size() const override { return tokenizer->size(); }
    [[nodiscard]] index_t target_size() const override { return text::target_size(*tokenizer); }
    [[nodiscard]] token_t bos() const override { return tokenizer->bos(); }
    [[nodiscard]] token_t eos() const override { return tokenizer->eos(); }
    [[nodiscard]] token_t pad() const override { return tokenizer->pad(); }
    [[nodiscard]] token_t unk() const override { return unknown_token(*tokenizer); }
    [[nodiscard]] std::string piece(token_t token) const override { return text::piece(*tokenizer, token); }
    [[nodiscard]] std::string target_piece(token_t token) const override { return text::target_piece(*tokenizer, token); }
    [[nodiscard]] std::vector<token_t> source_end() const override { return text::source_end(*tokenizer); }
    [[nodiscard]] bool is_mark(token_t token) const override { return text::is_mark(*tokenizer, token); }
    [[nodiscard]] std::vector<std::string> languages() const override { return text::languages(*tokenizer); }
    [[nodiscard]] std::shared_ptr<const Interface> with_languages(const std::string& from, const std::string& to) const override {
      if constexpr (requires { tokenizer->with_languages(from, to); }) {
        using Made = std::remove_cvref_t<decltype(tokenizer->with_languages(from, to))>;
        if constexpr (std::same_as<Made, AnyTokenizer>) return tokenizer->with_languages(from, to).held_;
        else return hold(std::shared_ptr<const Made>(new Made(tokenizer->with_languages(from, to))));  // where it stays
      } else
        throw ValueError("with_languages: the tokenizer has no languages to choose from, asked for '", detail::printable(from),
                         "' and '", detail::printable(to), "'");
    }
    [[nodiscard]] std::string source_language() const override { return text::source_language(*tokenizer); }
    [[nodiscard]] std::string target_language() const override { return text::target_language(*tokenizer); }
    [[nodiscard]] token_t forced_begin() const override { return text::forced_begin(*tokenizer); }
    void save_files(const std::filesystem::path& folder) const override { text::save_files(*tokenizer, folder); }
  };

  template <class X>
  static std::shared_ptr<const Interface> hold(std::shared_ptr<const X> tokenizer) {
    return std::make_shared<const Held<X>>(std::move(tokenizer));
  }

  explicit AnyTokenizer(std::shared_ptr<const Interface> held) : held_(std::move(held)) {}

  std::shared_ptr<const Interface> held_;
};

static_assert(Tokenizer<AnyTokenizer>);

}  // namespace attend::text
