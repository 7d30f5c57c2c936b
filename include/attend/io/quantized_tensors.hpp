#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/page_table.hpp"
#include "attend/core/printable.hpp"
#include "attend/io/load_parameters.hpp"
#include "attend/io/safetensors_writer.hpp"
#include "attend/io/tensors.hpp"
#include "attend/kernels/int8_rows.hpp"
#include "attend/nn/fields.hpp"

/// Matrices of 8-bit integers in safetensors files: under the matrix's own name [rows, width] of I8, and beside it, as
/// `NAME.scale`, [rows] of F32, with x[i, j] = scale[i] * rows[i, j].
namespace attend::io {

/// What the scales of a matrix are called.
inline std::string scale_name(const std::string& name) { return name + ".scale"; }

/// Adds a matrix and its scales.
inline void add_quantized(SafetensorsWriter& writer, const std::string& name, const QuantizedRows& q) {
  writer.add_stream(name, DType::i8, q.rows.shape(), [q](FileSink& sink) { sink.write(std::as_bytes(q.rows.span())); });
  writer.add_stream(scale_name(name), DType::f32, q.scales.shape(),
                    [q](FileSink& sink) { sink.write(std::as_bytes(q.scales.span())); });
}

}  // namespace attend::io

namespace attend::detail {

/// What keeps a file's `name` from being 8-bit rows of `shape`; empty where nothing does.
template <io::TensorSource File>
std::string quantized_fault(const File& file, const std::string& name, const Shape& shape) {
  const auto& rows = file.info(name);
  const auto fault = [](const std::string& of, const std::string& is, const std::string& expected) {
    return printable(of) + " " + is + ", expected " + expected;
  };
  const auto dtype = [](io::DType type) { return "has the dtype " + std::string(io::dtype_name(type)); };
  const std::string scale = io::scale_name(name);
  if (rows.dtype != io::DType::i8) return fault(name, dtype(rows.dtype), "I8, since there is " + printable(scale));
  if (!(rows.shape == shape)) return fault(name, "has shape " + rows.shape.text(), shape.text());
  if (shape[1] > kernels::most_int8_products)
    return fault(name, "has rows of " + std::to_string(shape[1]), std::to_string(kernels::most_int8_products) + " at most");
  if (!file.contains(scale)) return fault(name, "has the dtype I8", printable(scale) + " beside it");
  const auto& scales = file.info(scale);
  if (scales.dtype != io::DType::f32) return fault(scale, dtype(scales.dtype), "F32");
  if (scales.shape != Shape{shape[0]}) return fault(scale, "has shape " + scales.shape.text(), Shape{shape[0]}.text());
  return {};
}

/// Parameters that a file has in 8-bit rows. One whose rows have several names, as q, k and v, is gathered from these. The model
/// gets them when all are there.
template <io::TensorSource File>
class QuantizedParameters {
 public:
  /// With `map`, rows may become a mapping of the file, as ParameterLoader's numbers.
  QuantizedParameters(const File& file, bool map) : file_(file), map_(map) {}

  /// What the file calls `name` is the rows of `t`. What is wrong is kept for `faults`.
  void add(const std::string& name, const nn::NamedTensor<float, Cpu>& t) {
    if (auto fault = quantized_fault(file_, name, t.value.shape()); !fault.empty()) return faults_.push_back(std::move(fault));
    auto [place, is_new] = gathered_.try_emplace(t.parameter.id(), Gathered{t.parameter, {}, {}, 0});
    place->second.parts.push_back({name, t.first_row, t.value.dim(0)});
    place->second.rows += t.value.dim(0);
  }
  /// Reads them. Returns all that is wrong.
  std::vector<std::string> read() {
    for (auto& [id, g] : gathered_) {
      if (g.rows == g.parameter.dim(0)) read(g);
      else faults_.push_back(printable(g.parts.front().name) + " is of I8, and not so what is one matrix with it");
    }
    std::sort(faults_.begin(), faults_.end());
    return faults_;
  }
  void assign() const {
    for (const auto& [id, g] : gathered_) g.parameter.set_value(Tensor<float>::from_quantized(g.q));
  }

 private:
  struct Part {
    std::string name;
    index_t first, count;  // its rows of the parameter
  };
  struct Gathered {
    Var<float> parameter;
    QuantizedRows q;
    std::vector<Part> parts;
    index_t rows;  // of all parts
  };

  void read(Gathered& g) {
    const Shape& shape = g.parameter.shape();
    g.q.rows = mapped(g);
    const bool is_mapped = g.q.rows.is_mapped();
    if (!is_mapped) g.q.rows = Tensor<std::int8_t>(shape);
    g.q.scales = Tensor<float>({shape[0]});
    for (const Part& part : g.parts) {
      const auto rows = g.q.rows.rows(part.first, part.count);
      const auto scales = g.q.scales.rows(part.first, part.count);
      if (!is_mapped) io::read_tensor_into(file_, part.name, rows);
      io::read_tensor_into(file_, io::scale_name(part.name), scales);
      check(part.name, rows, scales);
    }
    if (is_mapped) PageTable().release(g.q.rows.data(), static_cast<std::size_t>(shape.size()));
  }
  /// The rows where they lie in the file, if they lie there one behind another.
  Tensor<std::int8_t> mapped(const Gathered& g) const {
    const auto bytes = static_cast<std::size_t>(g.parameter.size());
    if (!map_ || bytes < io::MapFrom::current()) return {};
    PlaceOfParts whole;
    for (const Part& part : g.parts)
      if (!whole.add(file_.place(part.name), static_cast<std::size_t>(part.first * g.parameter.dim(1)))) return {};
    auto memory = whole.map(bytes);
    return memory.data ? Tensor<std::int8_t>::mapped(g.parameter.shape(), std::move(memory)) : Tensor<std::int8_t>();
  }
  /// Kernels rely on it that a byte's negative is a byte, sums on finite scales.
  void check(const std::string& name, const Tensor<std::int8_t>& rows, const Tensor<float>& scales) {
    std::int8_t least = 0;  // a loop that becomes vectors, which std::find does not
    for (const std::int8_t byte : rows.span()) least = std::min(least, byte);
    if (least == -128) faults_.push_back(printable(name) + " holds -128, expected -127 to 127");
    for (const float scale : scales.span()) {
      if (scale >= 0 && scale <= std::numeric_limits<float>::max()) continue;
      faults_.push_back(printable(io::scale_name(name)) + " holds " + std::to_string(scale) +
                        ", expected finite numbers from 0 on");
      break;
    }
  }

  const File& file_;
  bool map_;
  std::map<const void*, Gathered> gathered_;
  std::vector<std::string> faults_;
};

}  // namespace attend::detail
