#include "attend/io/dtype.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "catch.hpp"

using namespace attend;
using io::DType;

namespace {

/// Every number of a 16-bit format comes back from its float, and what lies between two neighbours goes to the nearer, or to
/// the even one from the middle.
template <class Decode, class Encode>
void check_16_bits(Decode decode, Encode encode, std::uint16_t infinity) {
  int wrong = 0;
  for (std::uint32_t i = 0; i < infinity; ++i) {
    const auto low = static_cast<std::uint16_t>(i), high = static_cast<std::uint16_t>(i + 1);
    const double x = decode(low);
    // Beyond the largest number, what would be the next one stands for infinity.
    const double next = high == infinity ? x + (x - decode(static_cast<std::uint16_t>(i - 1))) : decode(high);
    const double middle = (x + next) / 2;
    wrong += encode(x) != low;
    wrong += encode(-x) != (low | 0x8000);
    wrong += encode(middle) != (low % 2 == 0 ? low : high);
    wrong += encode(std::nextafter(middle, 0.0)) != low;
    wrong += encode(std::nextafter(middle, next)) != high;
  }
  REQUIRE(wrong == 0);
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  REQUIRE(encode(inf) == infinity);
  REQUIRE(encode(-inf) == (infinity | 0x8000));
  REQUIRE(encode(1e300) == infinity);
  REQUIRE(encode(std::numeric_limits<double>::denorm_min()) == 0);
  REQUIRE(std::isinf(decode(infinity)));
  REQUIRE(std::isnan(decode(encode(nan))));
  REQUIRE(std::isnan(decode(encode(std::bit_cast<double>(0x7ff0000000000001)))));  // a payload that would be lost
  for (std::uint32_t i = infinity + 1; i < 0x8000; ++i) wrong += !std::isnan(decode(static_cast<std::uint16_t>(i)));
  REQUIRE(wrong == 0);
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

TEST_CASE("half precision holds all its numbers and rounds to nearest even") {
  check_16_bits(io::decode_f16, io::encode_f16, 0x7c00);
  REQUIRE(io::decode_f16(0x3c00) == 1.0f);
  REQUIRE(io::decode_f16(0xc000) == -2.0f);
  REQUIRE(io::decode_f16(0x7bff) == 65504.0f);
  REQUIRE(io::decode_f16(0x0001) == 0x1p-24f);
  REQUIRE(io::decode_f16(0x0400) == 0x1p-14f);
  REQUIRE(io::encode_f16(1.0 + 0x1p-11 + 0x1p-40) == 0x3c01);  // by way of float this would be rounded twice, down to 1
}

TEST_CASE("bfloat16 holds all its numbers and rounds to nearest even") {
  check_16_bits(io::decode_bf16, io::encode_bf16, 0x7f80);
  REQUIRE(io::decode_bf16(0x3f80) == 1.0f);
  REQUIRE(io::encode_bf16(3.140625) == 0x4049);
  REQUIRE(io::decode_bf16(0x0001) == 0x1p-133f);
}

TEST_CASE("dtypes know their names and sizes") {
  for (int i = 0; i <= static_cast<int>(DType::u64); ++i) {
    const auto dtype = static_cast<DType>(i);
    REQUIRE(io::dtype_from_name(io::dtype_name(dtype)) == dtype);
  }
  REQUIRE(io::dtype_name(DType::bf16) == "BF16");
  REQUIRE(io::dtype_bytes(DType::bf16) == 2);
  REQUIRE(io::dtype_bytes(DType::boolean) == 1);
  REQUIRE_FALSE(io::dtype_from_name("f32"));
  REQUIRE_FALSE(io::dtype_from_name("F8_E4M3"));
  STATIC_REQUIRE(io::dtype_of<float>() == DType::f32);
  STATIC_REQUIRE(io::dtype_of<std::int64_t>() == DType::i64);
  STATIC_REQUIRE(io::dtype_of<std::uint8_t>() == DType::u8);
  STATIC_REQUIRE(io::dtype_of<bool>() == DType::boolean);
}

TEST_CASE("decode converts from unaligned bytes, and stops at an integer that does not fit") {
  std::vector<std::byte> bytes = bytes_of(std::vector<std::int32_t>{-1, 70000, 300});
  bytes.insert(bytes.begin(), std::byte{0});
  std::vector<float> floats(3);
  REQUIRE(io::decode<float>(DType::i32, bytes.data() + 1, floats) == 3);
  REQUIRE(floats == std::vector<float>{-1, 70000, 300});
  std::vector<std::int16_t> shorts(3);
  REQUIRE(io::decode<std::int16_t>(DType::i32, bytes.data() + 1, shorts) == 1);
  std::vector<std::uint64_t> unsigned_longs(3);
  REQUIRE(io::decode<std::uint64_t>(DType::i32, bytes.data() + 1, unsigned_longs) == 0);
  REQUIRE(io::decode<std::uint64_t>(DType::f32, bytes.data() + 1, unsigned_longs) == 0);
  REQUIRE_FALSE(io::can_decode<std::uint64_t>(DType::f32));
  REQUIRE_FALSE(io::can_decode<bool>(DType::u8));
  REQUIRE(io::can_decode<double>(DType::u64));
}

TEST_CASE("decode takes any byte for a truth value") {
  const std::vector<std::byte> bytes = {std::byte{0}, std::byte{1}, std::byte{2}};
  std::array<bool, 3> truths{};
  REQUIRE(io::decode<bool>(DType::boolean, bytes.data(), truths) == 3);
  REQUIRE(truths == std::array<bool, 3>{false, true, true});
  std::vector<std::int32_t> integers(3);
  REQUIRE(io::decode<std::int32_t>(DType::boolean, bytes.data(), integers) == 3);
  REQUIRE(integers == std::vector<std::int32_t>{0, 1, 1});
}

TEST_CASE("decode rounds doubles to floats, and to infinity what is too large") {
  const std::vector<std::byte> bytes = bytes_of(std::vector<double>{0.1, 1e300, -1e-300});
  std::vector<float> floats(3);
  REQUIRE(io::decode<float>(DType::f64, bytes.data(), floats) == 3);
  REQUIRE(floats[0] == 0.1f);
  REQUIRE(std::isinf(floats[1]));
  REQUIRE(floats[2] == 0.0f);
}

TEST_CASE("encode writes each floating-point type") {
  const std::vector<float> values = {1.0f, -2.5f, 0.0f};
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    std::vector<std::byte> bytes(values.size() * io::dtype_bytes(dtype));
    io::encode<float>(dtype, values, bytes.data());
    std::vector<float> back(values.size());
    REQUIRE(io::decode<float>(dtype, bytes.data(), back) == 3);
    REQUIRE(back == values);
  }
}
