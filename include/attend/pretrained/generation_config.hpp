#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/standard.hpp"
#include "attend/io/json.hpp"
#include "attend/pretrained/config.hpp"
#include "attend/pretrained/search.hpp"
#include "attend/translate/translator_options.hpp"

// How `generation_config.json` is read and written: part of search.hpp, and of compiled.cpp where a program has that.

namespace attend::detail {

/// Throws FormatError if an option that this library does not have would change what comes out.
inline void check_generation(const io::JsonObject& json) {
  const auto refuse = [&](const std::string& key, const std::string& why) {
    throw FormatError(json.name(), ": ", key, " is ", json_excerpt(json.json().at(key)), ", ", why);
  };
  const std::string lacks = "an option that this library does not have";
  for (const auto& [key, neutral] : {std::pair{"encoder_repetition_penalty", 1.0}, std::pair{"encoder_no_repeat_ngram_size", 0.0},
                                     std::pair{"penalty_alpha", 0.0}, std::pair{"guidance_scale", 1.0}})
    if (json.get<double>(key, neutral) != neutral) refuse(key, lacks);
  if (json.get<double>("repetition_penalty", 1.0) != 1 &&
      (json.get<index_t>("num_beams", 1) <= 1 || json.get<bool>("do_sample", false)))
    refuse("repetition_penalty", "and there is no beam search: it is then one on logits, here it is one on log-probabilities");
  if (json.get<bool>("token_healing", false)) refuse("token_healing", lacks);
  for (const char* key :
       {"exponential_decay_length_penalty", "begin_suppress_tokens", "sequence_bias", "constraints", "force_words_ids",
        "stop_strings", "max_time", "watermarking_config", "dola_layers", "forced_decoder_ids"})
    if (json.contains(key) && !(json.json().at(key).is_array() && json.json().at(key).empty())) refuse(key, lacks);
  if (!json.get<bool>("do_sample", false)) return;
  for (const auto& [key, neutral] :
       {std::pair{"typical_p", 1.0}, std::pair{"epsilon_cutoff", 0.0}, std::pair{"eta_cutoff", 0.0}, std::pair{"top_h", 0.0}})
    if (json.get<double>(key, neutral) != neutral) refuse(key, lacks);
  if (json.get<index_t>("num_beams", 1) > 1) refuse("num_beams", "and do_sample true: beams are never drawn at random here");
}

/// The end tokens of `eos_token_id` besides that of `config.json`, which must be one of them.
inline std::vector<token_t> other_ends(const io::JsonObject& json, token_t eos, index_t vocabulary) {
  if (!json.contains("eos_token_id")) return {};
  auto ends = json.json().at("eos_token_id").is_array() ? json.get<std::vector<token_t>>("eos_token_id")
                                                        : std::vector<token_t>{json.get<token_t>("eos_token_id")};
  if (std::erase(ends, eos) == 0) throw FormatError(json.name(), ": eos_token_id is not that of config.json, ", eos);
  for (const token_t end : ends)
    if (end < 0 || end >= vocabulary)
      throw FormatError(json.name(), ": eos_token_id has the token ", end, ", outside the vocabulary of ", vocabulary);
  return ends;
}

/// The lists of `bad_words_ids` without those of an end token alone, which is never bad, and `suppress_tokens` as lists of one.
inline std::vector<std::vector<token_t>> bad_words(const io::JsonObject& json, token_t eos,
                                                   const std::vector<token_t>& other_ends, index_t vocabulary) {
  const auto check = [&](const std::string& key, token_t token) {
    if (token < 0 || token >= vocabulary)
      throw FormatError(json.name(), ": ", key, " has the token ", token, ", outside the vocabulary of ", vocabulary);
  };
  auto lists = json.get<std::vector<std::vector<token_t>>>("bad_words_ids", {});
  for (const auto& list : lists) {
    if (list.empty()) throw FormatError(json.name(), ": bad_words_ids has an empty list");
    for (const token_t token : list) check("bad_words_ids", token);
  }
  std::erase(lists, std::vector<token_t>{eos});
  for (const token_t end : other_ends) std::erase(lists, std::vector<token_t>{end});
  for (const token_t token : json.get<std::vector<token_t>>("suppress_tokens", {})) {
    check("suppress_tokens", token);
    if (token == eos) throw FormatError(json.name(), ": suppress_tokens has the end token ", eos);
    lists.push_back({token});
  }
  return lists;
}

/// When a search ends, by `early_stopping`. Throws FormatError for a value that is not known.
inline decode::Stop stop_of(const io::JsonObject& json) {
  if (!json.contains("early_stopping")) return decode::Stop::present_length;
  const io::Json& value = json.json().at("early_stopping");
  if (value.is_boolean()) return value.get<bool>() ? decode::Stop::first : decode::Stop::present_length;
  if (value == "never") return decode::Stop::exact;
  throw FormatError(json.name(), ": early_stopping is ", json_excerpt(value), ", expected true, false or \"never\"");
}

}  // namespace attend::detail

namespace attend::io {

ATTEND_INLINE decode::TranslatorOptions pretrained_search_from(const Json& json, const std::string& name,
                                                               const PretrainedConfig& config) {
  const JsonObject object(json, name);
  detail::check_generation(object);
  const auto count = [&](const char* key, index_t least, index_t otherwise, index_t most = index_t{1} << 28) {
    const index_t n = object.get<index_t>(key, otherwise);
    if (n < least || n > most) throw FormatError(name, ": ", key, " is ", n, ", expected ", least, " to ", most);
    return n;
  };
  constexpr index_t most_beams = 4096;  // beyond any use: a damaged number must not ask for gigabytes
  decode::TranslatorOptions o{.beam = count("num_beams", 1, 1, most_beams),
                              .n_best = count("num_return_sequences", 1, 1, most_beams),
                              .length_penalty = object.get<double>("length_penalty", 1.0),
                              .normalization = decode::LengthNormalization::marian,
                              .stop = detail::stop_of(object),
                              .sample = object.get<bool>("do_sample", false)};
  if (o.n_best > std::max<index_t>(o.beam, 1) && !o.sample)
    throw FormatError(name, ": num_return_sequences is ", o.n_best, ", num_beams ", o.beam);
  if (o.sample) {
    o.temperature = object.get<double>("temperature", 1.0);
    o.top_k = count("top_k", 0, 50);
    o.top_p = object.get<double>("top_p", 1.0);
    o.min_p = object.get<double>("min_p", 0.0);
  }
  o.repetition_penalty = object.get<double>("repetition_penalty", 1.0);
  o.beam_groups = count("num_beam_groups", 1, 1, most_beams);
  o.diversity_penalty = object.get<double>("diversity_penalty", 0.0);
  if (o.beam % o.beam_groups != 0 || (o.beam_groups > 1) != (o.diversity_penalty > 0) || (o.sample && o.beam_groups > 1))
    throw FormatError(name, ": num_beam_groups is ", o.beam_groups, ", num_beams ", o.beam, " and diversity_penalty ",
                      o.diversity_penalty, ", which do not go together");

  o.end_tokens = detail::other_ends(object, config.eos, config.model.decoder.vocabulary);
  if (detail::config_mark(object, "decoder_start_token_id", config.begin) != config.begin)
    throw FormatError(name, ": decoder_start_token_id is not that of config.json, ", config.begin);
  const bool has_forced = object.contains("forced_eos_token_id");
  if (has_forced && detail::config_mark(object, "forced_eos_token_id", config.eos) != config.eos)
    throw FormatError(name, ": forced_eos_token_id is not eos_token_id, ", config.eos);
  // A config.json that says nothing of it has the default of its family.
  o.force_end = has_forced || (object.contains("model_type") && !json.contains("forced_eos_token_id") && config.force_end);
  // Of the first BARTs, and heeded only where a model's configuration says it.
  const bool of_model = object.contains("model_type"), has_bos = object.contains("bos_token_id");
  const bool forces_bos = (has_bos ? of_model || object.get<bool>("_from_model_config", false)
                                   : of_model && !config.family.ends_with("t5")) &&  // which has none by default
                          object.get<bool>("force_bos_token_to_be_generated", false);
  const char* first = forces_bos ? "bos_token_id" : "forced_bos_token_id";
  if (o.first = detail::config_mark(object, first, forces_bos ? config.bos : -1); forces_bos || object.contains(first)) {
    if (o.first < 0 || o.first >= config.model.decoder.vocabulary)
      throw FormatError(name, ": ", first, " is ", o.first, ", outside the vocabulary of ", config.model.decoder.vocabulary);
    if (o.first == config.eos || std::find(o.end_tokens.begin(), o.end_tokens.end(), o.first) != o.end_tokens.end())
      throw FormatError(name, ": ", first, " is ", o.first, ", an end token, and translations are to begin with it");
  }

  // The begin token is counted; of a forced end, the end token is one that cannot be any other.
  const index_t ends = o.force_end ? 2 : 1;
  if (object.contains("max_new_tokens")) o.max_length = count("max_new_tokens", 1, 1) + 1 - ends;
  else if (object.contains("max_length")) o.max_length = count("max_length", 2, 2) - ends;
  if (o.max_length < 1 && (object.contains("max_new_tokens") || object.contains("max_length")))
    throw FormatError(name, ": the greatest length leaves no room for a token");
  o.min_length =
      object.contains("min_new_tokens") ? count("min_new_tokens", 0, 0) : std::max<index_t>(count("min_length", 0, 0) - 1, 0);
  if (o.max_length > 0 && o.min_length > o.max_length) throw FormatError(name, ": the least length is greater than the greatest");
  o.no_repeat_ngram = count("no_repeat_ngram_size", 0, 0);
  o.renormalize = object.get<bool>("renormalize_logits", false);
  o.banned = detail::bad_words(object, config.eos, o.end_tokens, config.model.decoder.vocabulary);
  o.keep_unfinished = !o.force_end;                              // at the limit all that live compete with what has ended
  o.suppress_marks = false, o.unknown = decode::Unknown::allow;  // bad_words_ids says what may not come
  try {
    decode::detail::check_translator(o);
  } catch (const ValueError& e) {
    throw FormatError(name, ": ", e.what());
  }
  return o;
}

ATTEND_INLINE Json to_json(const decode::TranslatorOptions& search, const PretrainedConfig& config,
                           const std::vector<token_t>& never) {
  Json json;
  json["num_beams"] = search.sample ? index_t{1} : static_cast<index_t>(search.beam);
  if (search.n_best > 1) json["num_return_sequences"] = search.n_best;
  json["length_penalty"] = search.length_penalty;
  switch (search.stop) {
    case decode::Stop::exact:
      json["early_stopping"] = "never";
      break;
    case decode::Stop::present_length:
      json["early_stopping"] = false;
      break;
    case decode::Stop::first:
      json["early_stopping"] = true;
      break;
  }
  if (search.sample) {
    json["do_sample"] = true;
    json["temperature"] = search.temperature;
    json["top_k"] = search.top_k;
    json["top_p"] = search.top_p;
    if (search.min_p > 0) json["min_p"] = search.min_p;
  }
  if (search.repetition_penalty != 1) json["repetition_penalty"] = search.repetition_penalty;
  if (search.beam_groups > 1) {
    json["num_beam_groups"] = search.beam_groups;
    json["diversity_penalty"] = search.diversity_penalty;
  }
  const index_t longest = std::max(config.model.encoder.max_length, config.model.decoder.max_length);
  const bool forced = search.force_end || !search.keep_unfinished;  // as pretrained_search_from tells them apart
  json["max_length"] = search.max_length > 0 ? std::min(search.max_length + (forced ? 2 : 1), longest) : longest;
  if (search.min_length > 0) json["min_length"] = search.min_length + 1;
  if (search.no_repeat_ngram > 0) json["no_repeat_ngram_size"] = search.no_repeat_ngram;
  if (search.renormalize) json["renormalize_logits"] = true;
  auto bad = search.banned;
  const auto add = [&](token_t token) {
    if (std::find(bad.begin(), bad.end(), std::vector<token_t>{token}) == bad.end()) bad.push_back({token});
  };
  for (const token_t token : never) add(token);
  for (const token_t token : search.suppressed) add(token);
  if (!bad.empty()) json["bad_words_ids"] = bad;
  json["eos_token_id"] = config.eos;
  if (!search.end_tokens.empty()) {
    std::vector<token_t> ends{config.eos};
    ends.insert(ends.end(), search.end_tokens.begin(), search.end_tokens.end());
    json["eos_token_id"] = ends;
  }
  if (forced) json["forced_eos_token_id"] = config.eos;
  if (search.first >= 0) json["forced_bos_token_id"] = search.first;
  json["pad_token_id"] = config.pad;
  json["decoder_start_token_id"] = config.begin;
  return json;
}

ATTEND_INLINE std::vector<std::string> pretrained_search_obstacles(const decode::TranslatorOptions& search) {
  std::vector<std::string> list;
  if (search.normalization == decode::LengthNormalization::google && search.length_penalty != 0)
    list.emplace_back("the search's length penalty is Google's, expected Marian's");
  if (search.coverage_penalty != 0) list.emplace_back("the search has a coverage penalty");
  if (search.shortlist) list.emplace_back("the search has a shortlist");
  if (search.unknown == decode::Unknown::replace) list.emplace_back("the search replaces unknown words");
  if (!search.banned_text.empty()) list.emplace_back("the search has banned_text, expected banned");
  if (search.score_forced_end) list.emplace_back("the search scores its forced end");
  if (search.unknown_penalty != 0) list.emplace_back("the search has a penalty for the unknown token");
  if (search.temperature != 1 && !search.sample) list.emplace_back("the search has a temperature and does not sample");
  if (search.repetition_penalty != 1 && (search.sample || search.beam == 1))
    list.emplace_back("the search has a repetition penalty and is no beam search");
  if (search.allowed_next) list.emplace_back("the search has a function that says what may come next");
  if (search.edit) list.emplace_back("the search has a function that changes log-probabilities");
  if (search.required) list.emplace_back("the search requires phrases");
  return list;
}

}  // namespace attend::io
