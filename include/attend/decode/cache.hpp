#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "attend/core/tensor.hpp"
#include "attend/cpu/attention_step.hpp"
#include "attend/cpu/rearrange.hpp"

namespace attend::decode {

/// The keys and values that the self-attentions of a decoder have computed so far, for all its layers, for rows (prefixes) that
/// split, move and end. Keys and values stay where they were written: those of one step and layer lie in a slab of their own,
/// and `reorder` only changes a table that says, for each row and step, in which row of the slab its prefix went on.
///
/// One step of decoding:
///   cache.begin_step();
///   for each layer: cache.append(layer, kv); cache.attend(layer, scale, q, out);
/// and between steps, where rows change: cache.reorder(rows).
template <Scalar T, Device D = Cpu>
class SelfCache {
 public:
  /// For `rows` empty prefixes. Throws ValueError if a size is not positive (rows and layers may be 0).
  /// `kv_heads`: of keys and values, where they have fewer.
  SelfCache(index_t layers, index_t rows, index_t heads, index_t d_k, index_t d_v, index_t kv_heads = 0)
      : heads_(heads), kv_heads_(kv_heads ? kv_heads : heads), d_k_(d_k), d_v_(d_v), rows_(rows) {
    check_value(layers >= 0 && rows >= 0 && heads > 0 && d_k > 0 && d_v > 0, "SelfCache", "a size is negative or zero");
    check_value(kv_heads_ > 0 && heads % kv_heads_ == 0, "SelfCache", "kv_heads is ", kv_heads_, ", no divisor of ", heads,
                " heads");
    check_value(rows <= std::numeric_limits<std::int32_t>::max(), "SelfCache", rows, " rows");
    layers_.resize(layers);
  }
  SelfCache(SelfCache&&) = default;  // not copied: two caches would write into the same slab
  SelfCache& operator=(SelfCache&&) = default;

  /// The prefixes there are now.
  [[nodiscard]] index_t rows() const { return rows_; }
  /// The steps begun so far: the number of tokens of every prefix.
  [[nodiscard]] index_t steps() const { return steps_; }
  /// The width of a row of keys and values, kv_heads * (d_k + d_v).
  [[nodiscard]] index_t width() const { return kv_heads_ * (d_k_ + d_v_); }

  /// Every prefix gets one token more; `append` then brings its keys and values.
  void begin_step() {
    for (const auto& layer : layers_)
      if (layer.count != steps_) throw Error("SelfCache: a step begins before every layer has appended to the one before");
    if (steps_ == table_.dim(1)) grow(std::max<index_t>(32, 2 * steps_));
    begin_table_step(D{}, as_rows(table_), steps_);
    ++steps_;
  }

  /// The keys of all heads and then the values of all heads, for each row of this step: kv [rows, width()]. They are copied.
  /// Throws IndexError, ShapeError, Error where this step already has them.
  void append(index_t layer, const kernels::Matrix<const T>& kv) {
    Layer& l = checked(layer);
    check_rows("append", kv, width());
    if (l.count != steps_ - 1) throw Error("SelfCache: layer ", layer, " appends twice in a step, or before begin_step");
    T* const slab = l.next_slab(rows_ * width());
    copy_runs(D{}, kv, kernels::Matrix<T>{slab, rows_, width()});
    store_pointer(D{}, static_cast<const T*>(slab), l.slabs.data() + l.count++);
  }

  /// out[r] = softmax(scale * q[r] . keys + bias) values over the prefix of row r, this step's token included, head by head.
  /// q [rows, heads * d_k], out [rows, heads * d_v]. Throws IndexError, ShapeError, Error before `append`.
  void attend(index_t layer, double scale, const kernels::Matrix<const T>& q, const kernels::Matrix<T>& out,
              const kernels::StepBias<T>& bias = {}) {
    const Layer& l = checked(layer);
    if (l.count != steps_ || steps_ == 0) throw Error("SelfCache: layer ", layer, " attends before it has appended");
    check_rows("attend", q, heads_ * d_k_);
    check_rows("attend", kernels::Matrix<const T>(out), heads_ * d_v_);
    const kernels::SlabRows<T> keys{l.slabs.data(), {width(), 0, kv_heads_ * d_k_}, begun(table_), bias};
    attention_step(D{}, {heads_, d_k_, d_v_, scale, heads_ / kv_heads_}, q, keys, out);
  }

  /// Row i continues what was row rows[i]. Throws IndexError for a row that does not exist.
  void reorder(std::span<const index_t> rows) {
    for (const index_t r : rows)
      if (r < 0 || r >= rows_) throw IndexError("SelfCache: reorder takes row ", r, " of ", rows_);
    check_value(rows.size() <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()), "SelfCache", rows.size(),
                " rows");
    const auto count = count_of(rows);
    const Tensor<std::int32_t, D> next({count, table_.dim(1)});
    reorder_table(D{}, rows.data(), begun(table_), begun(next));
    table_ = next;
    rows_ = count;
  }

 private:
  struct Layer {
    Tensor<const T*, D> slabs;  // [room for steps]: where each step's [rows at that step, width] lies
    index_t count = 0;          // of slabs
    std::vector<Tensor<T, D>> chunks;
    index_t used = 0;  // elements of the last chunk

    /// Room for a slab, in the last chunk or a new one: a chunk holds the slabs of many steps where they are small.
    T* next_slab(index_t size) {
      constexpr index_t least = 1 << 16;
      if (chunks.empty() || chunks.back().size() - used < size) {
        chunks.push_back(Tensor<T, D>({std::max(least, size)}));
        used = 0;
      }
      T* slab = chunks.back().data() + used;
      used += size;
      return slab;
    }
  };

  /// Makes room for that many steps.
  void grow(index_t steps) {
    const Tensor<std::int32_t, D> wider({rows_, steps});
    copy_runs(D{}, begun(table_), begun(wider));
    table_ = wider;
    for (Layer& layer : layers_) {
      const Tensor<const T*, D> longer({steps});
      copy(D{}, layer.count, layer.slabs.data(), longer.data());
      layer.slabs = longer;
    }
  }

  void check_rows(const char* what, const kernels::Matrix<const T>& m, index_t columns) const {
    if (m.rows != rows_ || m.columns != columns)
      throw ShapeError("SelfCache: ", what, " is given [", m.rows, ", ", m.columns, "], expected [", rows_, ", ", columns, "]");
  }

  /// The columns of a table that steps so far have written.
  [[nodiscard]] kernels::Matrix<std::int32_t> begun(const Tensor<std::int32_t, D>& table) const {
    return {table.data(), table.dim(0), steps_, table.dim(1)};
  }

  Layer& checked(index_t layer) {
    if (layer < 0 || layer >= count_of(layers_)) throw IndexError("SelfCache: layer ", layer, " of ", layers_.size());
    return nth(layers_, layer);
  }

  index_t heads_, kv_heads_, d_k_, d_v_, rows_, steps_ = 0;
  std::vector<Layer> layers_;
  Tensor<std::int32_t, D> table_{Shape{0, 0}};  // [rows, room for steps]
};

}  // namespace attend::decode
