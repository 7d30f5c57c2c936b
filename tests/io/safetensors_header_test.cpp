#include "attend/io/safetensors_header.hpp"

#include <string>

#include "catch.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

io::SafetensorsHeader parse(const std::string& text, std::size_t data_bytes) {
  return io::parse_safetensors_header(text, data_bytes, "file: ");
}

void check_refused(const std::string& text, std::size_t data_bytes, const std::string& message) {
  INFO(text.substr(0, 120));
  REQUIRE_THROWS_AS(parse(text, data_bytes), FormatError);
  REQUIRE_THROWS_WITH(parse(text, data_bytes), Catch::Matchers::StartsWith("file: ") && ContainsSubstring(message));
}

/// The header of one tensor `x`.
std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"x":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

/// The header of two tensors of bytes.
std::string two(int begin_a, int end_a, int begin_b, int end_b) {
  const auto entry = [](const std::string& name, int begin, int end) {
    return "\"" + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(end - begin) + R"(],"data_offsets":[)" +
           std::to_string(begin) + "," + std::to_string(end) + "]}";
  };
  return "{" + entry("a", begin_a, end_a) + "," + entry("b", begin_b, end_b) + "}";
}

}  // namespace

TEST_CASE("a header says what the tensors are, whatever its order and spaces") {
  const auto header = parse(
      R"({ "b" : {"shape":[2, 3], "data_offsets":[4,28], "dtype":"F32"}, "__metadata__":{"format":"pt","note":"é\n"},
           "a":{"dtype":"BF16","data_offsets":[0,4],"shape":[2]}, "scalar":{"dtype":"F64","shape":[],"data_offsets":[28,36]},
           "empty":{"dtype":"I64","shape":[5,0],"data_offsets":[28,28]} }    )",
      36);
  REQUIRE(header.tensors.size() == 4);
  REQUIRE(header.tensors[0].name == "a");
  REQUIRE(header.tensors[0].dtype == io::DType::bf16);
  REQUIRE(header.tensors[1].shape == Shape{2, 3});
  REQUIRE(header.tensors[1].begin == 4);
  REQUIRE(header.tensors[1].end == 28);
  REQUIRE(header.tensors[2].shape.size() == 0);
  REQUIRE(header.tensors[3].shape.rank() == 0);
  REQUIRE(header.metadata.at("format") == "pt");
  REQUIRE(header.metadata.at("note") == "é\n");
}

TEST_CASE("a header without tensors belongs to a file without data") {
  REQUIRE(parse("{}", 0).tensors.empty());
  REQUIRE(parse(R"({"__metadata__":{}})", 0).tensors.empty());
  check_refused("{}", 1, "has 1 bytes of data, expected 0");
}

TEST_CASE("a header that is not JSON or not an object is refused") {
  check_refused("", 0, "does not begin with '{'");
  check_refused("[]", 0, "does not begin with '{'");
  check_refused("\xef\xbb\xbf{}", 0, "does not begin with '{'");
  check_refused(" {}", 0, "does not begin with '{'");
  check_refused("{", 0, "not JSON");
  check_refused("{}}", 0, "not JSON");
  check_refused("{}{}", 0, "not JSON");
  check_refused(std::string("{}\0{", 4), 0, "zero byte");
  check_refused("{\"\xff\":{}}", 0, "ill-formed UTF-8");
  check_refused("{\"\xc0\xaf\":{}}", 0, "ill-formed UTF-8");
  check_refused(R"({"x":1e999})", 0, "number overflow");
}

TEST_CASE("values of other kinds than the format has are refused") {
  check_refused(R"({"x":1})", 0, "'x' is 1, expected an object");
  check_refused(R"({"x":[]})", 0, "'x' is an array, expected an object");
  check_refused(R"({"__metadata__":null})", 0, "'__metadata__' is null");
  check_refused(R"({"__metadata__":{"a":1}})", 0, "__metadata__ has 1 for 'a', expected a string");
  check_refused(R"({"__metadata__":{"a":{}}})", 0, "__metadata__ has an object for 'a'");
  check_refused(tensor("4", "[]", "[0,4]"), 4, "has 4 for dtype, expected a string");
  check_refused(tensor("[]", "[]", "[0,4]"), 4, "has an array for dtype");
  check_refused(tensor(R"("F99")", "[]", "[0,4]"), 4, "tensor 'x' has the dtype 'F99', expected one of BOOL, U8");
  check_refused(tensor(R"("F32")", "1", "[0,4]"), 4, "has 1 for shape, expected an array");
  check_refused(tensor(R"("F32")", R"(["1"])", "[0,4]"), 4, "has a string in its shape");
  check_refused(tensor(R"("F32")", "[[1]]", "[0,4]"), 4, "has an array in its shape");
  check_refused(tensor(R"("F32")", "[-1]", "[0,4]"), 4, "has -1 in its shape");
  check_refused(tensor(R"("F32")", "[1.0]", "[0,4]"), 4, "has 1.0 in its shape");
  check_refused(tensor(R"("F32")", "[true]", "[0,4]"), 4, "has true in its shape");
  check_refused(tensor(R"("F32")", "[1]", "{}"), 4, "has an object for data_offsets");
  check_refused(tensor(R"("F32")", "[1]", "[0]"), 4, "has 1 data_offsets, expected two");
  check_refused(tensor(R"("F32")", "[1]", "[0,4,8]"), 4, "more than two data_offsets");
  check_refused(tensor(R"("F32")", "[1]", "[0,4.5]"), 4, "has 4.5 in its data_offsets");
  check_refused(tensor(R"("F32")", "[1]", "[-4,0]"), 4, "has -4 in its data_offsets");
}

TEST_CASE("fields that are missing, unknown or given twice are refused") {
  check_refused(R"({"x":{}})", 0, "tensor 'x' has no dtype");
  check_refused(R"({"x":{"dtype":"U8","data_offsets":[0,1]}})", 1, "has no shape");
  check_refused(R"({"x":{"dtype":"U8","shape":[1]}})", 1, "has no data_offsets");
  check_refused(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1}})", 1, "has the field 'more'");
  check_refused(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"shape":[1]}})", 1, "has the field shape twice");
  const std::string x = R"("x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  check_refused("{" + x + "," + x + "}", 1, "has the tensor 'x' twice");
  check_refused(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2,
                "has the tensor 'x' twice");
  check_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, "has __metadata__ twice");
  check_refused(R"({"__metadata__":{"a":"1","a":"2"}})", 0, "__metadata__ has the key 'a' twice");
}

TEST_CASE("shapes and offsets whose arithmetic would overflow are refused") {
  const std::string huge = "9223372036854775807";
  check_refused(tensor(R"("U8")", "[" + huge + ",2]", "[0,4]"), 4, "too many elements");
  check_refused(tensor(R"("U8")", "[4294967296,4294967296,4294967296]", "[0,4]"), 4, "too many elements");
  check_refused(tensor(R"("F64")", "[2305843009213693952]", "[0,0]"), 0, "expected 2305843009213693952 numbers");
  check_refused(tensor(R"("F64")", "[" + huge + "]", "[0,4]"), 4, "has 4 bytes");
  check_refused(tensor(R"("U8")", "[9223372036854775808]", "[0,4]"), 4, "has 9223372036854775808 in its shape");
  check_refused(tensor(R"("U8")", "[18446744073709551616]", "[0,4]"), 4, "in its shape");
  check_refused(tensor(R"("U8")", "[4]", "[0,18446744073709551615]"), 4, "the file has only 4 bytes");
  check_refused(tensor(R"("U8")", "[4]", "[18446744073709551612,4]"), 4, "runs backwards");
  check_refused(tensor(R"("U8")", "[4]", "[0,18446744073709551620]"), 4, "in its data_offsets");
  check_refused(tensor(R"("U8")", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "more than 8 dimensions");
}

TEST_CASE("tensors must be as long as their shapes say and fill the data end to end") {
  check_refused(tensor(R"("F32")", "[2]", "[0,4]"), 4, "has 4 bytes, expected 2 numbers (shape [2]) of 4 bytes each (F32)");
  check_refused(tensor(R"("F32")", "[1]", "[0,5]"), 5, "has 5 bytes");
  check_refused(tensor(R"("F32")", "[1]", "[4,0]"), 4, "runs backwards");
  check_refused(tensor(R"("F32")", "[1]", "[0,4]"), 3, "the file has only 3 bytes of data");
  check_refused(tensor(R"("F32")", "[1]", "[0,4]"), 7, "has 7 bytes of data, expected 4");
  check_refused(tensor(R"("F32")", "[1]", "[4,8]"), 8, "bytes 0 to 4 of the data, before tensor 'x', belong to no tensor");
  REQUIRE(parse(two(4, 8, 0, 4), 8).tensors.size() == 2);
  REQUIRE(parse(two(0, 4, 4, 4), 4).tensors.size() == 2);
  check_refused(two(0, 4, 5, 8), 8, "bytes 4 to 5 of the data, before tensor 'b', belong to no tensor");
  check_refused(two(0, 5, 4, 8), 8, "tensor 'b' has its bytes at 4 to 8, and tensor 'a' at 0 to 5: they overlap");
  check_refused(two(0, 4, 0, 4), 4, "they overlap");
  check_refused(two(0, 4, 2, 2), 4, "they overlap");
}

TEST_CASE("a header cannot exhaust the stack or fill a message") {
  const std::string deep(1'000'000, '[');
  check_refused("{\"x\":" + deep, 0, "'x' is an array");
  check_refused("{\"__metadata__\":{\"x\":" + deep, 0, "has an array for 'x'");
  std::string objects = "{";
  for (int i = 0; i < 100'000; ++i) objects += "\"x\":{";
  check_refused(objects, 0, "has the field 'x'");
  check_refused(R"({"x":{"dtype":"U8","shape":[)" + std::string(1'000'000, '1') + "]}}", 0, "number overflow");
  try {
    parse("{\"" + std::string(1'000'000, 'x') + "\":1}", 0);
    FAIL("a tensor that is a number was taken");
  } catch (const FormatError& error) {
    REQUIRE(std::string(error.what()).size() < 400);
  }
}

TEST_CASE("whatever byte of a header is replaced, tensors lie within the data or the header is refused") {
  const std::string good = two(4, 12, 0, 4);
  int taken = 0, outside = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string text = good;
      text[i] = static_cast<char>(byte);
      try {
        for (const io::TensorInfo& tensor : parse(text, 12).tensors) outside += tensor.begin > tensor.end || tensor.end > 12;
        ++taken;
      } catch (const FormatError&) {
      }
    }
  }
  REQUIRE(taken > 100);  // other names
  REQUIRE(outside == 0);
}
