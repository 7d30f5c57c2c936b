#include "docs/options.hpp"

#include "catch.hpp"

namespace fs = std::filesystem;

// That the fields stand in the order of the headers shows in that the program ATTEND_PAGES was built from the page.
TEST_CASE("docs/options.md is what the headers say: else the target docs_options writes it anew") {
  const fs::path root = ATTEND_SOURCE_DIR;
  const auto page = docs::lines(docs::read(root / "docs/options.md")), expected = docs::lines(docs::options_page(root));
  for (std::size_t i = 0; i < std::min(page.size(), expected.size()); ++i) {
    INFO("docs/options.md:" << i + 1);
    REQUIRE(page[i] == expected[i]);
  }
  CHECK(page.size() == expected.size());
}

TEST_CASE("declarations of fields are read as the compiler reads them") {
  using docs::fields_of;
  const auto text = [](const std::string& declaration) {
    std::string all;
    for (const auto& f : fields_of(declaration)) all += f.type + "|" + f.name + "|" + f.preset + "\n";
    return all;
  };
  CHECK(text("index_t d_k = 0") == "index_t|d_k|0\n");
  CHECK(text("index_t encoder_layers = -1, decoder_layers = -1") == "index_t|encoder_layers|-1\nindex_t|decoder_layers|-1\n");
  CHECK(text("std::optional<Var<T, D>> bias = {}, other = {}") ==
        "std::optional<Var<T, D>>|bias|{}\nstd::optional<Var<T, D>>|other|{}\n");
  CHECK(text("std::function<bool(int, int)> stop = {}") == "std::function<bool(int, int)>|stop|{}\n");
  CHECK(text("const std::atomic<bool>* stop = nullptr") == "const std::atomic<bool>*|stop|nullptr\n");
  CHECK(text("StackOptions encoder, decoder") == "StackOptions|encoder|\nStackOptions|decoder|\n");
  CHECK(text("Options o = { .a = 1, .b = f(2, 3)}") == "Options|o|{ .a = 1, .b = f(2, 3)}\n");
  CHECK(text("[[nodiscard]] double gain(int a, int b) const").empty());
  CHECK(text("static Options tiny(int a)").empty());
  const auto fields = docs::read_fields({"  /// Of the", "  /// beam.", "  index_t beam = 4;", "", "  double p = 0,  ///< a",
                                         "      q = 1;  ///< b", "                 ///< c", "  int f(int x) {", "    return x;",
                                         "  }", "  bool g = true;"});
  REQUIRE(fields.size() == 4);
  CHECK(fields[0].text == "Of the beam.");
  CHECK(fields[2].name == "q");
  CHECK(fields[2].text == "b c");
  CHECK(fields[3].name == "g");
  CHECK(docs::read_all_options(ATTEND_SOURCE_DIR).size() > 40);
}
