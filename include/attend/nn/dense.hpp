#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attend/nn/batch.hpp"

/// The door between the dense batches of other frameworks, `[batch, length]` with a padding mask, and this library's rows.
namespace attend::nn {

/// How many tokens of each sentence a mask [batch, length] leaves: 1 where a token counts, 0 where it is padding. Padding must
/// follow the tokens. Throws ShapeError, and ValueError for any other mask.
inline std::vector<index_t> key_lengths(const Tensor<std::uint8_t>& mask) {
  if (mask.rank() != 2) throw ShapeError("key_lengths: the mask has shape ", mask.shape().text(), ", expected [batch, length]");
  const index_t batch = mask.dim(0), length = mask.dim(1);
  std::vector<index_t> lengths;
  for (index_t i = 0; i < batch; ++i) {
    const std::uint8_t* row = mask.data() + i * length;
    index_t n = 0;
    while (n < length && row[n] != 0) ++n;
    for (index_t j = n; j < length; ++j)
      check_value(row[j] == 0, "key_lengths", "sentence ", i, " has a token at ", j, " after padding at ", n,
                  "; padding must come last (an attention's bias takes masks of any shape)");
    lengths.push_back(n);
  }
  return lengths;
}

/// The sentences of a tensor [batch, length, ...]: rows that the mask leaves out are computed but not attended to. Without a
/// mask all count. Throws as `key_lengths`, and ShapeError if the mask is not [batch, length].
inline Segments dense_segments(index_t batch, index_t length, const Tensor<std::uint8_t>& mask = {}) {
  if (mask.rank() == 1 && mask.empty()) return Segments::dense(batch, length);
  check_shape("dense_segments", "mask", mask.shape(), {batch, length});
  return Segments::dense(batch, length, key_lengths(mask));
}

/// Copies the rows that are not padding: x [batch, length, ...], as rows of the dense `segments`, -> [rows that count, ...].
/// Throws ShapeError.
template <class T>
Tensor<T> drop_padding(const Tensor<T>& x, const Segments& segments) {
  if (x.rank() < 2) throw ShapeError("drop_padding: x has shape ", x.shape().text(), ", expected [batch, length, ...]");
  segments.check_rows("drop_padding", "x", x.dim(0) * x.dim(1));
  index_t rows = 0;
  for (index_t i = 0; i < segments.count(); ++i) rows += segments.keys(i);
  std::vector<index_t> dims{rows};
  dims.insert(dims.end(), x.shape().begin() + 2, x.shape().end());
  const Tensor<T> packed{Shape(dims)};
  const index_t width = rows == 0 ? 0 : packed.size() / rows;
  T* to = packed.data();
  for (index_t i = 0; i < segments.count(); ++i) {
    copy(Cpu{}, segments.keys(i) * width, x.data() + segments.begin(i) * width, to);
    to += segments.keys(i) * width;
  }
  return packed;
}

/// The way back: x [rows, ...] of ragged `segments` -> [batch, length, ...], `padding` beyond the end of each sentence.
/// `length` 0 stands for the longest. Throws ShapeError if a sentence is longer.
template <class T>
Tensor<T> add_padding(const Tensor<T>& x, const Segments& segments, T padding = T(0), index_t length = 0) {
  if (x.rank() < 1) throw ShapeError("add_padding: x is a scalar, expected [rows, ...]");
  segments.check_rows("add_padding", "x", x.dim(0));
  if (length == 0) length = segments.longest();
  if (length < segments.longest())
    throw ShapeError("add_padding: a sentence of ", segments.longest(), " rows is longer than ", length);
  std::vector<index_t> dims{segments.count(), length};
  dims.insert(dims.end(), x.shape().begin() + 1, x.shape().end());
  const Tensor<T> dense(Shape(dims), padding);
  const index_t width = x.dim(0) == 0 ? 0 : x.size() / x.dim(0);
  for (index_t i = 0; i < segments.count(); ++i)
    copy(Cpu{}, segments.length(i) * width, x.data() + segments.begin(i) * width, dense.data() + i * length * width);
  return dense;
}

/// Sentence pairs as other frameworks hold them. A mask has 1 where a token counts and 0 where it is padding, which must follow
/// the tokens; without one all tokens count. Labels are needed only for a loss.
struct DenseBatch {
  Tensor<token_t> source;                 // [batch, source length]
  Tensor<std::uint8_t> source_mask = {};  // [batch, source length], or none
  Tensor<token_t> target;                 // [batch, target length]
  Tensor<std::uint8_t> target_mask = {};  // [batch, target length], or none
  Tensor<token_t> labels = {};            // as target, or none
};

namespace detail {

/// Throws ShapeError unless the parts of a batch go together.
inline void check_dense(const DenseBatch& d) {
  for (const auto& [name, tokens] : {std::pair{"source", &d.source}, std::pair{"target", &d.target}})
    if (tokens->rank() != 2)
      throw ShapeError("DenseBatch: ", name, " has shape ", tokens->shape().text(), ", expected [batch, length]");
  if (d.source.dim(0) != d.target.dim(0))
    throw ShapeError("DenseBatch: ", d.source.dim(0), " sources and ", d.target.dim(0), " targets");
  if (!d.labels.empty()) check_shape("DenseBatch", "labels", d.labels.shape(), d.target.shape());
}

}  // namespace detail

/// The batch with its padding kept, so that results reshape to [batch, length, ...]. Rows of padding are computed and not
/// attended to; the loss leaves out what its labels tell it to ignore. Throws ShapeError, ValueError.
inline Batch<> dense_batch(const DenseBatch& d) {
  detail::check_dense(d);
  return {.source = d.source.reshape({d.source.size()}),
          .source_segments = dense_segments(d.source.dim(0), d.source.dim(1), d.source_mask),
          .target = d.target.reshape({d.target.size()}),
          .target_segments = dense_segments(d.target.dim(0), d.target.dim(1), d.target_mask),
          .labels = d.labels.reshape({d.labels.size()})};
}

/// The batch without its padding: the same values at every token that counts, and less work. Throws ShapeError, ValueError.
inline Batch<> ragged_batch(const DenseBatch& d) {
  detail::check_dense(d);
  const auto source = dense_segments(d.source.dim(0), d.source.dim(1), d.source_mask);
  const auto target = dense_segments(d.target.dim(0), d.target.dim(1), d.target_mask);
  const auto kept = [](const Segments& s) {
    std::vector<index_t> lengths;
    for (index_t i = 0; i < s.count(); ++i) lengths.push_back(s.keys(i));
    return Segments::ragged(lengths);
  };
  return {.source = drop_padding(d.source, source),
          .source_segments = kept(source),
          .target = drop_padding(d.target, target),
          .target_segments = kept(target),
          .labels = d.labels.empty() ? d.labels : drop_padding(d.labels, target)};
}

}  // namespace attend::nn
