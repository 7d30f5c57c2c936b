#include "attend/nn/dense.hpp"

#include "check.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using Mask = Tensor<std::uint8_t>;
using Tokens = Tensor<token_t>;

TEST_CASE("key_lengths counts the tokens before the padding") {
  CHECK(nn::key_lengths(Mask({3, 4}, {1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0})) == std::vector<index_t>{2, 4, 0});
  CHECK(nn::key_lengths(Mask({2, 0})) == std::vector<index_t>{0, 0});
  CHECK(nn::key_lengths(Mask({0, 4})).empty());
}

TEST_CASE("key_lengths refuses masks that are no padding at the end, and says where") {
  CHECK_THROWS_AS(nn::key_lengths(Mask({1, 4}, {0, 1, 1, 1})), ValueError);
  CHECK_THROWS_WITH(nn::key_lengths(Mask({2, 4}, {1, 1, 1, 1, 1, 0, 0, 1})),
                    ContainsSubstring("sentence 1 has a token at 3 after padding at 1"));
  CHECK_THROWS_AS(nn::key_lengths(Mask({4}, {1, 1, 1, 1})), ShapeError);
}

TEST_CASE("dense_segments keeps all rows; without a mask all are keys") {
  const auto masked = nn::dense_segments(2, 3, Mask({2, 3}, {1, 0, 0, 1, 1, 1}));
  CHECK(masked == Segments::dense(2, 3, std::vector<index_t>{1, 3}));
  CHECK(nn::dense_segments(2, 3) == Segments::dense(2, 3));
  CHECK_THROWS_AS(nn::dense_segments(2, 3, Mask({3, 2}, {1, 0, 0, 1, 1, 1})), ShapeError);
}

TEST_CASE("drop_padding and add_padding are each other's way back") {
  const auto dense = Segments::dense(3, 3, std::vector<index_t>{2, 0, 3});
  const auto ragged = Segments::ragged({2, 0, 3});
  const Tensor<double> x({3, 3, 2}, {1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6, 7, 8, 9, 10});
  const auto rows = nn::drop_padding(x, dense);
  CHECK(rows.shape() == Shape{5, 2});
  CHECK(rows.values() == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(test::distance(nn::add_padding(rows, ragged), x) == 0);
  CHECK(nn::add_padding(rows, ragged, -1.0, 4).shape() == Shape{3, 4, 2});
  CHECK(nn::add_padding(rows, ragged, -1.0, 4)(2, 3, 1) == -1);
  CHECK(nn::add_padding(Tokens({3}, {7, 8, 9}), Segments::ragged({1, 2}), token_t{5}).values() ==
        std::vector<token_t>{7, 5, 8, 9});
  CHECK_THROWS_AS(nn::drop_padding(x, Segments::dense(2, 3)), ShapeError);
  CHECK_THROWS_AS(nn::drop_padding(Tensor<double>({9}), dense), ShapeError);
  CHECK_THROWS_AS(nn::add_padding(rows, dense), ShapeError);
  CHECK_THROWS_WITH(nn::add_padding(rows, ragged, 0.0, 2), ContainsSubstring("a sentence of 3 rows is longer than 2"));
}

TEST_CASE("dense_batch and ragged_batch hold the same tokens") {
  const nn::DenseBatch d{.source = Tokens({2, 3}, {4, 5, 0, 6, 7, 8}),
                         .source_mask = Mask({2, 3}, {1, 1, 0, 1, 1, 1}),
                         .target = Tokens({2, 2}, {1, 9, 1, 0}),
                         .target_mask = Mask({2, 2}, {1, 1, 1, 0}),
                         .labels = Tokens({2, 2}, {9, 2, 2, -100})};
  const auto dense = nn::dense_batch(d), ragged = nn::ragged_batch(d);
  CHECK(dense.source.values() == std::vector<token_t>{4, 5, 0, 6, 7, 8});
  CHECK(dense.source_segments == Segments::dense(2, 3, std::vector<index_t>{2, 3}));
  CHECK(dense.labels.values() == std::vector<token_t>{9, 2, 2, -100});
  CHECK(dense.sentences() == 2);
  CHECK(ragged.source.values() == std::vector<token_t>{4, 5, 6, 7, 8});
  CHECK(ragged.source_segments == Segments::ragged({2, 3}));
  CHECK(ragged.target.values() == std::vector<token_t>{1, 9, 1});
  CHECK(ragged.target_segments == Segments::ragged({2, 1}));
  CHECK(ragged.labels.values() == std::vector<token_t>{9, 2, 2});
}

TEST_CASE("dense batches without masks or labels, and such as do not fit") {
  const nn::DenseBatch plain{.source = Tokens({2, 3}, 1), .target = Tokens({2, 2}, 1)};
  CHECK(nn::dense_batch(plain).target_segments == Segments::dense(2, 2));
  CHECK(nn::ragged_batch(plain).target_segments == Segments::ragged({2, 2}));
  CHECK(nn::ragged_batch(plain).labels.empty());
  CHECK_THROWS_WITH(nn::dense_batch({.source = Tokens({2, 3}, 1), .target = Tokens({3, 2}, 1)}),
                    ContainsSubstring("2 sources and 3 targets"));
  CHECK_THROWS_WITH(nn::dense_batch({.source = Tokens({6}, 1), .target = Tokens({3, 2}, 1)}),
                    ContainsSubstring("source has shape [6]"));
  CHECK_THROWS_AS(nn::ragged_batch({.source = Tokens({2, 3}, 1), .target = Tokens({2, 2}, 1), .labels = Tokens({2, 3}, 1)}),
                  ShapeError);
}
