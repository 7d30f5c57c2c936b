#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "any_translator.hpp"
#include "attend/core/error.hpp"
#include "attend/translate/alignment.hpp"

namespace translate {

/// Writes to standard output at once. Throws IoError.
inline void write_out(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw attend::IoError("standard output: cannot be written");
}

/// `%.4f` and the like.
inline std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// One JSON object in one line, for what a model made of line `number`: for each translation its text, score and log-probability,
/// its tokens and theirs, and the alignment if it was asked for; or, if there is an `error`, why there is no translation.
inline std::string json_line(std::size_t number, const std::string& source, const std::vector<attend::decode::Translation>& list,
                             const AnyTranslator& translator, bool alignments, const std::string& error = {}) {
  nlohmann::ordered_json line;
  line["line"] = number;
  line["source"] = source;
  auto& all = line["translations"] = nlohmann::ordered_json::array();
  for (const auto& t : list) {
    nlohmann::ordered_json one;
    one["text"] = t.text;
    one["score"] = t.score;
    one["log_probability"] = t.log_probability;
    one["finished"] = t.finished;
    one["tokens"] = translator.pieces(t);
    one["token_log_probabilities"] = t.token_log_probabilities;
    if (alignments) {
      auto& links = one["alignment"] = nlohmann::ordered_json::array();
      for (const auto& link : t.alignment) links.push_back({link.source, link.target});
    }
    all.push_back(std::move(one));
  }
  if (!error.empty()) line["error"] = error;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace translate
