#include "attend/train/ranks.hpp"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../catch.hpp"
#include "attend/train/fit.hpp"
#include "thread_ranks.hpp"
#include "toy.hpp"
#include "with_threads.hpp"

using namespace attend;
using namespace attend::train;
using Catch::Matchers::ContainsSubstring;
using test::ThreadRanks;

namespace {

/// What a Wide and uneven tensor of a rank holds: sums of it round.
Tensor<float> numbers(index_t rank, index_t n) {
  Tensor<float> x({n});
  for (index_t i = 0; i < n; ++i)
    x.data()[i] = static_cast<float>(
        Generator::Stream{7, static_cast<std::uint64_t>(rank)}.normal(static_cast<std::uint64_t>(i)) * (rank == 1 ? 1000 : 1));
  return x;
}

/// A model whose `loss` keeps a state of its own, say.
struct Alone : toy::Model<float> {
  using toy::Model<float>::Model;
  static constexpr bool loss_by_threads = false;
};

void rethrow_first(const std::vector<std::exception_ptr>& ends) {
  for (const auto& end : ends)
    if (end) std::rethrow_exception(end);
}

/// Dropout, validation with translations, an average: all that ranks have to agree on.
FitOptions full_options() {
  auto options = toy::options(3);
  options.tokens_per_batch = 80;
  options.validation = toy::corpus(20, 2);
  options.validate_every = 7;
  options.translate = [](const std::vector<std::string>& sources) { return sources; };
  options.average_decay = 0.9;
  options.checkpoint_seconds = 0;
  options.parts = 8;
  return options;
}

struct Outcome {
  std::vector<float> weights;
  FitReport report;
};

/// What `fit` leaves in each of so many ranks; of 0 ranks: without a communicator.
std::vector<Outcome> trained(index_t ranks, const FitOptions& options) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(std::max<index_t>(ranks, 1)));
  const auto train = [&](const std::shared_ptr<Communicator>& communicator) {
    auto own = options;
    own.communicator = communicator;
    auto model = toy::model(0.3);
    Outcome& outcome = nth(outcomes, communicator ? communicator->rank() : 0);
    outcome.report = fit(model, toy::corpus(100), toy::Letters(), own);
    for (const auto& t : nn::state(model))
      for (const auto x : t.value.values()) outcome.weights.push_back(static_cast<float>(x));
  };
  if (ranks == 0) train(nullptr);
  else rethrow_first(ThreadRanks::run(ranks, train));
  return outcomes;
}

void check_equal(const Outcome& a, const Outcome& b) {
  CHECK(a.weights == b.weights);
  CHECK(a.report.steps == b.report.steps);
  REQUIRE(a.report.curve.size() == b.report.curve.size());
  for (std::size_t i = 0; i < a.report.curve.size(); ++i) {
    CHECK(a.report.curve[i].loss == b.report.curve[i].loss);
    CHECK(a.report.curve[i].gradient_norm == b.report.curve[i].gradient_norm);
  }
  REQUIRE(a.report.validations.size() == b.report.validations.size());
  for (std::size_t i = 0; i < a.report.validations.size(); ++i) {
    CHECK(a.report.validations[i].loss == b.report.validations[i].loss);
    CHECK(a.report.validations[i].bleu == b.report.validations[i].bleu);
    CHECK(a.report.validations[i].best == b.report.validations[i].best);
  }
}

/// What the optimizer of a run remembers, tensor by tensor.
std::vector<std::vector<float>> remembered(const std::filesystem::path& run) {
  const auto file = io::SafetensorsFile::open(run / "last/training.safetensors");
  std::vector<std::vector<float>> all;
  for (const auto& tensor : file.tensors())
    if (tensor.name.starts_with("optimizer.")) all.push_back(file.read<float>(tensor.name));
  return all;
}

}  // namespace

TEST_CASE("Communicator: sums have the bits of the sums of pairs, in each of any number of ranks", "[train]") {
  for (const index_t size : {1, 2, 4, 8})
    for (const index_t n : {0, 1, 15, 16, 17, 100, 1000}) {
      INFO(size << " ranks, " << n << " numbers");
      PairwiseSum<float, Cpu> sums;
      Tensor<float> expected;
      for (index_t k = 0; k < size; ++k) sums.add(k, size, expected = numbers(k, n));
      std::vector<std::vector<float>> found(static_cast<std::size_t>(size));
      rethrow_first(ThreadRanks::run(size, [&](const std::shared_ptr<Communicator>& c) {
        const auto x = numbers(c->rank(), n);
        c->sum(x);
        nth(found, c->rank()) = x.values();
      }));
      for (const auto& values : found) CHECK(values == expected.values());
    }
}

TEST_CASE("Communicator: sums of shares have the same bits, each where its rank wants it, and are gathered again", "[train]") {
  using Shares = Communicator::Shares;
  constexpr index_t n = 1000;
  for (const index_t size : {1, 2, 4, 8}) {
    PairwiseSum<float, Cpu> sums;
    Tensor<float> expected;
    for (index_t k = 0; k < size; ++k) sums.add(k, size, expected = numbers(k, n));
    // Rank k has the elements i with (i / 7) % size == k but for some that are nobody's; the last has nothing where there are
    // eight.
    Shares shares(static_cast<std::size_t>(size));
    for (index_t i = 0; i + 7 <= n; i += 7)
      if (i / 7 % size + 1 < 8) nth(shares, i / 7 % size).push_back({i, i % 2 == 0 ? 7 : 6});
    const auto ends = ThreadRanks::run(size, [&](const std::shared_ptr<Communicator>& c) {
      const auto x = numbers(c->rank(), n);
      c->sum_shares(x, shares);
      for (const auto& [begin, count] : nth(shares, c->rank()))
        for (index_t i = begin; i < begin + count; ++i)
          if (x.data()[i] != expected.data()[i]) throw Error("element ", i, " has another sum");
      c->gather_shares(x, shares);
      for (const auto& share : shares)
        for (const auto& [begin, count] : share)
          for (index_t i = begin; i < begin + count; ++i)
            if (x.data()[i] != expected.data()[i]) throw Error("element ", i, " came as another");
    });
    INFO(size << " ranks");
    rethrow_first(ends);
  }
  const auto refused = [](const Shares& shares) {
    const auto ends =
        ThreadRanks::run(2, [&](const std::shared_ptr<Communicator>& c) { c->sum_shares(Tensor<float>({4}), shares); });
    std::rethrow_exception(ends.front());
  };
  CHECK_THROWS_WITH(refused({{}}), ContainsSubstring("there are 1 shares, expected 2"));
  CHECK_THROWS_WITH(refused({{{0, 3}}, {{3, 2}}}), ContainsSubstring("elements from 3 on, 2 of them, are not within 4"));
}

TEST_CASE("PairwiseSum: adds ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))", "[train]") {
  const float large = 16777216;  // from here on floats are two apart
  PairwiseSum<float, Cpu> sums;
  Tensor<float> x({1});
  const float values[] = {large, 1, 1, 1, 1, 1, 1, 1};
  for (index_t k = 0; k < 8; ++k) sums.add(k, 8, x = Tensor<float>({1}, values[k]));
  CHECK(x.item() == ((large + 1) + (1.0f + 1)) + ((1.0f + 1) + (1.0f + 1)));
  CHECK(x.item() != large + 1 + 1 + 1 + 1 + 1 + 1 + 1);
}

TEST_CASE("Communicator: what one has comes to all, what each has comes in their order", "[train]") {
  for (const index_t size : {1, 2, 3, 5, 8}) {
    std::vector<std::vector<std::string>> gathered(static_cast<std::size_t>(size));
    std::vector<std::string> sent(static_cast<std::size_t>(size));
    rethrow_first(ThreadRanks::run(size, [&](const std::shared_ptr<Communicator>& c) {
      std::string text = c->rank() == 0 ? "from the first" : "none";
      c->broadcast(text);
      nth(sent, c->rank()) = text;
      nth(gathered, c->rank()) = c->gather(std::string(static_cast<std::size_t>(c->rank()), 'x'));
    }));
    for (const auto& text : sent) CHECK(text == "from the first");
    for (const auto& all : gathered) {
      REQUIRE(count_of(all) == size);
      for (index_t k = 0; k < size; ++k) CHECK(count_of(nth(all, k)) == k);
    }
  }
}

TEST_CASE("fit: any number of ranks comes to the bits of one process", "[train]") {
  for (const optim::OptimizerOptions& optimizer :
       {optim::OptimizerOptions(optim::AdamOptions{.learning_rate = 0.01}), optim::OptimizerOptions(optim::MuonOptions{})}) {
    auto options = full_options();
    options.optimizer = optimizer;
    const auto expected = trained(0, options).front();
    REQUIRE(expected.report.steps > 15);
    for (const index_t ranks : {1, 2, 4, 8})
      for (const auto& outcome : trained(ranks, options)) {
        INFO(ranks << " ranks");
        check_equal(outcome, expected);
      }
    options.parts = 4;
    CHECK(trained(0, options).front().weights != expected.weights);  // other random numbers
  }
}

TEST_CASE("fit: a run that stops on four ranks goes on on two to the same bits", "[train]") {
  const TemporaryFolder folder;
  auto options = full_options();
  options.accumulate = 2;
  options.output = folder.path() / "whole";
  const auto expected = trained(2, options).front();
  options.output = folder.path() / "pieces";
  const index_t half = expected.report.steps / 2;
  std::atomic<bool> stop{false};
  options.stop = &stop;
  options.on_step = [&](const CurvePoint& point) { stop = point.step >= half; };
  CHECK(trained(4, options).front().report.steps < expected.report.steps);
  stop = false;
  options.on_step = {};
  options.resume = true;
  check_equal(trained(2, options).front(), expected);
  for (const char* file : {"best/model.safetensors", "last/model.safetensors"})
    CHECK(io::read_file(folder.path() / "pieces" / file) == io::read_file(folder.path() / "whole" / file));
}

TEST_CASE("fit: an optimizer in shares has the bits of a whole one, and its checkpoints are the same") {
  const TemporaryFolder folder;
  for (const optim::OptimizerOptions& optimizer :
       {optim::OptimizerOptions(optim::AdamOptions{.learning_rate = 0.01}), optim::OptimizerOptions(optim::MuonOptions{})}) {
    auto options = full_options();
    options.optimizer = optimizer;
    options.overwrite = true;
    options.output = folder.path() / "whole";
    const auto expected = trained(2, options).front();
    options.shard_optimizer = true;
    for (const index_t ranks : {1, 2, 4, 8}) {
      INFO(ranks << " ranks");
      options.output = folder.path() / "shares";
      for (const auto& outcome : trained(ranks, options)) {
        CHECK(outcome.weights == expected.weights);
        CHECK(outcome.report.validations.size() == expected.report.validations.size());
      }
      const auto state = [&](const char* name) { return remembered(folder.path() / name); };
      REQUIRE(!state("shares").empty());
      CHECK((state("shares") == state("whole")));
    }
    // Stopped in four shares, gone on with in two, and as a whole.
    options.output = folder.path() / "pieces";
    std::atomic<bool> stop{false};
    options.stop = &stop;
    options.on_step = [&](const CurvePoint& point) { stop = point.step >= 9; };
    (void)trained(4, options);
    options.on_step = {};
    options.overwrite = false;
    options.resume = true;
    options.max_steps = 15;
    stop = false;
    (void)trained(2, options);
    options.max_steps = 0;
    options.shard_optimizer = false;
    CHECK(trained(1, options).front().weights == expected.weights);
  }
}

TEST_CASE("fit: shares of more numbers than travel at a time are saved and read again") {
  const TemporaryFolder folder;
  const auto train = [&](index_t ranks, bool shares, const char* name, index_t steps) {
    std::vector<float> weights;
    rethrow_first(ThreadRanks::run(ranks, [&](const std::shared_ptr<Communicator>& communicator) {
      auto options = toy::options(1);
      options.communicator = communicator;
      options.optimizer = optim::AdamOptions{.learning_rate = 0.01};
      options.schedule = optim::ScheduleOptions{.kind = optim::ScheduleKind::constant, .learning_rate = 0.01, .warmup = 0};
      options.epochs = 0, options.max_steps = steps, options.parts = 4, options.average_decay = 0.9;
      options.shard_optimizer = shares, options.resume = steps > 2;
      options.output = folder.path() / name;
      seed(3);
      toy::Model<float> model(0.3, 100'000);  // 5.7 million parameters
      fit(model, toy::corpus(20), toy::Letters(), options);
      if (communicator->rank() > 0) return;
      for (const auto& t : nn::state(model))
        for (const auto x : t.value.values()) weights.push_back(x);
    }));
    return weights;
  };
  const auto state = [&](const char* name) { return remembered(folder.path() / name); };
  (void)train(1, false, "whole", 2), (void)train(2, true, "shares", 2);
  REQUIRE(state("whole").size() == 3);  // two moments and the average
  REQUIRE(state("whole").front().size() > std::size_t{1} << 22);
  CHECK((state("shares") == state("whole")));
  CHECK(train(4, true, "shares", 3) == train(1, false, "whole", 3));
  CHECK((state("shares") == state("whole")));
}

TEST_CASE("MemoryOfRanks: what keeps rank 0 from writing leaves the others in step") {
  const TemporaryFolder folder;
  rethrow_first(ThreadRanks::run(4, [&](const std::shared_ptr<Communicator>& communicator) {
    const Ranks ranks(communicator);
    auto model = toy::model();
    const optim::FlatParameters<float> parameters(nn::parameters(model), nn::hidden_matrices(model));
    parameters.share_out(ranks.rank(), ranks.size());
    optim::AnyOptimizer<float> optimizer(parameters, optim::AdamOptions{});
    for (const auto& entry : optimizer.state().entries) entry.values.fill(static_cast<float>(ranks.rank() + 1));
    const std::optional<optim::WeightAverage<float>> average;
    const MemoryOfRanks<float, Cpu> memory(ranks, true, optimizer, average);
    const auto gather = [&](bool fails) {
      memory.gather([&](const auto& all) {
        io::SafetensorsWriter writer;
        if constexpr (requires { all.add_to(writer); }) all.add_to(writer);
        writer.add_stream("optimizer.g", io::DType::f32, {1}, [&](io::FileSink& sink) {  // between two of Adam's
          if (fails) throw IoError("a full disk");
          sink.write("four");
        });
        writer.write(folder.path() / "memory.safetensors");
      });
    };
    std::string end;
    try {
      gather(true);
    } catch (const IoError& e) {
      end = e.what();
    }
    if (end != (ranks.leads() ? "a full disk" : "")) throw Error("rank ", ranks.rank(), " ended with `", end, "`");
    gather(false);
    ranks->broadcast(end);
    const auto file = io::SafetensorsFile::open(folder.path() / "memory.safetensors");
    for (const auto& entry : optimizer.state().entries) {
      const auto numbers = file.read<float>("optimizer." + entry.name);
      for (const auto& piece : parameters.pieces())
        for (index_t i = piece.begin; i < piece.begin + piece.size; ++i)
          if (nth(numbers, i) != static_cast<float>(ranks.rank() + 1)) throw Error("number ", i, " is not this rank's");
    }
  }));
}

TEST_CASE("fit: a run that is resumed may be given other parts, and says so", "[train]") {
  const TemporaryFolder folder;
  auto options = full_options();
  options.parts = automatic, options.max_steps = 5;
  options.output = folder.path() / "begun";
  (void)trained(0, options);  // of one part
  options.resume = true, options.max_steps = 10;
  options.parts = 1;
  CHECK_THROWS_WITH(trained(2, options), ContainsSubstring("parts is 1, expected one or more for each of 2 ranks: give the run"));
  options.parts = automatic;  // 8 for ranks, which nobody has asked for
  CHECK_THROWS_WITH(trained(1, options), ContainsSubstring("parts 1 (this run: 8)"));
  options.parts = 4;
  std::vector<Outcome> outcomes;
  for (const index_t ranks : {0, 2, 4}) {
    options.output = folder.path() / std::to_string(ranks);
    std::filesystem::copy(folder.path() / "begun", options.output, std::filesystem::copy_options::recursive);
    outcomes.push_back(trained(ranks, options).front());
    check_equal(outcomes.back(), outcomes.front());
    const auto& warnings = outcomes.back().report.warnings;
    CHECK(std::any_of(warnings.begin(), warnings.end(),
                      [](const auto& text) { return text.starts_with("parts were 1 and are 4 from here on"); }));
  }
  options.max_steps = 12;  // and keeps them
  const auto later = trained(2, options).front();
  CHECK(std::none_of(later.report.warnings.begin(), later.report.warnings.end(),
                     [](const auto& text) { return text.starts_with("parts were"); }));
}

TEST_CASE("FlatParameters: shares are all of it, of about the same size, with whole matrices", "[optim]") {
  auto model = toy::model();
  const optim::FlatParameters<float> parameters(nn::parameters(model), nn::hidden_matrices(model));
  REQUIRE(!parameters.matrices().empty());
  for (const index_t ranks : {1, 2, 4, 8}) {
    std::vector<int> met(static_cast<std::size_t>(parameters.size()), 0);
    for (const auto& share : parameters.shares(ranks)) {
      index_t at = 0;
      for (const auto& piece : share) {
        CHECK(piece.at == at);
        at += piece.size;
        for (index_t i = 0; i < piece.size; ++i) ++nth(met, piece.begin + i);
        for (const auto& m : parameters.matrices())
          CHECK((m.begin + m.rows * m.columns <= piece.begin || piece.begin + piece.size <= m.begin ||
                 (piece.begin <= m.begin && m.begin + m.rows * m.columns <= piece.begin + piece.size)));
      }
    }
    CHECK(std::all_of(met.begin(), met.end(), [](int n) { return n <= 1; }));
    index_t covered = 0;
    for (const int n : met) covered += n;
    CHECK(covered >= parameters.count());
  }
}

TEST_CASE("fit: ranks that differ from rank 0 are told so at once", "[train]") {
  const auto ends = ThreadRanks::run(4, [&](const std::shared_ptr<Communicator>& communicator) {
    auto options = full_options();
    options.communicator = communicator;
    if (communicator->rank() == 2) options.label_smoothing = 0.25;
    auto model = toy::model(0.3);
    fit(model, toy::corpus(communicator->rank() == 3 ? 99 : 100), toy::Letters(), options);
  });
  for (const auto& end : ends) {
    REQUIRE(end);
    CHECK_THROWS_WITH(std::rethrow_exception(end), ContainsSubstring("rank 2: label_smoothing 0.1 (this rank: 0.25)") &&
                                                       ContainsSubstring("rank 3: other sentence pairs") &&
                                                       !ContainsSubstring("rank 1"));
  }
}

TEST_CASE("fit: where a rank fails the others end too, with a checkpoint of the last step", "[train]") {
  const TemporaryFolder folder;
  const auto ends = ThreadRanks::run(4, [&](const std::shared_ptr<Communicator>& communicator) {
    auto options = full_options();
    options.communicator = communicator;
    options.output = folder.path();
    if (communicator->rank() == 3)
      options.translate = [](const auto&) -> std::vector<std::string> { throw Error("no translation today"); };
    auto model = toy::model(0.3);
    fit(model, toy::corpus(100), toy::Letters(), options);
  });
  for (index_t k = 0; k < 4; ++k) {
    REQUIRE(nth(ends, k));
    if (k == 3) CHECK_THROWS_WITH(std::rethrow_exception(nth(ends, k)), ContainsSubstring("no translation today"));
    else
      CHECK_THROWS_WITH(std::rethrow_exception(nth(ends, k)),
                        ContainsSubstring("rank 3 failed") && ContainsSubstring("no translation today"));
  }
  auto options = full_options();
  options.output = folder.path();
  options.resume = true;
  check_equal(trained(2, options).front(), trained(0, full_options()).front());
}

TEST_CASE("fit: ranks whose weights have come apart say so at the next step", "[train]") {
  const auto ends = ThreadRanks::run(2, [&](const std::shared_ptr<Communicator>& communicator) {
    auto options = full_options();
    options.communicator = communicator;
    auto model = toy::model(0.3);
    options.translate = [&](const std::vector<std::string>& sources) {
      if (communicator->rank() == 1) model.head.weight.value().data()[0] += 0.25f;
      return sources;
    };
    options.average_decay = 0;
    fit(model, toy::corpus(100), toy::Letters(), options);
  });
  for (const auto& end : ends) {
    REQUIRE(end);
    CHECK_THROWS_WITH(std::rethrow_exception(end), ContainsSubstring("rank 1 has other weights than rank 0 after step 7"));
  }
}

TEST_CASE("fit: parts that threads compute side by side come to the bits of one thread", "[train]") {
  const WithThreads afterwards;
  auto options = full_options();
  options.r_drop = 1, options.accumulate = 2;  // four parts at a time
  set_threads(1);
  const auto expected = trained(0, options);
  for (const int count : {2, 3, 4, 8, 16}) {
    INFO(count << " threads");
    set_threads(count);
    check_equal(trained(0, options).front(), expected.front());
    check_equal(trained(2, options).back(), expected.front());  // beside the last part of a rank its gradients go out
  }
}

TEST_CASE("fit: small models' parts are computed side by side, a thread each; an exception of one ends the run", "[train]") {
  const WithThreads afterwards;
  std::atomic<index_t> at_work{0}, most{0}, losses{0};
  const auto run = [&]<class Model = toy::Model<float>>(int count, index_t parts, index_t width, index_t fails = -1,
                                                        index_t accumulate = 1, Model = Model()) {
    set_threads(count);
    most = losses = at_work = 0;
    seed(3);
    Model model(0.3, width);
    model.on_loss = [&] {
      const index_t now = ++at_work, here = losses++;
      index_t before = most;
      while (before < now && !most.compare_exchange_weak(before, now)) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      --at_work;
      if (here == fails) throw Error("a bad part");
    };
    auto options = toy::options(1);
    options.parts = parts, options.accumulate = accumulate, options.max_steps = width > 100 ? 1 : 10;
    fit(model, toy::corpus(100), toy::Letters(), options);
  };
  run(4, 1, 12);
  CHECK(most == 1);
  run(1, 4, 12);
  CHECK(most == 1);
  run(4, 4, 200'000);  // gradients of 46 MB
  CHECK(most == 1);
  run(16, 4, 12);  // of whom most would have nothing to do
  CHECK(most == 1);
  run(4, 4, 12, -1, 4);  // whose passes would all be in memory
  CHECK(most == 1);
  run(4, 4, 12, -1, 1, Alone());
  CHECK(most == 1);
  CHECK_THROWS_WITH(run(4, 4, 12, 5), ContainsSubstring("a bad part"));
  for (int tries = 0; tries < 50 && most < 2; ++tries) run(4, 4, 12);  // on a busy machine threads may come one by one
  CHECK(most > 1);
  CHECK(most <= 4);
}

TEST_CASE("fit: parts and ranks that do not go together are refused", "[train]") {
  auto options = full_options();
  options.parts = 6;
  CHECK_THROWS_WITH(trained(0, options), ContainsSubstring("parts is 6, expected a power of two"));
  options.parts = 2;
  CHECK_THROWS_WITH(trained(4, options), ContainsSubstring("parts is 2, expected one or more for each of 4 ranks"));
  options.parts = automatic;
  CHECK_THROWS_WITH(trained(3, options), ContainsSubstring("there are 3 ranks, expected a power of two"));
}

TEST_CASE("fit: ranks that add in any order train to bits of their number, also three") {
  auto options = full_options();
  options.fast_sums = true;
  options.parts = automatic;
  for (const index_t ranks : {1, 2, 3}) {
    const auto outcomes = trained(ranks, options);
    for (const auto& outcome : outcomes) CHECK(outcome.weights == outcomes.front().weights);
    CHECK(outcomes.front().report.steps > 0);
  }
  options.parts = 2;  // two ranks add two parts in the one order there is
  CHECK(trained(1, options).front().weights == trained(2, options).front().weights);
  options.shard_optimizer = true;
  CHECK_THROWS_WITH(trained(3, options), ContainsSubstring("expected a power of two"));
  options.shard_optimizer = false, options.parts = 4;
  CHECK_THROWS_WITH(trained(3, options), ContainsSubstring("or that times the number of ranks, 3"));
}

namespace {

/// Another's communicator, which counts what is exchanged.
class Counting final : public Communicator {
 public:
  explicit Counting(std::shared_ptr<Communicator> other) : other_(std::move(other)) {}
  [[nodiscard]] index_t rank() const override { return other_->rank(); }
  [[nodiscard]] index_t size() const override { return other_->size(); }
  void exchange(index_t other, std::span<const std::byte> sent, std::span<std::byte> received) override {
    other_->exchange(other, sent, received);
    ++exchanged;
    sent_bytes += sent.size();
  }
  [[nodiscard]] bool waiting(index_t other) override { return other_->waiting(other); }
  void look_for_failure() override { other_->look_for_failure(); }
  void fail(std::string_view why) noexcept override { other_->fail(why); }

  std::atomic<int> exchanged = 0;
  std::atomic<std::size_t> sent_bytes = 0;

 private:
  std::shared_ptr<Communicator> other_;
};

/// A network with embeddings, matrices of two kinds and small parameters beside them, like a large one.
std::vector<Var<float>> layers(std::vector<Tensor<float>>& matrices) {
  std::vector<Var<float>> parameters{Var<float>(Tensor<float>({700, 128}, 1.0f), true)};
  for (int layer = 0; layer < 8; ++layer)
    for (const Shape& shape : {Shape{128}, Shape{128, 128}, Shape{128, 128}, Shape{130}, Shape{512, 128}, Shape{128, 512}}) {
      parameters.emplace_back(Tensor<float>(shape, 1.0f), true);
      if (shape.rank() == 2) matrices.push_back(parameters.back().value());
    }
  return parameters;
}

}  // namespace

TEST_CASE("SharedUpdate: the norm has the bits of one rank's, for half the bytes of sums of everything") {
  std::vector<Tensor<float>> matrices;
  std::size_t all_bytes = 0;
  Tensor<float> expected;
  double squares = 0;
  {
    const optim::FlatParameters<float> flat(layers(matrices), matrices);
    all_bytes = static_cast<std::size_t>(flat.size()) * sizeof(float);
    PairwiseSum<float, Cpu> sums;
    for (index_t k = 0; k < 4; ++k) sums.add(k, 4, expected = numbers(k, flat.size()));
    // As the gaps are in gradients.
    Tensor<float> mask({flat.size()}, 0.0f);
    for (const auto& place : flat.places()) mask.rows(place.begin, place.shape.size()).fill(1.0f);
    for (index_t i = 0; i < flat.size(); ++i) expected.data()[i] *= mask.data()[i];
    squares = sum_of_squares(Cpu{}, flat.size(), expected.data());
  }
  const auto ends = ThreadRanks::run(4, [&](const std::shared_ptr<Communicator>& communicator) {
    Counting ranks(communicator);
    std::vector<Tensor<float>> own_matrices;
    const auto parameters = layers(own_matrices);
    const optim::FlatParameters<float> flat(parameters, own_matrices);
    const SharedUpdate<float, Cpu> shared(ranks, flat);
    PairwiseSum<float, Cpu> parts;
    SumsOfRanks<float, Cpu> sums(ranks, flat, false, &shared);
    flat.zero_grad();
    const auto own = numbers(ranks.rank(), flat.size());
    for (const auto& place : flat.places())
      flat.gradients().rows(place.begin, place.shape.size()).assign(own.rows(place.begin, place.shape.size()));
    sums.begin(parts, 0);
    sums.finish();
    const auto summed_bytes = ranks.sent_bytes.load();
    if (shared.squares().item() != squares) throw Error("another sum of squares");
    // Shares are of about the same size, so each rank sends about three quarters; for sums of everything it sends twice as much.
    if (summed_bytes > all_bytes * 80 / 100) throw Error("the sums took ", summed_bytes, " bytes of ", all_bytes);
    ranks.sent_bytes = 0;
    ranks.sum(flat.gradients().clone());
    if (ranks.sent_bytes < all_bytes * 149 / 100) throw Error("sums of all took ", ranks.sent_bytes.load());
    const auto shares = flat.shares(4);
    for (const auto& piece : nth(shares, ranks.rank()))
      for (index_t i = piece.begin; i < piece.begin + piece.size; ++i)
        if (flat.gradients().data()[i] != expected.data()[i]) throw Error("element ", i, " has another sum");
    // What a rank moves comes to all.
    for (const auto& piece : nth(shares, ranks.rank()))
      flat.values().rows(piece.begin, piece.size).fill(static_cast<float>(ranks.rank() + 2));
    shared.gather_weights();
    for (index_t rank = 0; rank < 4; ++rank)
      for (const auto& piece : nth(shares, rank))
        for (index_t i = piece.begin; i < piece.begin + piece.size; ++i)
          if (flat.values().data()[i] != static_cast<float>(rank + 2)) throw Error("weight ", i, " has not come");
  });
  rethrow_first(ends);
}

TEST_CASE("FlatParameters: of what an optimizer remembers, one of four ranks has at most 0.3") {
  for (const optim::OptimizerOptions& options :
       {optim::OptimizerOptions(optim::AdamOptions{}), optim::OptimizerOptions(optim::MuonOptions{})}) {
    const auto bytes = [&](index_t rank, index_t ranks) {
      std::vector<Tensor<float>> matrices;
      const auto parameters = layers(matrices);
      const optim::FlatParameters<float> flat(parameters, matrices);
      if (ranks > 1) flat.share_out(rank, ranks);
      index_t sum = 0;
      for (const auto& entry : optim::AnyOptimizer<float>(flat, options).state().entries) sum += entry.values.size();
      return static_cast<double>(sum) * sizeof(float);
    };
    const double whole = bytes(0, 1);
    for (index_t rank = 0; rank < 4; ++rank) {
      INFO(optim::optimizer_name(options) << ", rank " << rank);
      CHECK(bytes(rank, 4) <= 0.3 * whole);
      CHECK(bytes(rank, 4) >= 0.2 * whole);
    }
  }
}

TEST_CASE("SumsOfRanks: what is complete is summed while other gradients are still computed") {
  constexpr index_t n = index_t{1} << 20, count = 4;  // each parameter is a piece of its own
  const auto ends = ThreadRanks::run(2, [&](const std::shared_ptr<Communicator>& communicator) {
    Counting ranks(communicator);
    std::vector<Var<float>> parameters;
    for (index_t k = 0; k < count; ++k) parameters.emplace_back(Tensor<float>({n}, 1.0f), true);
    const optim::FlatParameters<float> flat(parameters);
    flat.zero_grad();
    // Values each computed from the last and a parameter. The first's backward, which runs last, waits for a sum.
    Var<float> x(Tensor<float>({1}, 0.0f));
    int before_the_end = 0;
    for (index_t k = 0; k < count; ++k)
      x = record(Tensor<float>({1}, 0.0f), {x, nth(parameters, k)},
                 [&, k, before = x.sink(), p = nth(parameters, k).sink()](const Tensor<float>& dy) {
                   for (int i = 0; k == 0 && ranks.exchanged == 0 && i < 20000; ++i)
                     std::this_thread::sleep_for(std::chrono::milliseconds(1));
                   before_the_end = ranks.exchanged;
                   p.accumulate(Tensor<float>({n}, static_cast<float>((ranks.rank() + 1) * (k + 1))));
                   before.accumulate(dy.clone());
                 });
    PairwiseSum<float, Cpu> parts;
    SumsOfRanks<float, Cpu> sums(ranks, flat, false);
    sums.begin(parts, 0);
    x.backward(Tensor<float>({1}, 1.0f));
    sums.finish();
    if (before_the_end == 0) throw Error("nothing was summed before the end");
    for (index_t k = 0; k < count; ++k)
      for (const index_t i : {k * n, (k + 1) * n - 1})
        if (flat.gradients().data()[i] != static_cast<float>(3 * (k + 1))) throw Error("parameter ", k, " has another sum");
  });
  rethrow_first(ends);
}

TEST_CASE("SumsOfRanks: gradients that a backward pass does not reach, and one that throws") {
  for (const bool throws : {false, true}) {
    const auto ends = ThreadRanks::run(2, [&](const std::shared_ptr<Communicator>& ranks) {
      const std::vector<Var<float>> parameters{Var<float>(Tensor<float>({3}, 1.0f), true),
                                               Var<float>(Tensor<float>({2}, 1.0f), true)};
      const optim::FlatParameters<float> flat(parameters);
      flat.zero_grad();
      parameters[0].accumulate(Tensor<float>({3}, 2.0f));
      PairwiseSum<float, Cpu> parts;
      SumsOfRanks<float, Cpu> sums(*ranks, flat, false);
      sums.begin(parts, 0);
      const auto y = record(Tensor<float>({1}, 0.0f), {parameters[1]}, [&](const Tensor<float>&) {
        if (throws && ranks->rank() == 1) throw Error("a bad batch");
        parameters[1].accumulate(Tensor<float>({2}, 5.0f));
      });
      try {
        y.backward();
      } catch (const Error& e) {
        sums.abandon();
        ranks->fail(e.what());
        throw;
      }
      sums.finish();
      if (flat.gradients().data()[2] != 4 || parameters[1].grad().data()[1] != 10) throw Error("other sums");
    });
    if (!throws) rethrow_first(ends);
    else
      for (const auto& end : ends) CHECK_THROWS_WITH(std::rethrow_exception(end), ContainsSubstring("a bad batch"));
  }
}
