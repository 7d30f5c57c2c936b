#pragma once

#include <filesystem>
#include <string>

#include "attend/text/any_tokenizer.hpp"
#include "attend/text/corpus.hpp"
#include "attend/train/batches.hpp"

namespace translate {

/// A folder that `translate prepare` has made: pairs in tokens, in a file that may be larger than memory, the tokenizer, and the
/// texts of the pairs that are held out.
struct PreparedPairs {
  attend::train::EncodedPairs pairs;
  attend::text::AnyTokenizer tokenizer;
  attend::text::Corpus validation, test;
};

/// Throws ValueError unless the tokenizer that a training is to have, that of the model in `folder`, has the same pieces and
/// languages as the tokenizer of prepared pairs.
void check_prepared(const attend::text::AnyTokenizer& prepared, const attend::text::AnyTokenizer& other,
                    const std::string& folder);

constexpr const char* pairs_name = "pairs.safetensors";
constexpr const char* validation_name = "validation.tsv";
constexpr const char* test_name = "test.tsv";

/// Throws IoError, FormatError.
PreparedPairs open_prepared(const std::filesystem::path& folder);
/// Changes with any pair, without looking at all of them. Throws IoError, FormatError.
std::string prepared_fingerprint(const std::filesystem::path& folder);

}  // namespace translate
