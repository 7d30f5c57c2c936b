#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <type_traits>
#include <utility>

#include "attend/core/page_table.hpp"
#include "attend/core/precision.hpp"
#include "attend/core/read_mostly_mutex.hpp"
#include "attend/core/tensor.hpp"
#include "attend/core/weights_version.hpp"
#include "attend/cpu/basic.hpp"
#include "attend/cpu/bf16.hpp"
#include "attend/cpu/int8.hpp"
#include "attend/cpu/packed_matrix.hpp"

namespace attend::detail {

/// The bytes from the beginning of one sample of a matrix to the next. In a build without optimisation samples lie end to end;
/// otherwise they are few, because a step of decoding does little more than read the weights once.
inline std::size_t fingerprint_step() {
#if defined(NDEBUG) || defined(__OPTIMIZE__)
  return 16384;
#else
  return 64;
#endif
}

/// A number that tells the values of a matrix from others, made from the first 64 bytes of each `step` and the last 64: a whole
/// matrix overwritten shows, a part of less than a step may not.
template <class T>
std::uint64_t fingerprint(const T* values, index_t count, std::size_t step) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(values);
  const std::size_t size = count * sizeof(T);
  std::uint64_t sum = size;
  const auto add = [&](std::size_t at) {  // 64 bytes from there, or what is left
    std::array<std::uint64_t, 8> words{};
    std::memcpy(words.data(), bytes + at, std::min(sizeof words, size - at));
    for (const std::uint64_t word : words) {
      sum = (sum ^ word) * 0x9E3779B97F4A7C15u;
      sum ^= sum >> 32;
    }
  };
  for (std::size_t at = 0; at < size; at += step) add(at);
  if (size > 64) add(size - 64);
  return sum;
}

/// The same numbers in another type. Of a mapped file, the pages of what was read go back to the system.
template <class To, class From>
Tensor<To> converted(const Tensor<From>& x) {
  const Tensor<To> y(x.shape());
  convert(Cpu{}, x.size(), x.data(), y.data());
  if (x.is_mapped()) PageTable().release(x.data(), static_cast<std::size_t>(x.size()) * sizeof(From));
  return y;
}

}  // namespace attend::detail

namespace attend {

/// The matrices of a model in the order in which products read them, for those who multiply by the same weights again and again.
/// `linear` multiplies by these if it is handed them and records no gradients; so do modules that were told to by `use`. A matrix
/// is copied when it is first used; `refresh` forgets them all if weights have changed. Between two calls of `refresh` weights
/// are taken to stay as they are. A matrix of 8-bit rows (see `Tensor::quantized`) is one of a product in 8-bit integers, be the
/// precision full or int8; one in bfloat16 counts as the floats that it stands for. Memory of the weights that is a mapped file's
/// goes back to the system once it is copied. Several threads may use one, and seldom wait for one another to read it.
template <class T, Device D = Cpu>
class PackedWeights {
 public:
  /// Throws ValueError for bf16 and int8 unless the model is of float on the CPU.
  explicit PackedWeights(Precision precision = Precision::full) : precision_(precision) {
    check_value(precision == Precision::full || (std::is_same_v<T, float> && std::is_same_v<D, Cpu>), "PackedWeights",
                name_of(precision), " is for float models on the CPU");
  }
  [[nodiscard]] Precision precision() const { return precision_; }

  /// To be called before each piece of work with the same weights, by whoever may have seen them change. The library's own
  /// changes are always seen (`weights_version`), and so is what was written by hand over a whole matrix; after a part of one (a
  /// value, a row) call `weights_changed`. If one matrix has changed, all are made again, so that old ones never stand beside new
  /// ones.
  void refresh() const {
    const auto unused = [](const auto& entry) { return entry.second->whole.unique(); };  // weights that nobody else has any more
    {
      const std::shared_lock lock(mutex_);
      if (!changed() && std::none_of(matrices_.begin(), matrices_.end(), unused)) return;
    }
    const std::unique_lock lock(mutex_);
    if (changed()) {
      matrices_.clear();
      version_ = weights_version();
    } else {
      std::erase_if(matrices_, unused);
    }
  }

  /// y [rows, out] = x [rows, in] * weight^T + bias, `weight` being `out` rows of the matrix `whole` from row `first` on; x is
  /// not transposed. Throws ValueError for 8-bit rows and a precision of bf16.
  void linear(const kernels::Matrix<const T>& x, const Tensor<T, D>& whole, index_t first, const T* bias,
              const kernels::Matrix<T>& y) const {
    const Place place = place_of(whole, first, y.columns);
    {
      const std::shared_lock lock(mutex_);
      if (const auto known = matrices_.find(place); known != matrices_.end()) {
        known->second->product->multiply(x, bias, y);
        return;
      }
    }
    pack_rows(place, whole, first)->product->multiply(x, bias, y);
  }

 private:
  using Place = std::pair<const std::byte*, index_t>;  // of the first of some rows, and how many they are

  struct Packed {
    Tensor<T, D> whole;        // keeps the memory, so that no other matrix gets its address
    const T* begin = nullptr;  // of the rows that were copied; null where others stand in place of elements, and nobody writes
    index_t count = 0;
    std::uint64_t fingerprint = 0;
    bool released = false;  // the pages of a mapped file, which the system has again
    std::unique_ptr<const kernels::PackedProduct<T>> product;
  };

  /// Gives a mapped file's pages back to the system as rows of a matrix have been copied, so that a large one never stands in
  /// memory twice.
  class Release final : public kernels::PackingObserver {
   public:
    Release(const void* data, std::size_t row_bytes, std::size_t rows)
        : data_(static_cast<const std::byte*>(data)),
          row_bytes_(row_bytes),
          allowed_(pages_.written(data, rows * row_bytes) == false) {}
    void columns_read(index_t first, index_t last) override {
      const std::size_t from = first * row_bytes_, to = last * row_bytes_;
      if (allowed_ && pages_.release(data_ + from, to - from)) done = true;
    }
    bool done = false;  // for some of them

   private:
    const std::byte* data_;
    std::size_t row_bytes_;
    detail::PageTable pages_;
    bool allowed_;  // nobody has written to any
  };

  static Place place_of(const Tensor<T, D>& whole, index_t first, index_t count) {
    const std::size_t number = whole.quantized() ? sizeof(std::int8_t) : whole.in_bfloat16() ? sizeof(bfloat16) : sizeof(T);
    const std::size_t before = first * whole.dim(1) * number;
    return {static_cast<const std::byte*>(whole.place()) + before, count};
  }

  /// Whether weights may differ from what is here. Called with `mutex_` locked.
  [[nodiscard]] bool changed() const {
    if (weights_version() != version_) return true;
    detail::PageTable pages;
    return std::any_of(matrices_.begin(), matrices_.end(), [&](const auto& entry) {
      const Packed& m = *entry.second;
      if (m.begin == nullptr) return false;
      if (m.released) return pages.written(m.begin, m.count * sizeof(T)).value_or(true);  // a look would read it all again
      return detail::fingerprint(m.begin, m.count, step_) != m.fingerprint;
    });
  }

  /// The rows of `whole` at `place`, from `first` on.
  std::shared_ptr<const Packed> pack_rows(const Place& place, const Tensor<T, D>& whole, index_t first) const {
    const std::unique_lock lock(mutex_);
    if (const auto known = matrices_.find(place); known != matrices_.end()) return known->second;
    const index_t columns = whole.dim(1), count = place.second;
    auto packed = std::make_shared<Packed>();
    packed->whole = whole;
    std::optional<Release> release;
    if (const auto* q = whole.quantized()) {
      if (q->rows.is_mapped()) release.emplace(q->rows.data() + first * columns, columns, count);
      packed->product = pack_quantized(whole.rows(first, count), release ? &*release : nullptr);
    } else if (const auto* halves = whole.in_bfloat16()) {
      packed->product = pack_bfloat16(halves->rows(first, count));
    } else {
      packed->begin = whole.data() + first * columns, packed->count = count * columns;
      if (whole.is_mapped()) release.emplace(packed->begin, columns * sizeof(T), count);
      packed->product = pack({packed->begin, count, columns}, release ? &*release : nullptr);
    }
    packed->released = release && release->done;
    if (packed->begin != nullptr && !packed->released)
      packed->fingerprint = detail::fingerprint(packed->begin, packed->count, step_);
    matrices_.emplace(place, packed);
    return packed;
  }

  std::unique_ptr<const kernels::PackedProduct<T>> pack(const kernels::Matrix<const T>& rows, Release* release) const {
    const auto b = rows.transpose();
    if constexpr (std::is_same_v<T, float>) {
      if (precision_ == Precision::int8) return pack_int8(D{}, b, release);
      if (precision_ == Precision::bf16) return pack_bf16<T>(D{}, b, release);
    }
    return pack_matrix(D{}, b, release);
  }
  std::unique_ptr<const kernels::PackedProduct<T>> pack_quantized(const Tensor<T, D>& weight, Release* release) const {
    check_value(precision_ != Precision::bf16, "PackedWeights", "the precision is bf16, and the model is of 8-bit integers");
    if constexpr (std::is_same_v<T, float>) return pack_int8(D{}, kernels::as_rows(*weight.quantized()), release);
    return nullptr;  // there are none of other numbers
  }

  /// From floats that are there for a moment.
  std::unique_ptr<const kernels::PackedProduct<T>> pack_bfloat16(const Tensor<bfloat16>& rows) const {
    auto product = pack(kernels::as_rows(detail::converted<T>(rows)), nullptr);
    if (rows.size() >= index_t{1} << 24) release_cached(D{});  // a head's can be a gigabyte, which nothing else wants
    return product;
  }

  Precision precision_;
  // Asked once: files of a program that are compiled with other flags would give another answer, and then all would be made again
  // at each refresh.
  std::size_t step_ = detail::fingerprint_step();
  mutable detail::ReadMostlyMutex mutex_;
  mutable std::uint64_t version_ = 0;
  mutable std::map<Place, std::shared_ptr<const Packed>> matrices_;
};

/// On a GPU products read the weights as they are.
template <class T>
class PackedWeights<T, Cuda> {
 public:
  /// Throws ValueError for bf16 and int8.
  explicit PackedWeights(Precision precision = Precision::full) {
    check_value(precision == Precision::full, "PackedWeights", name_of(precision), " is for float models on the CPU");
  }
  [[nodiscard]] Precision precision() const { return Precision::full; }
  /// There are no copies to be made again.
  void refresh() const {}
};

}  // namespace attend
