// What attend/mpi.hpp promises, by itself: for any MPI, mpiexec -n N communicator. Ends with 1 and a word about what does not
// hold.

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "attend/mpi.hpp"
#include "attend/train/deal.hpp"

using namespace attend;

namespace {

void expect(bool holds, const char* what) {
  if (!holds) throw Error("it does not hold: ", what);
}

void check_sums(train::Communicator& ranks) {
  const auto n = static_cast<float>(ranks.size());
  const Tensor<float> x({1'000'003});
  const auto fill = [&] {
    for (index_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>((ranks.rank() + 1) * (i % 7));
  };
  const auto is_sum = [&] {
    for (index_t i = 0; i < x.size(); ++i)
      if (x.data()[i] != n * (n + 1) / 2 * static_cast<float>(i % 7)) return false;
    return true;
  };
  fill();
  ranks.sum(x);
  expect(is_sum(), "sum");
  fill();
  ranks.sum_in_any_order(x);
  expect(is_sum(), "sum_in_any_order");
}

/// Of any two lengths: what both send is cut into messages, and what one alone has to send follows.
void check_exchanges(train::Communicator& ranks) {
  const index_t other = ranks.rank() ^ 1;
  if (other >= ranks.size()) return;
  const auto byte_of = [](index_t rank, std::size_t i) {
    return static_cast<std::byte>((i * 7 + i / 251 + static_cast<std::size_t>(rank)) % 256);
  };
  constexpr std::size_t lengths[][2] = {{0, 5},         {1, 61439},           {61440, 61441},         {300'000, 300'000},
                                        {3, 2'000'000}, {1'500'001, 122'880}, {2'500'000, 3'200'000}, {900'000, 0}};
  for (const auto& length : lengths) {
    std::vector<std::byte> sent(length[ranks.rank() % 2]), received(length[other % 2]);
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = byte_of(ranks.rank(), i);
    ranks.exchange(other, sent, received);
    for (std::size_t i = 0; i < received.size(); ++i) expect(received[i] == byte_of(other, i), "exchange");
  }
}

void check_texts(train::Communicator& ranks) {
  const std::string whole(3'000'000, 'x');
  std::string text = ranks.rank() == 0 ? whole : "";
  ranks.broadcast(text);
  expect(text == whole, "broadcast");
  const auto all = ranks.gather(std::string(static_cast<std::size_t>(ranks.rank()), 'y'));
  expect(count_of(all) == ranks.size() && count_of(all.back()) == ranks.size() - 1, "gather");
}

struct Numbers {
  int next_number = 0;
  static bool ready() { return true; }
  bool next(std::string& piece) {
    piece = std::to_string(next_number);
    return next_number++ < 100;
  }
};

void check_deal(train::Communicator& ranks) {
  int expected = 0;
  train::deal(
      &ranks, Numbers(), [](const std::string& piece) { return piece; },
      [&](const std::string& result) { expect(result == std::to_string(expected++), "the order of deal"); });
  expect(ranks.rank() > 0 || expected == 100, "all of deal");
}

}  // namespace

int main() {
  try {
    const auto ranks = mpi::world();
    check_exchanges(*ranks);
    check_sums(*ranks);
    check_texts(*ranks);
    check_deal(*ranks);
    if (ranks->rank() == 0) std::printf("%d ranks: all holds\n", static_cast<int>(ranks->size()));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
