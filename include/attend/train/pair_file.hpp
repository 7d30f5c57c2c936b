#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "attend/core/number_text.hpp"
#include "attend/io/safetensors.hpp"
#include "attend/io/safetensors_writer.hpp"
#include "attend/train/batches.hpp"

/// Files of encoded sentence pairs, for corpora that are larger than memory: safetensors with `source.tokens`, `source.begin`,
/// `target.tokens`, `target.begin`.

namespace attend::train {

/// Pairs that lie in a file, of which only what is looked at comes into memory. A file must not be changed while a run uses it.
/// Throws IoError, FormatError if it is not such a file or is damaged.
inline EncodedPairs open_pairs(const std::filesystem::path& path) {
  const auto file = io::SafetensorsFile::open(path);
  const auto fault = [&](auto&&... what) { throw FormatError("open_pairs: ", path.string(), ": ", what...); };
  const auto format = file.metadata().find("format"), print = file.metadata().find("fingerprint");
  if (format == file.metadata().end() || format->second != "attend pairs") fault("holds no sentence pairs");
  std::uint64_t fingerprint = 0;
  if (print == file.metadata().end() || !parse_number(std::string_view(print->second), fingerprint)) fault("has no fingerprint");
  const auto mapping = std::make_shared<const io::MappedFile>(file.map());
  const auto side = [&](const std::string& name) {
    EncodedSentences s{file.mapped<token_t>(*mapping, name + ".tokens"), file.mapped<index_t>(*mapping, name + ".begin")};
    bool rises = !s.begin.empty() && s.begin.front() == 0 && s.begin.back() == count_of(s.tokens);
    for (std::size_t i = 1; rises && i < s.begin.size(); ++i) rises = s.begin[i] >= s.begin[i - 1];
    if (!rises) fault("the sentences of ", name, ".begin do not follow one another");
    return s;
  };
  const auto source = side("source"), target = side("target");
  if (source.begin.size() != target.begin.size())
    fault("has ", source.begin.size() - 1, " sources and ", target.begin.size() - 1, " targets");
  return {source, target, fingerprint, mapping};
}

/// Writes such a file pair by pair. What has been added so far lies in files beside it, which are removed with this object.
class PairWriter {
 public:
  /// Throws IoError if nothing can be written there.
  explicit PairWriter(std::filesystem::path path) : path_(std::move(path)) {
    for (std::size_t k = 0; k < parts_.size(); ++k) parts_[k].open(path_.string() + ".part-" + std::to_string(k));
    const index_t zero = 0;
    for (const std::size_t begin : {source_begin, target_begin}) parts_[begin].add(std::span(&zero, 1));
  }
  PairWriter(const PairWriter&) = delete;
  PairWriter& operator=(const PairWriter&) = delete;

  /// Adds a pair.
  void add(std::span<const token_t> source, std::span<const token_t> target) {
    add(source_tokens, source);
    add(target_tokens, target);
    ++size_;
  }
  /// Pairs so far.
  [[nodiscard]] index_t size() const { return size_; }

  /// Writes the file, whole or not at all. Throws IoError.
  void finish() {
    for (auto& part : parts_) part.close();
    io::SafetensorsWriter writer;
    writer.metadata("format", "attend pairs");
    const auto views = [&](std::size_t tokens) {
      return std::pair(io::MappedFile(io::InputFile(parts_[tokens].path)),
                       io::MappedFile(io::InputFile(parts_[tokens + 1].path)));
    };
    const auto source = views(source_tokens), target = views(target_tokens);
    const auto sentences = [](const auto& side) {
      return EncodedSentences{numbers<token_t>(side.first), numbers<index_t>(side.second)};
    };
    const auto from = sentences(source), to = sentences(target);
    writer.metadata("fingerprint", std::to_string(fingerprint_of(from, to)));
    const auto shape = [](const auto& list) { return Shape{count_of(list)}; };
    writer.add<token_t>("source.tokens", shape(from.tokens), from.tokens);
    writer.add<index_t>("source.begin", shape(from.begin), from.begin);
    writer.add<token_t>("target.tokens", shape(to.tokens), to.tokens);
    writer.add<index_t>("target.begin", shape(to.begin), to.begin);
    writer.write(path_);
  }

 private:
  static constexpr std::size_t source_tokens = 0, source_begin = 1, target_tokens = 2, target_begin = 3;

  /// One of the tensors as it grows.
  struct Part {
    std::filesystem::path path;
    std::ofstream out;
    index_t size = 0;

    ~Part() {
      out.close();
      std::error_code ignored;
      if (!path.empty()) std::filesystem::remove(path, ignored);
    }
    void open(std::filesystem::path where) {
      path = std::move(where);
      out.open(path, std::ios::binary | std::ios::trunc);
      check();
    }
    template <class V>
    void add(std::span<const V> values) {
      out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
      size += count_of(values);
      check();
    }
    void close() {
      out.close();
      check();
    }
    void check() const {
      if (!out) attend::detail::throw_errno("write", path);
    }
  };
  void add(std::size_t tokens, std::span<const token_t> sentence) {
    parts_[tokens].add(sentence);
    parts_[tokens + 1].add(std::span<const index_t>(&parts_[tokens].size, 1));
  }
  template <class V>
  static std::span<const V> numbers(const io::MappedFile& file) {
    return {reinterpret_cast<const V*>(file.bytes().data()), file.bytes().size() / sizeof(V)};
  }

  std::filesystem::path path_;
  std::array<Part, 4> parts_;
  index_t size_ = 0;
};

/// Writes pairs that are at hand. Throws IoError.
inline void save_pairs(const std::filesystem::path& path, const EncodedPairs& pairs) {
  PairWriter writer(path);
  for (index_t i = 0; i < pairs.size(); ++i) writer.add(pairs.source(i), pairs.target(i));
  writer.finish();
}

}  // namespace attend::train
