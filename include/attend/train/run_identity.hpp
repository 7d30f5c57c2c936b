#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "attend/core/number_text.hpp"
#include "attend/cpu/processor.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/train/batches.hpp"
#include "attend/train/checkpoint.hpp"
#include "attend/train/options.hpp"
#include "attend/train/ranks.hpp"
#include "attend/version.hpp"

namespace attend::train {

/// All that must be the same in a run that goes on with another's state, but for what is frozen. `validation` are the pairs to
/// validate with, none if it is null.
inline RunIdentity run_identity(const FitOptions& o, const text::AnyTokenizer& tokenizer, const EncodedPairs& pairs,
                                const EncodedPairs* validation) {
  std::string source_end;
  for (const token_t token : tokenizer.source_end()) source_end += (source_end.empty() ? "" : " ") + number_text(token);
  return {{"corpus", number_text(pairs.fingerprint())},
          {"pairs", number_text(pairs.size())},
          {"vocabulary", number_text(count_of(tokenizer))},
          {"bos", number_text(tokenizer.bos())},
          {"eos", number_text(tokenizer.eos())},
          {"source_end", source_end},
          {"tokens_per_batch", number_text(o.tokens_per_batch)},
          {"accumulate", number_text(o.accumulate)},
          {"parts", number_text(o.parts)},
          {"max_length", number_text(o.max_length)},
          {"bucket_width", number_text(o.bucket_width)},
          {"seed", number_text(o.seed)},
          {"precision", name_of(o.precision)},
          {"average_decay", number_text(o.average_decay)},
          {"optimizer", std::string(optim::optimizer_name(o.optimizer.value()))},
          {"validation", validation ? number_text(validation->fingerprint()) : "none"},
          {"best_by", name_of(o.best_by)}};
}

/// A list of names as one short text: `none`, the only one of them, or how many there are and a number that changes with any
/// (FNV-1a).
inline std::string list_identity(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  if (names.size() == 1) return names.front();
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const auto& name : names)
    for (const char c : name + '\n') hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return number_text(names.size()) + " tensors" + detail::fingerprint_mark + number_text(hash);
}

/// Throws ValueError on all ranks if one of them would do something other than rank 0. `ours`: what must be the same besides the
/// options.
inline void check_same_run(const Ranks& ranks, const FitOptions& o, RunIdentity ours) {
  FitOptions::fields([&](const char* name, auto member, const auto&...) {
    using V = std::remove_cvref_t<decltype(o.*member)>;
    if constexpr (NamedEnum<V>) ours[name] = name_of(o.*member);
    else if constexpr (NamedEnum<typename GivenOption<V>::type>) ours[name] = o.*member ? name_of(*(o.*member)) : "automatic";
    else if constexpr (std::same_as<V, bool>) ours[name] = o.*member ? "true" : "false";
    else if constexpr (std::is_arithmetic_v<V>)
      if (std::string_view(name) != "keep_checkpoints") ours[name] = number_text(o.*member);  // rank 0's matter
  });
  ours["translate"] = o.translate ? "true" : "false";
  ours["version"] = version;
  ours["bytes of a vector"] = number_text(processor().vector_bytes);
  if (o.precision == Precision::bf16) ours["sums of products in bf16"] = bf16_sums();
  std::vector<std::string> entries;
  for (const auto& [name, value] : ours) entries.push_back("run." + name), entries.push_back(value);
  std::string packed = packed_texts(entries);
  ranks->broadcast(packed);
  entries = unpacked_texts(packed);
  RunIdentity theirs;
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) theirs[entries[i]] = entries[i + 1];
  ranks.check("fit: ranks differ from rank 0", detail::differences(theirs, ours, "this rank"));
}

}  // namespace attend::train
