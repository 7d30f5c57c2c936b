#include "attend/train/recipe.hpp"

#include "../catch.hpp"

using namespace attend;
using train::recipe;

TEST_CASE("recipe: sizes for a thousand to a million pairs", "[train]") {
  struct Row {
    index_t pairs;
    double minutes;
    index_t vocabulary, layers, d_model, d_ff;
    double dropout;
  };
  for (const auto& row : {Row{1'000, 0, 1'000, 3, 256, 512, 0.3}, Row{30'000, 0, 10'000, 3, 256, 1024, 0.3},
                          Row{120'000, 0, 10'000, 3, 256, 1024, 0.15}, Row{1'000'000, 0, 16'000, 6, 512, 2048, 0.1},
                          Row{3'000, 4, 2'000, 3, 256, 512, 0.3}, Row{30'000, 10, 10'000, 4, 128, 256, 0.15},
                          Row{120'000, 45, 10'000, 3, 256, 1024, 0.1}, Row{30'000, 60, 10'000, 3, 256, 1024, 0.3},
                          Row{1'000'000, 60, 16'000, 4, 128, 256, 0.1}}) {
    const auto r = recipe(row.pairs, row.minutes, 2);
    INFO(row.pairs << " pairs, " << row.minutes << " minutes");
    CHECK(r.vocabulary == row.vocabulary);
    const auto model = r.model(77);
    CHECK(model.vocabulary == 77);
    CHECK(model.layers == row.layers);
    CHECK(model.d_model == row.d_model);
    CHECK(model.d_ff == row.d_ff);
    CHECK(model.dropout == row.dropout);
    CHECK(model.tie_head);
  }
}
