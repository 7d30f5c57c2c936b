#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/printable.hpp"
#include "attend/io/safetensors_writer.hpp"
#include "attend/io/tensors.hpp"
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
  if (!file.contains(scale)) return fault(name, "has the dtype I8", printable(scale) + " beside it");
  const auto& scales = file.info(scale);
  if (scales.dtype != io::DType::f32) return fault(scale, dtype(scales.dtype), "F32");
  if (scales.shape != Shape{shape[0]}) return fault(scale, "has shape " + scales.shape.text(), Shape{shape[0]}.text());
  return {};
}

/// Parameters that a file has in 8-bit rows. One whose rows have several names, as q, k and v, is gathered from these. The model
/// gets them when all are there.
class QuantizedParameters {
 public:
  /// Reads what the file calls `name` as the rows of `t`. What is wrong is kept for `faults`.
  template <io::TensorSource File>
  void read(const File& file, const std::string& name, const nn::NamedTensor<float, Cpu>& t) {
    if (auto fault = quantized_fault(file, name, t.value.shape()); !fault.empty()) return faults_.push_back(std::move(fault));
    auto& gathered = gathered_[t.parameter.id()];
    if (gathered.missing < 0) {
      const Shape& shape = t.parameter.shape();
      gathered = {t.parameter, {Tensor<std::int8_t>(shape), Tensor<float>({shape[0]})}, name, shape[0]};
    }
    const index_t count = t.value.dim(0);
    const QuantizedRows q{gathered.q.rows.rows(t.first_row, count), gathered.q.scales.rows(t.first_row, count)};
    io::read_tensor_into(file, name, q.rows);
    io::read_tensor_into(file, io::scale_name(name), q.scales);
    gathered.missing -= count;
    // Kernels rely on it that a byte's negative is a byte, sums on finite scales.
    std::int8_t least = 0;  // a loop that becomes vectors, which std::find does not
    for (const std::int8_t byte : q.rows.span()) least = std::min(least, byte);
    if (least == -128) faults_.push_back(printable(name) + " holds -128, expected -127 to 127");
    for (const float scale : q.scales.span()) {
      if (scale >= 0 && scale <= std::numeric_limits<float>::max()) continue;
      faults_.push_back(printable(io::scale_name(name)) + " holds " + std::to_string(scale) +
                        ", expected finite numbers from 0 on");
      break;
    }
  }
  /// All that is wrong.
  [[nodiscard]] std::vector<std::string> faults() const {
    auto all = faults_;
    if (all.empty())
      for (const auto& [id, g] : gathered_)
        if (g.missing > 0) all.push_back(printable(g.name) + " is of I8, and not so what is one matrix with it");
    std::sort(all.begin(), all.end());
    return all;
  }
  void assign() const {
    for (const auto& [id, g] : gathered_) g.parameter.set_value(Tensor<float>::from_quantized(g.q));
  }

 private:
  struct Gathered {
    Var<float> parameter;
    QuantizedRows q;
    std::string name;      // of its first part in the file
    index_t missing = -1;  // rows that have not been read; -1 where nothing has
  };
  std::map<const void*, Gathered> gathered_;
  std::vector<std::string> faults_;
};

}  // namespace attend::detail
