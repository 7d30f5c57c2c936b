#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "attend/core/types.hpp"

/// The number types of files, and their conversion to and from those of programs.

namespace attend::io {

// Numbers are copied from and to files as they are; a big-endian machine would have to swap their bytes in this header.
static_assert(std::endian::native == std::endian::little, "attend/io: files are little-endian, and so must the machine be");

/// A number type that a file can hold. The order is the one by which safetensors sorts tensors: alignment grows along it.
enum class DType : std::uint8_t { boolean, u8, i8, i16, u16, f16, bf16, i32, u32, f32, f64, i64, u64 };

}  // namespace attend::io

namespace attend::detail {

/// What a DType is called in files, and the bytes of one number.
struct DTypeRow {
  std::string_view name;
  std::size_t bytes;
};

/// By DType, in its order.
inline constexpr std::array<DTypeRow, 13> dtype_rows = {{{"BOOL", 1},
                                                         {"U8", 1},
                                                         {"I8", 1},
                                                         {"I16", 2},
                                                         {"U16", 2},
                                                         {"F16", 2},
                                                         {"BF16", 2},
                                                         {"I32", 4},
                                                         {"U32", 4},
                                                         {"F32", 4},
                                                         {"F64", 8},
                                                         {"I64", 8},
                                                         {"U64", 8}}};

/// Half-precision floats as they lie in a file.
struct StoredF16 {
  std::uint16_t bits;
};
/// bfloat16 as it lies in a file.
struct StoredBF16 {
  std::uint16_t bits;
};
/// A truth value as it lies in a file, where any byte may stand: reading one into a `bool` unchecked would be undefined.
struct StoredBool {
  std::uint8_t byte;
};

/// `value / 2^shift`, to nearest, ties to even.
constexpr std::uint64_t shift_right_rounded(std::uint64_t value, int shift) {
  if (shift >= 64) return 0;
  const std::uint64_t quotient = value >> shift, rest = value & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  return quotient + (rest > half || (rest == half && quotient % 2 == 1));
}

/// `x` as a 16-bit float of that many fraction bits, to nearest, ties to even. From double, so that nothing is rounded twice.
template <int fraction_bits>
constexpr std::uint16_t encode_16_bits(double x) {
  constexpr int exponent_bits = 15 - fraction_bits, exponent_limit = (1 << exponent_bits) - 1, bias = exponent_limit / 2;
  constexpr std::uint64_t infinity = std::uint64_t{exponent_limit} << fraction_bits;
  constexpr int dropped = 52 - fraction_bits;  // how many more fraction bits a double has
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t sign = bits >> 63 << 15, fraction = bits & ((std::uint64_t{1} << 52) - 1);
  const int double_exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const int exponent = double_exponent - 1023 + bias;
  std::uint64_t magnitude = infinity;
  if (double_exponent == 0x7ff) {
    if (fraction != 0) magnitude |= fraction >> dropped | std::uint64_t{1} << (fraction_bits - 1);  // quiet, its payload cut
  } else if (exponent >= exponent_limit) {
    // too large: infinity
  } else if (exponent > 0) {
    magnitude =
        shift_right_rounded(static_cast<std::uint64_t>(exponent) << 52 | fraction, dropped);  // a carry goes into the exponent
  } else {
    // Subnormal in 16 bits. (A subnormal double has no leading one, but is far too small to matter.)
    magnitude = shift_right_rounded(std::uint64_t{1} << 52 | fraction, dropped + 1 - exponent);
  }
  return static_cast<std::uint16_t>(sign | magnitude);
}

}  // namespace attend::detail

namespace attend::io {

/// `F32`, as safetensors writes it.
constexpr std::string_view dtype_name(DType dtype) { return detail::dtype_rows[static_cast<std::size_t>(dtype)].name; }
/// Bytes of one number.
constexpr std::size_t dtype_bytes(DType dtype) { return detail::dtype_rows[static_cast<std::size_t>(dtype)].bytes; }
/// The type with that name, if it is one that the library knows.
constexpr std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < detail::dtype_rows.size(); ++i)
    if (detail::dtype_rows[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}
/// Whether it is one of the floating-point types.
constexpr bool is_floating(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
}

/// IEEE 754 half precision (5 exponent bits, 10 fraction bits) as a float: exact.
constexpr float decode_f16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);  // infinity and NaN
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // zero and subnormals, which a float holds as normals
  return sign != 0 ? -magnitude : magnitude;
}
/// bfloat16, the upper half of a float, as a float: exact.
constexpr float decode_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
/// The nearest half-precision number, ties to even; infinity beyond what rounds to 65,504; NaN stays NaN.
constexpr std::uint16_t encode_f16(double x) { return detail::encode_16_bits<10>(x); }
/// The nearest bfloat16, ties to even; NaN stays NaN.
constexpr std::uint16_t encode_bf16(double x) { return detail::encode_16_bits<7>(x); }

/// A type of the program that numbers of a file can be read into and written from.
template <class T>
concept Storable = Scalar<T> || std::same_as<T, bool> || std::same_as<T, std::int8_t> || std::same_as<T, std::uint8_t> ||
    std::same_as<T, std::int16_t> || std::same_as<T, std::uint16_t> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::uint32_t> || std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t>;

/// The file's type with the same numbers as `T`.
template <Storable T>
constexpr DType dtype_of() {
  if constexpr (std::same_as<T, bool>) return DType::boolean;
  if constexpr (std::same_as<T, bfloat16>) return DType::bf16;
  if constexpr (std::floating_point<T>) return sizeof(T) == 4 ? DType::f32 : DType::f64;
  constexpr bool is_signed = std::is_signed_v<T>;
  if constexpr (sizeof(T) == 1) return is_signed ? DType::i8 : DType::u8;
  if constexpr (sizeof(T) == 2) return is_signed ? DType::i16 : DType::u16;
  if constexpr (sizeof(T) == 4) return is_signed ? DType::i32 : DType::u32;
  return is_signed ? DType::i64 : DType::u64;
}

/// Whether `decode` can give a `T` for numbers of that type: floats take everything, integers take integers and truth
/// values, a `bool` takes truth values.
template <Storable T>
constexpr bool can_decode(DType dtype) {
  if constexpr (Scalar<T>) return true;
  if constexpr (std::same_as<T, bool>) return dtype == DType::boolean;
  return !is_floating(dtype);
}

}  // namespace attend::io

namespace attend::detail {

/// decode for numbers that lie in the file as `Stored`.
template <class Stored, class T>
index_t decode_from(const std::byte* in, std::span<T> out) {
  const auto value_of = [](Stored stored) {
    if constexpr (std::same_as<Stored, StoredF16>) return io::decode_f16(stored.bits);
    else if constexpr (std::same_as<Stored, StoredBF16>) return io::decode_bf16(stored.bits);
    else if constexpr (std::same_as<Stored, StoredBool>) return static_cast<std::uint8_t>(stored.byte != 0);
    else return stored;
  };
  using Value = decltype(value_of(Stored{}));
  if constexpr (std::integral<T> &&
                (std::floating_point<Value> || (std::same_as<T, bool> && !std::same_as<Stored, StoredBool>))) {
    return 0;  // what can_decode refuses
  } else {
    for (std::size_t i = 0; i < out.size(); ++i) {
      Stored stored;
      std::memcpy(&stored, in + i * sizeof(Stored), sizeof(Stored));  // offsets in files need not be aligned
      const Value value = value_of(stored);
      if constexpr (std::integral<T> && !std::same_as<T, bool>)
        if (!std::in_range<T>(value)) return static_cast<index_t>(i);
      if constexpr (std::same_as<T, bfloat16>) out[i] = bfloat16::from_bits(io::encode_bf16(static_cast<double>(value)));
      else out[i] = static_cast<T>(value);
    }
    return count_of(out);
  }
}

}  // namespace attend::detail

namespace attend::io {

/// Converts `out.size()` numbers at `in` (unaligned is fine) to `T`, and returns how many were converted: fewer than all if an
/// integer, the one at that position, does not fit into `T`; none unless `can_decode<T>(dtype)`. Floats round to nearest, and to
/// infinity where they must.
template <Storable T>
index_t decode(DType dtype, const std::byte* in, std::span<T> out) {
  switch (dtype) {
    case DType::boolean:
      return detail::decode_from<detail::StoredBool>(in, out);
    case DType::u8:
      return detail::decode_from<std::uint8_t>(in, out);
    case DType::i8:
      return detail::decode_from<std::int8_t>(in, out);
    case DType::i16:
      return detail::decode_from<std::int16_t>(in, out);
    case DType::u16:
      return detail::decode_from<std::uint16_t>(in, out);
    case DType::f16:
      return detail::decode_from<detail::StoredF16>(in, out);
    case DType::bf16:
      return detail::decode_from<detail::StoredBF16>(in, out);
    case DType::i32:
      return detail::decode_from<std::int32_t>(in, out);
    case DType::u32:
      return detail::decode_from<std::uint32_t>(in, out);
    case DType::f32:
      return detail::decode_from<float>(in, out);
    case DType::f64:
      return detail::decode_from<double>(in, out);
    case DType::i64:
      return detail::decode_from<std::int64_t>(in, out);
    case DType::u64:
      return detail::decode_from<std::uint64_t>(in, out);
  }
  return 0;
}

/// Writes floats at `out` as numbers of a floating-point type, each to nearest, ties to even. `out` has room for
/// `in.size() * dtype_bytes(dtype)` bytes.
template <Scalar T>
void encode(DType dtype, std::span<const T> in, std::byte* out) {
  const auto each = [&](auto convert) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto stored = convert(in[i]);
      std::memcpy(out + i * sizeof(stored), &stored, sizeof(stored));
    }
  };
  switch (dtype) {
    case DType::f16:
      return each([](T x) { return encode_f16(static_cast<double>(x)); });
    case DType::bf16:
      return each([](T x) { return encode_bf16(static_cast<double>(x)); });
    case DType::f32:
      return each([](T x) { return static_cast<float>(x); });
    case DType::f64:
      return each([](T x) { return static_cast<double>(x); });
    default:
      return;
  }
}

}  // namespace attend::io
