#pragma once

#include <concepts>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/precision.hpp"
#include "attend/core/thread_setting.hpp"
#include "attend/core/weights_version.hpp"
#include "attend/io/mapped_file.hpp"
#include "attend/io/tensors.hpp"
#include "attend/nn/fields.hpp"
#include "attend/nn/quantized.hpp"

/// How the parameters of a model get the values that a file has: on the processor they become the file's own bytes where these
/// are what they need, so that a model takes no more memory than its file, and is there before it is read. All else is read, one
/// tensor at a time, to where it belongs.

namespace attend::io {

/// While one is in scope, models that this thread loads have their parameters of so many bytes or more mapped, and the smaller
/// ones read; 64 KiB otherwise, since a mapping takes whole pages, and the system some memory for each. `MapFrom(MapFrom::never)`
/// is for files that others may overwrite in their place while the model is used: a look at a part that is gone ends the process
/// (SIGBUS). Files that are removed, or replaced by others of their names, as this library and `mv` do it, are no such case.
class MapFrom : public detail::ThreadSetting<MapFrom, std::size_t, std::size_t{1} << 16> {
 public:
  static constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
  using ThreadSetting::ThreadSetting;
};

/// What a model is loaded for.
enum class Use {
  translation,  ///< its matrices are packed once and then hardly looked at
  adapters,     ///< training of low-rank adapters alone, whose every step reads the matrices
};

/// While one is in scope, the float models that this thread loads (`load`, `load_model`, `load_state`, `load_pretrained`) are
/// for translating with that precision on the CPU, or for training adapters alone with products of it, and what they compute with
/// it is the same, bit for bit, in less memory:
///
/// - Matrices and embeddings that lie in the file in bfloat16 and in one piece are mapped, and stay in bfloat16. What cannot be
///   mapped is read, and stays so too, unless it is for `Precision::int8`. Floats of one matrix at a time are made when it is
///   packed.
/// - Other matrices that have to be read, because their file has other numbers or not all of one together, become for
///   `Precision::bf16` bfloat16 and for `Precision::int8` 8-bit integers as they are read: what the translation makes of them
///   anyway, but for a model that is larger than memory in floats. Embeddings and a head that is one stay in floats.
///
/// Such a model is for `decode::TransformerModel` and what is made of it, and for training low-rank adapters beside what it holds
/// (`nn::add_adapters`) with products of that precision, full or bf16. It cannot be trained on otherwise, computed with in
/// another way, loaded into again or saved for other libraries (see `nn::check_floats`). Adapters themselves stay in floats.
///
///     const io::LoadFor purpose(Precision::int8);
///     auto loaded = load("folder");
class LoadFor : private detail::ThreadSetting<LoadFor, int, -1> {
 public:
  /// For adapters and `Precision::bf16`, matrices that products multiply by become bfloat16 even where floats could be mapped.
  /// Throws ValueError for adapters and `Precision::int8`: `nn::quantize` makes the model that they are trained beside.
  explicit LoadFor(Precision precision, Use use = Use::translation)
      : ThreadSetting(static_cast<int>(precision) + precisions * static_cast<int>(use)) {
    check_value(use == Use::translation || precision != Precision::int8, "LoadFor",
                "no training has products in int8; expected full or bf16");
  }

  /// What models are loaded for on this thread; nothing if nobody has said.
  static std::optional<Precision> current() {
    const int purpose = ThreadSetting::current();
    return purpose < 0 ? std::nullopt : std::optional(static_cast<Precision>(purpose % precisions));
  }
  /// What is then done with them.
  static Use use() { return ThreadSetting::current() < precisions ? Use::translation : Use::adapters; }

 private:
  static constexpr int precisions = 256;  // more than there are
};

}  // namespace attend::io

namespace attend::detail {

/// Where something lies in a file if all its parts lie there as they lie in it, one behind another.
class PlaceOfParts {
 public:
  /// A part is there, and stands so many bytes after the beginning of the whole. False if that does not go with the others.
  bool add(const std::optional<io::TensorPlace>& part, std::size_t before) {
    if (!part || part->begin < before) return false;
    const io::TensorPlace place{part->file, part->begin - before};
    if (whole_ && (whole_->file != place.file || whole_->begin != place.begin)) return false;
    whole_ = place;
    return true;
  }
  /// `bytes` of the file from there on, see io::map_privately.
  [[nodiscard]] MappedMemory map(std::size_t bytes) const {
    return whole_ ? io::map_privately(*whole_->file, whole_->begin, bytes) : MappedMemory{};
  }
  /// Whether numbers of that size may stand there.
  [[nodiscard]] bool is_aligned(std::size_t size) const { return whole_ && whole_->begin % size == 0; }

 private:
  std::optional<io::TensorPlace> whole_;
};

/// Which tensors of a file give a model its values. They are noted first, so that nothing changes before all of them are found.
template <class T, Device D, io::TensorSource File>
class ParameterLoader {
 public:
  /// With `map`, parameters may become a mapping of the file, and views of them that others have are then of what they were.
  ParameterLoader(const File& file, bool map) : file_(file), map_(map && std::same_as<D, Cpu>) {}

  /// The tensor `name` of the file, which has as many elements, is the values of `to`.
  void add(const nn::NamedTensor<T, D>& to, const std::string& name) { add(to, {{name, 0, 0, to.value.size()}}); }

  /// A part of a tensor of the file: `count` elements from `from` on, which are those of the model's tensor from `to` on.
  struct Piece {
    std::string name;
    index_t from, to, count;
  };
  /// The same from several pieces, which make up all of `to`.
  void add(const nn::NamedTensor<T, D>& to, std::vector<Piece> pieces) {
    auto& parts = parts_of_[to.parameter.id()];
    if (parts.empty()) order_.push_back(to.parameter.id());
    parts.push_back({to, std::move(pieces)});
  }

  /// Does with the matrices of `model` as `LoadFor` says, but for those of adapters.
  template <class M>
  void heed_purpose([[maybe_unused]] const M& model) {
    if constexpr (std::same_as<M, nn::Transformer<float>>) {
      purpose_ = io::LoadFor::current();
      if (!purpose_) return;
      for (const auto& parameter : nn::quantizable_parameters(model)) matrices_.insert(parameter.id());
      for (const auto& parameter : nn::product_parameters(model)) factors_.insert(parameter.id());
    }
  }

  /// Changes the model, once. Throws IoError where reading fails; the model is then read in part.
  void load() {
    const WeightsChange change;
    std::size_t freed = 0;  // of the memory that parameters were made with
    for (const void* id : order_) {
      const auto parts = parts_of_.extract(id);
      const bool rounded = io::LoadFor::use() == io::Use::adapters && rounds(id, parts.mapped());
      bool elsewhere = !rounded && map_parameter(parts.mapped());
      if constexpr (std::same_as<T, float> && std::same_as<D, Cpu>) elsewhere = elsewhere || take_bfloat16(id, parts.mapped());
      if (!elsewhere) {
        for (const Part& part : parts.mapped()) read(part);
        if constexpr (std::same_as<T, float> && std::same_as<D, Cpu>)
          elsewhere = purpose_ == Precision::int8 && factors_.contains(id) && quantize(parts.mapped().front().tensor);
      }
      if (elsewhere) freed += bytes_of(parts.mapped());
      if (freed < std::size_t{1} << 26) continue;
      release_cached(D{});  // before there is more of it than a large matrix takes
      freed = 0;
    }
    if (freed > 0) release_cached(D{});
  }

 private:
  struct Part {
    nn::NamedTensor<T, D> tensor;
    std::vector<Piece> pieces;
  };

  static std::size_t bytes_of(const std::vector<Part>& parts) {
    return static_cast<std::size_t>(parts.front().tensor.parameter.size()) * sizeof(T);
  }

  /// f(piece, where it begins in the parameter, counted in elements) for all of the parts' pieces, until it is false.
  template <class F>
  static bool all_pieces(const std::vector<Part>& parts, F&& f) {
    for (const Part& part : parts)
      for (const Piece& piece : part.pieces)
        if (!f(piece, part.tensor.value.data() - part.tensor.parameter.data() + piece.to)) return false;
    return true;
  }

  /// Whether the file has all of a parameter in numbers of that type.
  bool stored_as(io::DType type, const std::vector<Part>& parts) const {
    return all_pieces(parts, [&](const Piece& piece, index_t) { return file_.info(piece.name).dtype == type; });
  }

  /// Whether the file has all of a parameter, and none of it keeps the values that it had.
  static bool complete(const std::vector<Part>& parts) {
    index_t count = 0;
    for (const Part& part : parts)
      for (const Piece& piece : part.pieces) count += piece.count;
    return count == parts.front().tensor.parameter.size();
  }

  /// All of a parameter where it lies in the file as it must, in the file's numbers, which are of type V; no elements otherwise.
  template <class V>
  Tensor<V> mapped(const std::vector<Part>& parts) const {
    const Shape& shape = parts.front().tensor.parameter.shape();
    const std::size_t bytes = static_cast<std::size_t>(shape.size()) * sizeof(V);
    if (!map_ || bytes == 0 || bytes < io::MapFrom::current()) return {};
    if (!complete(parts) || !stored_as(io::dtype_of<V>(), parts)) return {};
    PlaceOfParts whole;
    const bool together = all_pieces(parts, [&](const Piece& piece, index_t to) {
      auto place = file_.place(piece.name);
      if (place) place->begin += static_cast<std::size_t>(piece.from) * sizeof(V);
      return whole.add(place, static_cast<std::size_t>(to) * sizeof(V));
    });
    if (!together || !whole.is_aligned(alignof(V))) return {};
    auto memory = whole.map(bytes);
    return memory.data ? Tensor<V>::mapped(shape, std::move(memory)) : Tensor<V>();
  }

  /// Has a parameter look into the file, if all of it lies there as it must.
  bool map_parameter(const std::vector<Part>& parts) const {
    if constexpr (std::same_as<D, Cpu>) {
      const auto elements = mapped<T>(parts);
      if (!elements.empty()) parts.front().tensor.parameter.set_value(elements);
      return !elements.empty();
    } else {
      return false;
    }
  }

  /// Whether rounding what the file has to bfloat16 gives the bits that rounding the floats made of it does.
  bool rounds_as_floats(const std::vector<Part>& parts) const {
    return all_pieces(parts, [&](const Piece& piece, index_t) {
      const io::DType type = file_.info(piece.name).dtype;
      return type == io::DType::f32 || type == io::DType::f16 || type == io::DType::bf16;
    });
  }

  /// Whether a matrix is to be rounded to bfloat16.
  bool rounds(const void* id, const std::vector<Part>& parts) const {
    return purpose_ == Precision::bf16 && factors_.contains(id) && rounds_as_floats(parts);
  }

  /// Has a matrix be rows in bfloat16, if that is what the file has or the products of the translation want.
  bool take_bfloat16(const void* id, const std::vector<Part>& parts) const {
    if (!purpose_ || !matrices_.contains(id)) return false;
    Tensor<bfloat16> rows = mapped<bfloat16>(parts);
    if (rows.empty()) {
      if (*purpose_ == Precision::int8 || !complete(parts)) return false;
      if (!rounds(id, parts) && !stored_as(io::DType::bf16, parts)) return false;
      rows = Tensor<bfloat16>(parts.front().tensor.parameter.shape());
      all_pieces(parts, [&](const Piece& piece, index_t to) {
        file_.read_part(piece.name, piece.from, rows.span().subspan(to, piece.count));
        return true;
      });
    }
    parts.front().tensor.parameter.set_value(Tensor<float>::from_bfloat16(rows));
    return true;
  }

  void read(const Part& part) const {
    const auto& to = part.tensor.value;
    const auto read_pieces = [&](std::span<T> out) {
      for (const Piece& p : part.pieces) file_.read_part(p.name, p.from, out.subspan(p.to, p.count));
    };
    if constexpr (std::same_as<D, Cpu>) {
      read_pieces(to.span());
    } else {
      const Tensor<T, Cpu> host(to.shape());
      read_pieces(host.span());
      to.assign(host);
    }
  }

  /// Whether it did. What 8 bits cannot hold, such as a number that is not finite, stays as it is, as in a mapped file.
  static bool quantize(const nn::NamedTensor<T, D>& t) {
    try {
      t.parameter.set_value(Tensor<float>::from_quantized(nn::quantized_rows(t.name, t.parameter.value())));
      return true;
    } catch (const ValueError&) {
      return false;
    }
  }

  const File& file_;
  bool map_;
  std::optional<Precision> purpose_;
  std::unordered_set<const void*> matrices_, factors_;  // by Var::id: what may be of other numbers; what products multiply by
  std::vector<const void*> order_;                      // of the parameters, by Var::id
  std::unordered_map<const void*, std::vector<Part>> parts_of_;
};

}  // namespace attend::detail
