#pragma once

#include <string>
#include <vector>

#include "attend/io/json.hpp"
#include "attend/pretrained/config.hpp"
#include "attend/translate/translator_options.hpp"

/// `generation_config.json`: how a model of the `transformers` library is to be searched.
///
/// Its lengths count the begin token and the end token; lengths in this library count neither. What has no counterpart here and
/// would change a translation is refused, not ignored.
namespace attend::io {

/// How a file says that the model is to be searched: `generation_config.json`, or its `config.json`, if a model has no such file.
/// `name` is what messages call it. Keys that are missing have the defaults of `transformers`, but for the length: without
/// `max_length` and `max_new_tokens` it would stop at 20 tokens, and here translations may be as long as usual. Throws
/// FormatError for what makes no sense, and for what would change a translation and does not exist here.
decode::TranslatorOptions pretrained_search_from(const Json& json, const std::string& name, const PretrainedConfig& config);

/// The same the other way round, for a search that `pretrained_search_obstacles` finds nothing against; `never`: tokens that may
/// not come, besides `search.banned`.
Json to_json(const decode::TranslatorOptions& search, const PretrainedConfig& config, const std::vector<token_t>& never);

/// Why a search cannot be written as `generation_config.json`; empty if it can.
std::vector<std::string> pretrained_search_obstacles(const decode::TranslatorOptions& search);

}  // namespace attend::io

#ifndef ATTEND_COMPILED
#include "attend/pretrained/generation_config.hpp"
#endif
