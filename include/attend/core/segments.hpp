#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/shape.hpp"

namespace attend {

/// Where the sentences of a batch stand among its rows. Sentence i occupies `length(i)` rows from row `begin(i)`; of these the
/// first `keys(i)` may be attended to.
///
/// A ragged batch (`ragged`) holds the tokens of all sentences end to end: no padding, and every row is a key. The dense batch
/// of other frameworks, `[batch, length]` with a padding mask, is the same thing with equal lengths (`dense`); padded rows are
/// then computed but not attended to.
///
/// Cheap to copy; the tables are shared and never change.
class Segments {
 public:
  /// No sentences.
  Segments() : Segments(std::vector<index_t>{}, {}, {}, 0) {}

  /// Sentences end to end: begin(i) is the sum of the lengths before i. Throws ValueError for a negative length.
  static Segments ragged(std::span<const index_t> lengths) {
    std::vector<index_t> begin, length(lengths.begin(), lengths.end());
    index_t rows = 0;
    for (const index_t n : lengths) {
      check_value(n >= 0, "Segments::ragged", "a length is negative: ", n);
      begin.push_back(rows);
      rows += n;
    }
    return Segments(std::move(begin), length, length, rows);
  }
  static Segments ragged(std::initializer_list<index_t> lengths) {
    return ragged(std::span<const index_t>(lengths.begin(), lengths.size()));
  }
  /// `batch` sentences of `length` rows each. `key_lengths[i]`, if given, is how many rows of sentence i are not padding.
  /// Throws ShapeError if their count is not `batch`, ValueError if one is outside [0, length] or a size is negative.
  static Segments dense(index_t batch, index_t length, std::span<const index_t> key_lengths = {}) {
    check_value(batch >= 0 && length >= 0, "Segments::dense", "negative size");
    std::vector<index_t> begin(batch), lengths(begin.size(), length), keys = lengths;
    for (std::size_t i = 0; i < begin.size(); ++i) begin[i] = i * length;
    if (!key_lengths.empty()) {
      check_shape("Segments::dense", "key_lengths", Shape{count_of(key_lengths)}, Shape{batch});
      for (std::size_t i = 0; i < keys.size(); ++i) {
        check_value(key_lengths[i] >= 0 && key_lengths[i] <= length, "Segments::dense", "key length ", key_lengths[i],
                    " is outside [0, ", length, "]");
        keys[i] = key_lengths[i];
      }
    }
    return Segments(std::move(begin), std::move(lengths), std::move(keys), batch * length);
  }

  /// The number of sentences.
  [[nodiscard]] index_t count() const { return tables_->count; }
  /// The number of rows of all sentences together.
  [[nodiscard]] index_t rows() const { return tables_->rows; }
  // Where sentences stand; for a room these throw ValueError.
  [[nodiscard]] index_t begin(index_t i) const { return nth(known().begin, i); }
  [[nodiscard]] index_t length(index_t i) const { return nth(known().length, i); }
  [[nodiscard]] index_t keys(index_t i) const { return nth(known().keys, i); }
  [[nodiscard]] const std::vector<index_t>& lengths() const { return known().length; }
  /// The longest sentence, in rows; of a room, the longest that there is room for.
  [[nodiscard]] index_t longest() const { return tables_->longest; }
  /// The most keys that a sentence has.
  [[nodiscard]] index_t most_keys() const { return tables_->most_keys; }
  /// True for a `room`: only the tables on the device say where its sentences stand.
  [[nodiscard]] bool is_room() const { return tables_->room; }

  /// What a device's kernels read in place of these tables; `make(*this)` makes it at first use, and it lives as long as they do.
  template <class Make>
  [[nodiscard]] std::shared_ptr<const void> device_tables(Make&& make) const {
    const std::lock_guard lock(tables_->mutex);
    if (!tables_->device) tables_->device = make(*this);
    return tables_->device;
  }
  /// Room for `count` sentences of up to `longest` rows each, `rows` in all, whose tables lie on a device and may change between
  /// two uses: for work that is recorded once and repeated with other sentences. The host knows no more of them than that.
  static Segments room(index_t count, index_t rows, index_t longest, std::shared_ptr<const void> device) {
    auto tables = std::make_shared<Tables>();
    tables->count = count, tables->rows = rows, tables->longest = tables->most_keys = longest;
    tables->device = std::move(device), tables->room = true;
    return Segments(std::move(tables));
  }

  /// All of these sentences and then all of them again, in twice the rows. Throws ValueError for a room.
  [[nodiscard]] Segments twice() const {
    const Tables& once = known();
    auto begin = once.begin, length = once.length, keys = once.keys;
    for (const index_t at : once.begin) begin.push_back(at + once.rows);
    length.insert(length.end(), once.length.begin(), once.length.end());
    keys.insert(keys.end(), once.keys.begin(), once.keys.end());
    return Segments(std::move(begin), std::move(length), std::move(keys), 2 * once.rows);
  }

  /// Throws ShapeError unless these segments describe a tensor of this many rows.
  void check_rows(const char* operation, const char* name, index_t rows) const {
    if (rows != this->rows())
      throw ShapeError(operation, ": ", name, " has ", rows, " rows, expected ", this->rows(), " of ", count(), " sentences");
  }

  friend bool operator==(const Segments& a, const Segments& b) {
    return a.tables_ == b.tables_ || (!a.is_room() && !b.is_room() && a.tables_->begin == b.tables_->begin &&
                                      a.tables_->length == b.tables_->length && a.tables_->keys == b.tables_->keys);
  }

 private:
  struct Tables {
    std::vector<index_t> begin, length, keys;
    index_t count = 0, rows = 0, longest = 0, most_keys = 0;
    bool room = false;
    mutable std::mutex mutex;
    mutable std::shared_ptr<const void> device;
  };
  explicit Segments(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}
  Segments(std::vector<index_t> begin, std::vector<index_t> length, std::vector<index_t> keys, index_t rows) {
    auto t = std::make_shared<Tables>();
    for (const index_t n : length) t->longest = std::max(t->longest, n);
    for (const index_t n : keys) t->most_keys = std::max(t->most_keys, n);
    t->count = count_of(begin);
    t->begin = std::move(begin), t->length = std::move(length), t->keys = std::move(keys), t->rows = rows;
    tables_ = std::move(t);
  }
  [[nodiscard]] const Tables& known() const {
    if (tables_->room) [[unlikely]]
      throw ValueError("Segments: where the sentences of a room stand, the device alone knows");
    return *tables_;
  }
  std::shared_ptr<const Tables> tables_;
};

}  // namespace attend
