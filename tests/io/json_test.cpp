#include "attend/io/json.hpp"

#include <string>
#include <vector>

#include "catch.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("JSON is written and read back") {
  const TemporaryFolder folder;
  const io::Json value = {{"d_model", 512}, {"dropout", 0.1}, {"languages", {"en", "es"}}, {"name", "día"}};
  io::write_json(folder / "config.json", value);
  REQUIRE(io::read_json(folder / "config.json") == value);
  REQUIRE_THROWS_AS(io::write_json(folder / "config.json", io::Json("\xff")), ValueError);
  REQUIRE(io::read_json(folder / "config.json") == value);
  REQUIRE_THROWS_AS(io::read_json(folder / "missing.json"), IoError);
}

TEST_CASE("bad JSON is a FormatError that names the text and the place") {
  const auto check = [](const std::string& text, const std::string& message) {
    INFO(text.substr(0, 60));
    REQUIRE_THROWS_AS(io::parse_json(text, "config.json"), FormatError);
    REQUIRE_THROWS_WITH(io::parse_json(text, "config.json"),
                        Catch::Matchers::StartsWith("config.json: ") && ContainsSubstring(message));
  };
#if NLOHMANN_JSON_VERSION_MAJOR * 10000 + NLOHMANN_JSON_VERSION_MINOR * 100 + NLOHMANN_JSON_VERSION_PATCH >= 31103
  check("", "attempting to parse an empty input");
#else
  check("", "unexpected end of input");
#endif
  check("{\n  \"a\": ,\n}", "line 2");
  check("{\"a\": 1", "unexpected end of input");
  check("{} {}", "expected end of input");
  check(std::string("{}\0", 3), "zero byte");
  check("{\"a\": \"\xc3(\"}", "ill-formed UTF-8");
  check("{\"a\": 1, \"b\": {}, \"a\": 2}", "the key \"a\" twice");
  check("[{\"a\": {\"b\": 1, \"b\": 1}}]", "the key \"b\" twice");
  check("[1e999]", "number overflow");
  check(std::string(1'000'000, '['), "nested more than 100 deep");
  check("[" + std::string(100'000, '1') + "e99999999]", "number overflow");
}

TEST_CASE("the same key may stand in different objects") {
  REQUIRE(io::parse_json(R"([{"a": {"a": 1}}, {"a": 2}])", "text").size() == 2);
  REQUIRE(io::parse_json(std::string(100, '[') + std::string(100, ']'), "text").is_array());
}

TEST_CASE("messages are one line of bearable length that splits no character") {
  const std::string shown = detail::printable("a\nb\x1b[0m" + std::string(193, '.') + "éé");
  REQUIRE(shown == "a?b?[0m" + std::string(193, '.') + "...");
  REQUIRE(detail::printable(std::string(199, '.') + "é") == std::string(199, '.') + "...");
  REQUIRE(detail::printable(std::string(198, '.') + "é") == std::string(198, '.') + "é");
}

TEST_CASE("JsonObject gives values of the type that is asked for") {
  const io::Json json = io::parse_json(
      R"({"width": 512, "rate": 0.5, "whole": 2, "name": "tiny", "tied": true, "sizes": [1, 2], "none": null, "decoder": {"layers": 6}})",
      "config.json");
  const io::JsonObject config(json, "config.json");
  REQUIRE(config.get<std::int64_t>("width") == 512);
  REQUIRE(config.get<double>("rate") == 0.5);
  REQUIRE(config.get<float>("whole") == 2.0f);
  REQUIRE(config.get<std::string>("name") == "tiny");
  REQUIRE(config.get<bool>("tied"));
  REQUIRE(config.get<std::vector<int>>("sizes") == std::vector<int>{1, 2});
  REQUIRE(config.object("decoder").get<int>("layers") == 6);
  REQUIRE(config.get("missing", 7) == 7);
  REQUIRE(config.get("none", std::string("default")) == "default");
  REQUIRE(config.get("width", 7) == 512);
  REQUIRE(config.contains("name"));
  REQUIRE_FALSE(config.contains("none"));
}

TEST_CASE("JsonObject names the key, its value and what was expected") {
  const io::Json json = io::parse_json(
      R"({"width": "wide", "rate": 0.5, "large": 300, "negative": -1, "sizes": [1, "two"], "decoder": {"layers": []}})",
      "config.json");
  const io::JsonObject config(json, "config.json");
  REQUIRE_THROWS_AS(config.get<int>("width"), FormatError);
  REQUIRE_THROWS_WITH(config.get<int>("width"), "config.json: width is \"wide\", expected a whole number");
  REQUIRE_THROWS_WITH(config.get<int>("rate"), "config.json: rate is 0.5, expected a whole number");
  REQUIRE_THROWS_WITH(config.get<std::int8_t>("large"), "config.json: large is 300, expected a number from -128 to 127");
  REQUIRE_THROWS_WITH(config.get<std::uint64_t>("negative"), ContainsSubstring("negative is -1"));
  REQUIRE_THROWS_WITH(config.get<bool>("large"), "config.json: large is 300, expected true or false");
  REQUIRE_THROWS_WITH(config.get("width", 1.0), "config.json: width is \"wide\", expected a number");
  REQUIRE_THROWS_WITH(config.get<std::string>("large"), "config.json: large is 300, expected a string");
  REQUIRE_THROWS_WITH(config.get<std::vector<int>>("sizes"), "config.json: sizes[1] is \"two\", expected a whole number");
  REQUIRE_THROWS_WITH(config.get<std::vector<int>>("large"), "config.json: large is 300, expected an array");
  REQUIRE_THROWS_WITH(config.get<int>("missing"), "config.json: has no missing");
  REQUIRE_THROWS_WITH(config.object("large"), "config.json: large is 300, expected an object");
  REQUIRE_THROWS_WITH(config.object("decoder").get<int>("layers"),
                      "config.json: decoder.layers is an array, expected a whole number");
  const io::Json odd = io::parse_json(R"({"a\u001b[2Jb": "x"})", "vocab.json");
  REQUIRE_THROWS_WITH(io::JsonObject(odd, "vocab.json").get<int>("a\x1B[2Jb"),
                      "vocab.json: a?[2Jb is \"x\", expected a whole number");
  const io::Json array = io::Json::array();
  REQUIRE_THROWS_WITH(io::JsonObject(array, "config.json"), "config.json: is an array, expected an object");
}
