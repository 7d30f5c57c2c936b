// Greedy and beam search with a saved model: tokens in, tokens out.

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/threads.hpp"
#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/io/model.hpp"
#include "parts.hpp"
#include "worker.hpp"

using namespace attend;

namespace compare {

namespace {

using Sentences = std::vector<std::vector<token_t>>;

/// What the searches have in common.
template <class Options>
Options options_from(const Json& request) {
  Options o;
  o.bos = request.at("bos");
  o.eos = request.at("eos");
  o.suppressed = request.at("suppressed").get<std::vector<token_t>>();
  o.max_length = decode::LengthLimit(request.at("max_length").get<index_t>());
  return o;
}

template <class M>
std::vector<decode::Hypothesis> search(M& model, typename M::State& state, index_t sentences, const Json& request) {
  std::vector<decode::Hypothesis> found;
  if (const index_t beam = request.at("beam"); beam > 1) {
    auto options = options_from<decode::BeamOptions>(request);
    options.beam = beam;
    options.alpha = request.at("alpha");
    options.normalization = decode::LengthNormalization::marian;
    options.stop = decode::Stop::first;
    for (auto& list : decode::beam_search(model, state, sentences, options)) found.push_back(std::move(list.front()));
  } else {
    for (auto& best : decode::greedy(model, state, sentences, options_from<decode::GreedyOptions>(request)))
      found.push_back(std::move(best));
  }
  return found;
}

/// A batch of sentences.
template <class M>
std::vector<decode::Hypothesis> translate_batch(M& model, std::span<const std::vector<token_t>> sources, const Json& request) {
  std::vector<token_t> tokens;
  std::vector<index_t> lengths;
  for (const auto& source : sources) {
    tokens.insert(tokens.end(), source.begin(), source.end());
    lengths.push_back(static_cast<index_t>(source.size()));
  }
  const Tensor<token_t> source({static_cast<index_t>(tokens.size())}, std::span<const token_t>(tokens));
  auto state = model.begin(source, Segments::ragged(lengths));
  return search(model, state, static_cast<index_t>(lengths.size()), request);
}

/// One batch in `every`, of `batch` sentences in the order that they come in: one after another with all threads, or
/// `side_by_side` with one thread for each, as a Translator does where nobody waits for the first of many sentences.
template <class M>
Json translate_all(M& model, const Sentences& sources, const Json& request, bool side_by_side) {
  const std::size_t batch = request.at("batch"), every = request.at("every");
  std::vector<std::span<const std::vector<token_t>>> batches;
  for (std::size_t first = 0; first < sources.size(); first += batch * every)
    batches.emplace_back(sources.begin() + first, std::min(batch, sources.size() - first));
  std::vector<std::vector<decode::Hypothesis>> found(batches.size());
  const auto some = [&](index_t first, index_t last) {
    for (index_t b = first; b < last; ++b) found[b] = translate_batch(model, batches[b], request);
  };
  const Stopwatch watch;
  if (side_by_side) ThreadPool::instance().run(count_of(batches), 1, some);
  else some(0, count_of(batches));
  Json answer = watch.per(1);
  for (const auto& hypotheses : found)
    for (const auto& h : hypotheses) {
      answer["outputs"].push_back(h.tokens);
      answer["scores"].push_back(h.score);
    }
  return answer;
}

}  // namespace

/// translate MODEL PRECISION WORKERS: so many batches side by side, with one thread each; if 1, one batch with all threads.
void translate(Arguments arguments) {
  if (arguments.size() != 3) throw ValueError("attend_compare translate: expected MODEL PRECISION WORKERS");
  const std::map<std::string, Precision> precisions = {
      {"float32", Precision::full}, {"bfloat16", Precision::bf16}, {"int8", Precision::int8}};
  const auto precision = precisions.find(arguments[1]);
  if (precision == precisions.end()) throw ValueError("attend_compare translate: no precision is called " + arguments[1]);
  const bool side_by_side = arguments[2] != "1";
  if (side_by_side && arguments[2] != std::to_string(threads()))
    throw ValueError("attend_compare translate: got " + arguments[2] + " workers, expected 1 or " + std::to_string(threads()) +
                     ", the number of threads");
  const double idle = resident("VmRSS:");
  decode::TransformerModel<float> model(io::load_model<float>(arguments[0]), precision->second);
  Sentences sources;
  serve(Json::object(), [&](const Json& request) -> Json {
    const std::string what = request.at("do");
    if (what == "sources") {
      sources = request.at("sources").get<Sentences>();
      return Json::object();
    }
    if (what == "translate") return translate_all(model, sources, request, side_by_side);
    if (what == "memory") return {{"idle", idle}, {"peak", resident("VmHWM:")}};
    unknown(request);
  });
}

}  // namespace compare
