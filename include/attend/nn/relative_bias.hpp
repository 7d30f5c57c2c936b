#pragma once

#include <algorithm>
#include <cmath>

#include "attend/nn/init.hpp"
#include "attend/ops/embedding.hpp"
#include "attend/ops/rearrange.hpp"

namespace attend::nn {

/// How distances from a query to a key are put into buckets.
struct BucketOptions {
  index_t buckets = 32;
  index_t max_distance = 128;  ///< from which on all distances share a bucket
  bool causal = false;         ///< keys are never behind their query; else half of the buckets are for such keys

  /// How many buckets each direction has, and the distances less than this have one each.
  [[nodiscard]] index_t of_direction() const { return causal ? buckets : buckets / 2; }
  [[nodiscard]] index_t exact() const { return of_direction() / 2; }
};

/// Throws ValueError, which begins with `operation`, where there are too few buckets or distances.
inline void check(const BucketOptions& o, const char* operation) {
  check_value(o.exact() > 0, operation, "there are ", o.buckets, " buckets of distances, expected at least ", o.causal ? 2 : 4);
  check_value(o.max_distance > o.exact(), operation, "max_distance is ", o.max_distance, ", expected more than the ", o.exact(),
              " distances that have buckets of their own");
}

/// The bucket of a key that stands `distance` behind its query, before it where that is negative. With n buckets a direction,
/// distances d less than e = n / 2 have one each, others share e + (n - e) log(d / e) / log(max_distance / e), rounded down, up
/// to n - 1. The logarithm is one of floats, as it is where models of that kind were trained. Source: Raffel et al. 2020, section
/// 2.1; the numbers are those of its program.
inline index_t relative_bucket(index_t distance, const BucketOptions& o) {
  const index_t count = o.of_direction(), exact = o.exact();
  const index_t first = !o.causal && distance > 0 ? count : 0;
  const index_t away = o.causal ? std::max<index_t>(0, -distance) : std::abs(distance);
  if (away < exact) return first + away;
  const float part = std::log(static_cast<float>(away) / static_cast<float>(exact)) /
                     static_cast<float>(std::log(static_cast<double>(o.max_distance) / static_cast<double>(exact)));
  return first + std::min(exact + static_cast<index_t>(part * static_cast<float>(count - exact)), count - 1);
}

/// A number for each bucket of distances and each head, which an attention adds to its scores. Source: Raffel et al. 2020,
/// section 2.1.
template <class T, Device D = Cpu>
struct RelativeBias {
  using value_type = T;
  using device_type = D;
  Var<T, D> table;               // [buckets, heads]
  Tensor<token_t, D> bucket_of;  // [2 max_length - 1]: of a key that far behind its query, from 1 - max_length on

  /// Throws ValueError where the options make no sense.
  RelativeBias(index_t heads, index_t max_length, const BucketOptions& o) {
    check_value(heads > 0 && max_length > 0, "RelativeBias", heads, " heads and max_length ", max_length, " must be positive");
    nn::check(o, "RelativeBias");
    table = constant_parameter<T, D>({o.buckets, heads}, 0);
    normal(table.value(), 0.02);
    const Tensor<token_t> buckets({2 * max_length - 1});
    for (index_t i = 0; i < buckets.size(); ++i)
      buckets.data()[i] = static_cast<token_t>(relative_bucket(i - (max_length - 1), o));
    bucket_of = buckets.template to<D>();
  }

  /// The longest sentence that it is for.
  [[nodiscard]] index_t max_length() const { return (bucket_of.size() + 1) / 2; }
  /// By distance, [heads, 2 longest - 1], as attend::AttentionOptions takes it. Throws ShapeError beyond max_length.
  [[nodiscard]] Var<T, D> by_distance(index_t longest) const {
    check(longest);
    const index_t count = std::max<index_t>(1, longest);
    return transpose(embedding(table, bucket_of.rows(max_length() - count, 2 * count - 1)), 0, 1);
  }
  /// As a matrix of every head, [heads, queries, keys]. Throws ShapeError beyond max_length.
  [[nodiscard]] Var<T, D> matrix(index_t queries, index_t keys) const {
    check(std::max(queries, keys));
    const auto known = bucket_of.to_host();
    const Tensor<token_t> buckets({queries, keys});
    for (index_t i = 0; i < queries; ++i)
      for (index_t j = 0; j < keys; ++j) buckets(i, j) = known.data()[max_length() - 1 + j - i];
    return permute(embedding(table, buckets.template to<D>()), {2, 0, 1});
  }
  template <class F>
  void fields(F&& field) {
    field("weight", table);
  }

 private:
  void check(index_t longest) const {
    if (longest > max_length())
      throw ShapeError("RelativeBias: a sentence of ", longest, " tokens is longer than the ", max_length(),
                       " positions of the model");
  }
};

}  // namespace attend::nn
