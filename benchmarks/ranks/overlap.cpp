// How much of the sums of gradients a backward pass hides, on processors with nothing else to do: ranks whose layers sleep for as
// long as layers would compute, and whose gradients are summed as `fit` sums them. For `hosts`, whose ranks share this machine.
//
//     mpiexec -n 4 attend_overlap SECONDS [STEPS]      # of a backward pass; 6 steps, of which the first is not counted
//
// The parameters are the base model's with 10,000 subwords; the time of each goes by its size, the embedding's is the head's.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "attend/mpi.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/optim/parameters.hpp"
#include "attend/train/sums_of_ranks.hpp"

using namespace attend;

namespace {

using Clock = std::chrono::steady_clock;

/// A layer of these parameters, whose backward pass takes so long.
Var<float> slow(const Var<float>& x, const Var<float>& parameter, double seconds) {
  return record(Tensor<float>({1}, 1.0F), {x, parameter}, [=](const Tensor<float>& dy) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    x.accumulate(dy);
    parameter.accumulate_with([&](const auto& gradient) {
      if (!gradient.add) std::fill_n(gradient.data, parameter.size(), 0.0F);
    });
  });
}

double step(const std::vector<Var<float>>& parameters, double backward, train::SumsOfRanks<float, Cpu>& sums,
            train::Communicator& ranks) {
  index_t all = 0;
  for (const auto& p : parameters) all += p.size();
  const auto share = [&](const Var<float>& p) { return backward * static_cast<double>(p.size()) / static_cast<double>(all); };
  Var<float> x(Tensor<float>({1}, 1.0F), true);
  x = slow(x, parameters.front(), 0);  // rows of the embedding
  for (const auto& p : parameters)
    if (p.id() != parameters.front().id()) x = slow(x, p, share(p));
  x = slow(x, parameters.front(), share(parameters.front()));  // the head

  int together = 0;
  ranks.broadcast(together);
  const auto begin = Clock::now();
  train::PairwiseSum<float, Cpu> parts;
  sums.begin(parts, 0);
  x.backward();
  sums.finish();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  const double backward = argc > 1 ? std::atof(argv[1]) : 0;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 6;
  if (backward < 0 || steps < 2) return std::fprintf(stderr, "usage: attend_overlap SECONDS [STEPS]\n"), 2;
  const auto world = mpi::world();
  auto& ranks = *world;
  const nn::Transformer<float> model(nn::TransformerOptions::base(10000));
  const auto parameters = nn::parameters(model);
  const optim::FlatParameters<float> flat(parameters);
  std::vector<double> seconds, summed, waited;
  for (int i = 0; i < steps; ++i) {
    train::SumsOfRanks<float, Cpu> sums(ranks, flat, false);
    seconds.push_back(step(parameters, backward, sums, ranks));
    summed.push_back(sums.summed()), waited.push_back(sums.waited());
  }
  if (ranks.rank() > 0) return 0;
  const auto median = [](std::vector<double> of_steps) {
    std::sort(of_steps.begin() + 1, of_steps.end());
    return of_steps[1 + (of_steps.size() - 1) / 2];
  };
  std::printf(
      "%.1f MB of gradients, backward %.2f s: a step %.2f s, sums %.2f s, of these %.2f s with nothing beside (medians)\n",
      static_cast<double>(flat.count()) * 4e-6, backward, median(seconds), median(summed), median(waited));
}
