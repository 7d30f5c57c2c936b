#include "networks.hpp"

using attend::nn::Output;
using reference::check_transformer;

TEMPLATE_TEST_CASE("notebook 0, encoder-decoder: outputs, loss and every gradient", "", REFERENCE_TYPES) {
  check_transformer<TestType>("notebook0_encoder_decoder");
}
TEMPLATE_TEST_CASE("notebook 1, English to Spanish: outputs, loss and every gradient", "", REFERENCE_TYPES) {
  check_transformer<TestType>("notebook1_english_spanish", Output::log_probabilities);
}
TEMPLATE_TEST_CASE("notebook 4, notes: outputs, loss and every gradient", "", REFERENCE_TYPES) {
  check_transformer<TestType>("notebook4_notes", Output::probabilities);
}
TEMPLATE_TEST_CASE("the paper's model with all embeddings tied: outputs, loss and every gradient", "", REFERENCE_TYPES) {
  check_transformer<TestType>("paper_tied");
}
TEMPLATE_TEST_CASE("the pre-norm model: outputs, loss and every gradient", "", REFERENCE_TYPES) {
  check_transformer<TestType>("paper_pre_norm");
}
