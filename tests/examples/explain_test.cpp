#include "../../examples/translate/pages/explain.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "../../examples/translate/pages/grey_picture.hpp"
#include "../../examples/translate/pages/markup.hpp"
#include "attend/core/error.hpp"
#include "catch.hpp"
#include "page.hpp"

namespace {

using namespace report;
using attend::decode::Fate;
using Catch::Matchers::ContainsSubstring;

std::vector<Piece> pieces(const std::vector<std::string>& texts) {
  std::vector<Piece> all;
  for (const auto& text : texts) all.push_back({text, static_cast<std::int64_t>(10 + all.size()), PieceKind::text});
  all.push_back({"</s>", 2, PieceKind::end});
  return all;
}

/// Weights of heads that differ, whose rows add up to 1.
AttentionKind kind(const std::string& name, const std::vector<Piece>& down, const std::vector<Piece>& across, std::size_t layers,
                   std::size_t heads) {
  AttentionKind k{name, "Kind " + name, "What is seen.", down, across, {}};
  k.weights.assign(layers, std::vector<std::vector<float>>(heads));
  float seed = 1;
  for (auto& layer : k.weights)
    for (auto& head : layer)
      for (std::size_t q = 0; q < down.size(); ++q) {
        float sum = 0;
        for (std::size_t i = 0; i < across.size(); ++i) head.push_back(seed = std::fmod(seed * 7.3f + 1.1f, 5.0f)), sum += seed;
        for (std::size_t i = 0; i < across.size(); ++i) head[q * across.size() + i] /= sum;
      }
  return k;
}

/// A search with a beam of 2: "x y end" wins over "x end", and "z" is dropped.
Explanation sample(std::size_t layers = 2, std::size_t heads = 3) {
  Explanation data;
  data.source = "a b";
  data.source_pieces = pieces({"▁a", "▁b"});
  data.translations = {{"x y", pieces({"▁x", "y"}), {-0.1, -0.2, -0.3}, -0.6, -0.5, true}, {"x", {}, {}, -1.5, -1.25, true}};
  data.translations[1].pieces = {data.translations[0].pieces[0], data.translations[0].pieces[2]};
  data.translations[1].log_probabilities = {-0.1, -1.4};
  const auto& target = data.translations[0].pieces;
  data.attention = {kind("cross", target, data.source_pieces, layers, heads),
                    kind("encoder", data.source_pieces, data.source_pieces, layers, heads),
                    kind("decoder", target, target, layers, heads)};
  data.beam = {{0, -1, 10, -0.1, -0.1, -0.1, Fate::live},   {0, -1, 12, -2.5, -2.5, -2.4, Fate::live},
               {1, 0, 11, -0.2, -0.3, -0.25, Fate::live},   {1, 0, 2, -1.4, -1.5, -1.25, Fate::ended},
               {1, 1, 13, -0.9, -3.4, -3.0, Fate::dropped}, {2, 2, 2, -0.3, -0.6, -0.5, Fate::ended}};
  for (const auto& c : data.beam)
    data.beam_pieces.push_back(c.token == 2    ? target[2]
                               : c.token == 10 ? target[0]
                               : c.token == 11 ? target[1]
                                               : Piece{"▁z" + std::to_string(c.token), c.token, PieceKind::text});
  data.settings = {{"layers", "2"}};
  return data;
}

}  // namespace

TEST_CASE("explain: has a picture of every head and of each layer's mean, once small and once large", "[explain]") {
  const std::string page = html(sample(2, 3));
  CHECK(unbalanced(page) == "");
  CHECK(page.rfind("<!DOCTYPE html>\n<html lang=\"en\">", 0) == 0);
  const std::size_t maps = 3 * (2 * 3 + 2);
  CHECK(count(page, "<image id=") == maps);
  CHECK(count(page, "<figure class=\"large\">") == maps);
  CHECK(count(page, "type=\"radio\"") == maps);
  CHECK(count(page, " checked>") == 3);
  CHECK(count(page, ".large:nth-of-type(") == maps / 3);
  for (const char* kind : {"cross", "encoder", "decoder"}) {
    CHECK(count(page, std::string("href=\"#") + kind + "-axes\"") == maps / 3);
    for (const char* map : {"-1-1", "-1-3", "-2-mean"}) {
      CHECK(count(page, "id=\"" + std::string(kind) + map + "\"") == 1);
      CHECK(count(page, "href=\"#" + std::string(kind) + map + "\"") == 1);
    }
  }
  for (const char* part : {"Layer 2, head 3", "Layer 1, mean of 3 heads", "<b>−0.5000</b>", "−0.600", "3 → 3"}) {
    INFO(part);
    CHECK(has(page, part));
  }
}

TEST_CASE("explain: is one whole page that fetches nothing", "[explain]") {
  const std::string page = html(sample());
  for (const char* part : {"http:", "https:", "src=", "@import", "fetch(", "<link"}) CHECK_FALSE(has(page, part));
  CHECK(count(page, "href=\"") == count(page, "href=\"#") + count(page, "href=\"data:image/png;base64,"));
  CHECK(count(page, "url(") == count(page, "url(#ink)"));
  CHECK(has(page, "prefers-color-scheme: dark"));
}

TEST_CASE("explain: pictures and notes hold the weights", "[explain]") {
  const Explanation data = sample(2, 2);
  const std::string page = html(data);
  for (const AttentionKind& kind : data.attention)
    for (std::size_t l = 0; l < 2; ++l) {
      const auto mean = weights_in(page, kind.name + '-' + std::to_string(l + 1) + "-mean");
      for (std::size_t h = 0; h < 2; ++h) {
        const auto drawn = weights_in(page, kind.name + '-' + std::to_string(l + 1) + '-' + std::to_string(h + 1));
        REQUIRE(drawn.size() == kind.weights[l][h].size());
        for (std::size_t i = 0; i < drawn.size(); ++i)
          CHECK(drawn[i] == Approx(static_cast<double>(kind.weights[l][h][i])).margin(2e-5));
      }
      for (std::size_t i = 0; i < mean.size(); ++i)
        CHECK(mean[i] == Approx(static_cast<double>(kind.weights[l][0][i] + kind.weights[l][1][i]) / 2).margin(2e-5));
    }
  CHECK(has(page, "<title>y → ▁b: " + fixed(static_cast<double>(data.attention[0].weights[1][1][4]), 3) + "</title>"));
}

TEST_CASE("explain: weights that are none are drawn as none", "[explain]") {
  Explanation data = sample(1, 1);
  data.attention[0].weights[0][0] = {2.0f, -1.0f, std::nanf(""), 0, 0, 0, 0, 0, 1};
  const std::string page = html(data);
  CHECK(weights_in(page, "cross-1-1") == std::vector<double>{1, 0, 0, 0, 0, 0, 0, 0, 1});
  CHECK(has(page, "▁x → end: not a number"));
  CHECK_FALSE(has(page, ": nan"));
  CHECK_FALSE(has(page, "\"nan"));
}

TEST_CASE("explain: text cannot become markup, nor bytes that are not UTF-8 spoil the page", "[explain]") {
  const std::string evil = "</script><img src=x onerror='a'> & \"\xff\x01", tame = "&lt;img src=x onerror=&#39;a&#39;&gt;";
  Explanation data = sample();
  data.source = evil;
  for (auto& translation : data.translations) {
    translation.text = evil;
    for (auto& piece : translation.pieces) piece.text = evil;
  }
  for (auto& piece : data.source_pieces) piece.text = evil;
  for (auto& piece : data.beam_pieces) piece.text = evil;
  for (auto& kind : data.attention) kind.title = kind.note = kind.down[0].text = kind.across[1].text = evil;
  data.settings = {{evil, evil}};
  const std::string page = html(data);
  CHECK(unbalanced(page) == "");
  CHECK_FALSE(has(page, "<img"));
  CHECK_FALSE(has(page, "\xff"));
  CHECK(count(page, "</script>") == 1);
  CHECK(count(page, tame) > 40);
}

TEST_CASE("explain: pieces stand as words, and what is no text is marked", "[explain]") {
  auto data = sample();
  data.source_pieces = {{"▁a", 5, PieceKind::text},     {"b", 6, PieceKind::text}, {"▁", 7, PieceKind::text},
                        {"<0xE2>", 8, PieceKind::byte}, {"☃", 3, PieceKind::unk},  {"</s>", 2, PieceKind::end}};
  data.attention.clear();
  const std::string page = html(data), source = between(page, "<h3>Source</h3>", "<h3>");
  CHECK(count(source, "class=\"word\"") == 3);
  CHECK(count(source, "class=\"chip byte\"") == 1);
  CHECK(count(source, "class=\"chip unknown\"") == 1);
  CHECK(has(source, "<bdi>end</bdi><small>2</small>"));
  CHECK(has(source, "<bdi>b</bdi><small>6</small>"));
  CHECK(has(page, "a single byte"));
  CHECK(has(page, "does not know"));
  CHECK_FALSE(has(page, "class=\"links"));
  CHECK_FALSE(has(page, "Where it looks"));
  const std::string plain = html(sample());
  CHECK_FALSE(has(plain, "a single byte"));
  CHECK_FALSE(has(plain, "does not know"));
}

TEST_CASE("explain: what is written from right to left stands so", "[explain]") {
  CHECK(is_right_to_left("שלום world"));
  CHECK(is_right_to_left("▁1. مرحبا"));
  CHECK_FALSE(is_right_to_left("Hola שלום"));
  CHECK_FALSE(is_right_to_left("▁где"));
  CHECK_FALSE(is_right_to_left("▁…12"));
  auto data = sample();
  CHECK_FALSE(has(html(data), "dir=\"rtl\""));
  data.source_pieces[0].text = "▁שלום";
  data.attention[0].across = data.source_pieces;
  const std::string page = html(data);
  CHECK(count(page, "dir=\"rtl\"") == 1);
  const auto x = [&](const std::string& label) {
    const std::size_t at = page.find(">" + label + "</text>");
    return std::stod(between(page, "x=\"", "\"", page.rfind("<text", at)));
  };
  CHECK(x("▁שלום") > x("▁b"));
  CHECK(x("▁x") < x("y"));
}

TEST_CASE("explain: every candidate of the search is drawn and told", "[explain]") {
  const Explanation data = sample();
  const std::string page = beam_html(data);
  CHECK(unbalanced(page) == "");
  CHECK(count(page, "data-node=") == 6);
  CHECK(count(page, "class=\"step\"") == 3);
  for (int i = 0; i < 6; ++i) CHECK(count(page, "id=\"e" + std::to_string(i) + "\"") == 1);
  CHECK(count(page, "class=\"edge best\"") == 3);
  CHECK(count(page, "class=\"edge dropped\"") == 1);
  CHECK(count(page, "class=\"node live best\"") == 2);
  CHECK(count(page, "class=\"node ended best\"") == 1);
  CHECK(count(page, "class=\"node ended\"") == 1);
  CHECK(count(page, "class=\"node dropped\"") == 1);
  CHECK(count(page, "class=\"rank\"") == 2);
  CHECK(count(page, "<tr class=\"best\">") == 3);
  CHECK(count(page, "<tr>") == 4);  // and the head's
  CHECK(has(page,
            "<title>▁x y → end (token 2)\nprobability 74.1 %, log-probability −0.300\nsum −0.600, score −0.500\nended, number "
            "1 of the list</title>"));
  CHECK(
      has(page, "<title>▁z12 → ▁z13 (token 13)\nprobability 40.7 %, log-probability −0.900\nsum −3.400, score −3.000\ndropped"));
  CHECK(beam_html({}) == "");
}

TEST_CASE("explain: of a large beam what was dropped is only told", "[explain]") {
  Explanation data;
  for (int i = 0; i < 5000; ++i) {
    data.beam.push_back({0, -1, i, -1, -1, -1, i < 10 ? Fate::live : Fate::dropped});
    data.beam_pieces.push_back({"p", i, PieceKind::text});
  }
  const std::string page = beam_html(data);
  CHECK(count(page, "data-node=") == 10);
  CHECK(count(page, "<tr>") == 5001);
  CHECK(has(page, "only in the table"));
}

TEST_CASE("explain: lists that do not belong together are refused", "[explain]") {
  const auto refused = [](auto spoil, const std::string& message) {
    auto data = sample();
    spoil(data);
    CHECK_THROWS_WITH(html(data), ContainsSubstring(message));
    CHECK_THROWS_AS(html(data), attend::ValueError);
  };
  refused([](auto& d) { d.beam_pieces.pop_back(); }, "the beam has 6 candidates and 5 pieces");
  refused([](auto& d) { d.beam[4].parent = 2; }, "candidate 4 of step 1 has the parent 2");
  refused([](auto& d) { d.beam[0].parent = 0; }, "candidate 0 of step 0 has the parent 0");
  refused([](auto& d) { d.beam[5].parent = 77; }, "has the parent 77");
  refused([](auto& d) { d.beam[5].step = -1; }, "candidate 5 of step -1");
  refused([](auto& d) { d.attention[0].weights[0][0].pop_back(); }, "Kind cross has a head of 8 weights, expected 9");
  refused([](auto& d) { d.attention[2].weights[1].clear(); }, "a layer without heads");
  refused([](auto& d) { d.translations[0].log_probabilities.pop_back(); }, "3 pieces and 2 log-probabilities");
}

TEST_CASE("explain: long sentences keep the page small", "[explain]") {
  const auto page = [](std::size_t length) {
    const auto many = pieces(std::vector<std::string>(length - 1, "▁word"));
    Explanation data;
    data.source_pieces = many;
    for (const char* name : {"cross", "encoder", "decoder"}) data.attention.push_back(kind(name, many, many, 6, 8));
    return html(data);
  };
  const std::string sixty = page(60), long_one = page(200);
  CHECK(sixty.size() < 2'500'000);
  CHECK(count(sixty, "<image ") == 3 * 6 * 9);
  CHECK(long_one.size() < 2'000'000);
  CHECK(count(long_one, "<image ") == 3 * 6);  // the means
  CHECK(has(long_one, "only the means"));
  CHECK(unbalanced(long_one) == "");
  CHECK(weights_in(long_one, "encoder-6-mean").size() == 40'000);
}

TEST_CASE("grey_picture: is a PNG file", "[explain]") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foobar") == "Zm9vYmFy");
  GreyPicture picture(2, 1, 8);
  picture.add(0), picture.add(1);
  // As zlib of Python makes it, compression level 0.
  CHECK(base64(picture.png()) ==
        "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAAAAADRSSBWAAAADklEQVR4AQEDAPz/AAD/AQIBALcBLvcAAAAASUVORK5CYII=");
}
