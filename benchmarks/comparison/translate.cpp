// Greedy and beam search with a saved model: tokens in, tokens out.

#include <span>
#include <vector>

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
void search(M& model, typename M::State& state, index_t sentences, const Json& request, std::vector<decode::Hypothesis>& found) {
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
}

/// All sentences, `batch` at a time, in the order that they come in.
template <class M>
Json translate_all(M& model, const Sentences& sources, const Json& request) {
  const std::size_t batch = request.at("batch");
  std::vector<decode::Hypothesis> found;
  found.reserve(sources.size());
  const Stopwatch watch;
  for (std::size_t first = 0; first < sources.size(); first += batch) {
    std::vector<token_t> tokens;
    std::vector<index_t> lengths;
    for (std::size_t i = first; i < std::min(first + batch, sources.size()); ++i) {
      tokens.insert(tokens.end(), sources[i].begin(), sources[i].end());
      lengths.push_back(static_cast<index_t>(sources[i].size()));
    }
    const Tensor<token_t> source({static_cast<index_t>(tokens.size())}, std::span<const token_t>(tokens));
    auto state = model.begin(source, Segments::ragged(lengths));
    search(model, state, static_cast<index_t>(lengths.size()), request, found);
  }
  Json answer = watch.per(1);
  for (const auto& h : found) {
    answer["outputs"].push_back(h.tokens);
    answer["scores"].push_back(h.score);
  }
  return answer;
}

}  // namespace

/// translate MODEL PRECISION
void translate(Arguments arguments) {
  if (arguments.size() != 2) throw ValueError("attend_compare translate: expected MODEL PRECISION");
  const bool int8 = arguments[1] == "int8";
  if (!int8 && arguments[1] != "float32") throw ValueError("attend_compare translate: no precision is called " + arguments[1]);
  const double idle = resident("VmRSS:");
  decode::TransformerModel<float> model(io::load_model<float>(arguments[0]), int8 ? Precision::int8 : Precision::full);
  Sentences sources;
  serve(Json::object(), [&](const Json& request) -> Json {
    const std::string what = request.at("do");
    if (what == "sources") {
      sources = request.at("sources").get<Sentences>();
      return Json::object();
    }
    if (what == "translate") return translate_all(model, sources, request);
    if (what == "memory") return {{"idle", idle}, {"peak", resident("VmHWM:")}};
    unknown(request);
  });
}

}  // namespace compare
