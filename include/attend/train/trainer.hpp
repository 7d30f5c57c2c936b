#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "attend/io/folder_lock.hpp"
#include "attend/nn/freeze.hpp"
#include "attend/nn/hidden_matrices.hpp"
#include "attend/optim/any_optimizer.hpp"
#include "attend/optim/average.hpp"
#include "attend/text/suspicions.hpp"
#include "attend/train/batches.hpp"
#include "attend/train/completed.hpp"
#include "attend/train/options.hpp"
#include "attend/train/pending_updates.hpp"
#include "attend/train/ranks.hpp"
#include "attend/train/reporter.hpp"
#include "attend/train/run_clock.hpp"
#include "attend/train/run_folder.hpp"
#include "attend/train/run_identity.hpp"
#include "attend/train/run_schedule.hpp"
#include "attend/train/step_runner.hpp"
#include "attend/train/sums_of_ranks.hpp"
#include "attend/train/validation.hpp"
#include "attend/version.hpp"

namespace attend::train {

/// One training run, which `fit` makes, runs and lets go.
template <class Model, class Tokenizer>
class Trainer {
 public:
  using T = typename Model::value_type;
  using D = typename Model::device_type;

  /// Throws ValueError for options out of range, and where tokenizer or sentences do not fit the model.
  template <class Corpus>
  Trainer(Model& model, const Corpus& corpus, const Tokenizer& tokenizer, const FitOptions& options)
      : Trainer(model, (check(options), encode_pairs(corpus, tokenizer)), tokenizer, options) {
    if (o_.warn_of_corpus) suspicions_ = text::suspicions(corpus);
  }
  Trainer(Model& model, EncodedPairs pairs, const Tokenizer& tokenizer, const FitOptions& options)
      : model_(model),
        tokenizer_(tokenizer),
        ranks_(options.communicator),
        o_(options_of(ranks_, completed(check(options), run_facts(model, pairs.size())))),
        batches_(std::move(pairs), tokenizer.bos(), tokenizer.eos(), batch_options(o_.accumulate)),
        epoch_(batches_.epoch(0)),
        optimizer_(parameters_of_rank(), *o_.optimizer),
        schedule_(run_schedule(o_, total_steps())),
        folder_(o_.output),
        reporter_(o_) {
    if (o_.average_decay > 0) average_.emplace(optimizer_.parameters(), o_.average_decay);
    if (!o_.validation.empty()) validation_.emplace(o_.validation, tokenizer, batch_options(1));
    check_fits(model, tokenizer, batches_.longest());
    if (validation_) check_fits(model, tokenizer, validation_->batches().longest(), "of the validation pairs, ");
    take_output();
  }

  /// Trains until a limit is reached. Where an exception ends the training, a checkpoint is written before it goes on.
  FitReport run() {
    const GeneratorScope generator;
    const EvaluationAfterwards evaluation{model_};
    begin();
    try {
      while (true) {
        if (validation_due()) validate();
        if (keeping_due()) keep();
        if (agreed(checkpoint_due())) checkpoint();
        if (const auto reason = stop_reason()) return end(*reason);
        step();
      }
    } catch (...) {
      rescue();
      throw;
    }
  }

 private:
  optim::FlatParameters<T, D> parameters_of_rank() const {
    optim::FlatParameters<T, D> parameters(nn::parameters(model_), nn::hidden_matrices(model_));
    if (sharded()) parameters.share_out(ranks_.rank(), ranks_.size());
    return parameters;
  }
  /// Whether the optimizer's memory is in several ranks.
  [[nodiscard]] bool sharded() const { return o_.shard_optimizer && ranks_.size() > 1; }
  /// What rank 0 decides, if all ranks have to take part in it.
  [[nodiscard]] bool agreed(bool mine) const {
    if (sharded()) ranks_->broadcast(mine);
    return mine;
  }

  struct EvaluationAfterwards {
    Model& model;
    ~EvaluationAfterwards() { nn::set_training(model, false); }
  };
  static constexpr index_t most_skipped = 100;  // in a row
  static constexpr const char* tries_again = "; training goes on, and the next checkpoint tries again";

  /// Keeps other runs out of the output folder.
  void take_output() {
    if (o_.lock == nullptr) {
      if (folder_.used()) lock_.emplace(o_.output);
      return;
    }
    std::error_code ignored;
    check_value(std::filesystem::equivalent(o_.lock->folder(), o_.output, ignored), "fit", "lock is that of ",
                o_.lock->folder().string(), ", expected that of output, `", o_.output.string(), "`");
  }

  [[nodiscard]] BatchOptions batch_options(index_t accumulate) const {
    return {.tokens_per_batch = o_.tokens_per_batch,
            .accumulate = accumulate,
            .max_length = o_.max_length,
            .bucket_width = o_.bucket_width,
            .seed = o_.seed};
  }

  [[nodiscard]] index_t total_steps() const { return train::total_steps(o_, epoch_.size()); }

  /// All that must be the same in a run that goes on with another's state.
  [[nodiscard]] RunIdentity identity() const {
    auto identity = run_identity(o_, tokenizer_, batches_.pairs(), validation_ ? &validation_->batches().pairs() : nullptr);
    if (const auto frozen = nn::frozen_names(model_); !frozen.empty()) identity["frozen"] = list_identity(frozen);
    return identity;
  }

  void begin() {
    check_ranks();
    if (!ranks_.leads()) {  // rank 0 tells the others where it begins
    } else if (o_.resume) {
      load();
    } else {
      check_value(o_.overwrite || !folder_.holds_run(), "fit", o_.output.string(),
                  " holds another run: resume it, overwrite it, or choose another output");
      if (o_.overwrite) folder_.clear();
      default_generator().restore(o_.seed ^ 0x64726f706f7574, 0);  // a key of its own: not the numbers of the initial weights
    }
    share_state();
    nn::set_training(model_, true);
    clock_.start(state_.seconds);
    checkpoint_time_ = state_.seconds;
    reporter_.begin(state_);
    for (const auto& suspicion : suspicions_) reporter_.warn(suspicion);
    reporter_.opening(model_, batches_, epoch_.size(), state_.step, schedule_, validation_ ? &validation_->batches() : nullptr);
    say_warmup();
    if (state_.step > 0) rate_ = schedule_.at(state_.step, done());
  }

  void load() {
    folder_.load_last([&](const std::filesystem::path& path) {
      auto memory = sharded() ? whole_memory() : this->memory();
      state_ = read_training_state(path, identity(), model_, memory, optimizer_.parameters().layout());
      if (average_) memory.entries.pop_back();
      if (sharded()) restored_ = std::move(memory);
      else optimizer_.restore(memory);
      epoch_ = batches_.epoch(state_.epoch);
      if (state_.position >= epoch_.size())
        throw FormatError("resume: ", path.string(), ": position is ", state_.position, " in an epoch of ", epoch_.size(),
                          " batches");
      state_.twentieths = std::min(state_.twentieths, twentieths());  // of this run, which may be longer
    });
    default_generator().restore(state_.generator_seed, state_.generator_drawn);
    saved_step_ = state_.step;
  }

  /// Throws ValueError on all ranks if one of them would do something else than rank 0.
  void check_ranks() const {
    if (!ranks_) return;
    auto ours = identity();
    FitOptions::fields([&](const char* name, auto member, const auto&...) {
      using V = std::remove_cvref_t<decltype(o_.*member)>;
      if constexpr (NamedEnum<V>) ours[name] = name_of(o_.*member);
      else if constexpr (std::same_as<V, bool>) ours[name] = o_.*member ? "true" : "false";
      else if constexpr (std::is_arithmetic_v<V>)
        if (std::string_view(name) != "keep_checkpoints") ours[name] = number_text(o_.*member);  // rank 0's matter
    });
    ours["schedule"] = schedule_.text();
    ours["translate"] = o_.translate ? "true" : "false";
    ours["version"] = version;
    ours["bytes of a vector"] = number_text(processor().vector_bytes);
    ours["parameters"] = optimizer_.parameters().layout();
    std::vector<std::string> entries;
    for (const auto& [name, value] : ours) entries.push_back("run." + name), entries.push_back(value);
    std::string packed = packed_texts(entries);
    ranks_->broadcast(packed);
    entries = unpacked_texts(packed);
    RunIdentity theirs;
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2) theirs[entries[i]] = entries[i + 1];
    ranks_.check("fit: ranks differ from rank 0", detail::differences(theirs, ours, "this rank"));
  }
  /// Gives the other ranks what rank 0 has: the numbers of the state, the weights, the optimizer's memory.
  void share_state() {
    if (!ranks_) return;
    note_generator();
    detail::for_numbers(state_, [&](const char*, auto& value) { ranks_->broadcast(value); });
    default_generator().restore(state_.generator_seed, state_.generator_drawn);
    for (const auto& t : nn::state(model_)) ranks_->broadcast(t.value);
    auto memory = sharded() ? scattered() : optimizer_.state();
    ranks_->broadcast(memory.steps), ranks_->broadcast(memory.skipped);
    if (!sharded())
      for (const auto& entry : memory.entries) ranks_->broadcast(entry.values);
    optimizer_.restore(memory);
    if (average_) ranks_->broadcast(average_->values());
    weights_changed();
    if (!ranks_.leads()) epoch_ = batches_.epoch(state_.epoch);
    agreed_seconds_ = state_.seconds;
  }
  /// Memory of all parameters, with nothing in it yet: what a checkpoint has.
  [[nodiscard]] optim::OptimizerState<T, D> whole_memory() const {
    auto memory = this->memory();
    for (auto& entry : memory.entries)
      if (entry.values.size() != optimizer_.parameters().size())
        entry.values = Tensor<Wide<T>, D>({optimizer_.parameters().size()}, Wide<T>(0));
    return memory;
  }
  /// f(piece, the elements of `whole` that it is, the elements of `own` that it is).
  template <class F>
  static void for_pieces(const std::vector<typename optim::FlatParameters<T, D>::Piece>& pieces, const Tensor<Wide<T>, D>& whole,
                         const Tensor<Wide<T>, D>& own, F&& f) {
    for (const auto& [begin, size, at] : pieces) f(size, whole.data() + begin, own.data() + at);
  }
  /// The memory of all ranks in rank 0, for a checkpoint; elsewhere of no use.
  [[nodiscard]] optim::OptimizerState<T, D> gathered_memory() const {
    auto own = this->memory();
    if (!sharded()) return own;
    const auto shares = optimizer_.parameters().shares(ranks_.size());
    // Room for it before anything is sent: without it the run goes on, in step.
    optim::OptimizerState<T, D> whole;
    std::vector<Tensor<Wide<T>, D>> rooms;
    bool ready = true;
    if (ranks_.leads()) try {
        whole = whole_memory();
        for (const auto& share : shares) rooms.emplace_back(Shape{optimizer_.parameters().remembered(share)});
      } catch (const MemoryError&) {
        ready = false;
      } catch (const std::bad_alloc&) {
        ready = false;
      }
    ranks_->broadcast(ready);
    if (!ready) throw MemoryError("fit: there is no memory to gather what the ranks' optimizers remember");
    for (std::size_t i = 0; i < own.entries.size() - (average_ ? 1 : 0); ++i) {  // the average is whole in all ranks
      if (!ranks_.leads()) {
        ranks_->send(0, own.entries[i].values);
        continue;
      }
      for (index_t rank = 0; rank < ranks_.size(); ++rank) {
        const auto& theirs = nth(rooms, rank);
        if (rank == 0) theirs.assign(own.entries[i].values);
        else ranks_->receive(rank, theirs);
        for_pieces(nth(shares, rank), whole.entries[i].values, theirs,
                   [](index_t n, Wide<T>* to, const Wide<T>* from) { copy(D{}, n, from, to); });
      }
    }
    return whole;
  }
  /// The other way: what each rank has to remember of what rank 0 has read.
  [[nodiscard]] optim::OptimizerState<T, D> scattered() {
    auto own = optimizer_.state();
    bool restored = restored_.has_value();
    ranks_->broadcast(restored);
    if (!restored) return own;
    const auto shares = optimizer_.parameters().shares(ranks_.size());
    for (std::size_t i = 0; i < own.entries.size(); ++i)
      for (index_t rank = ranks_.size() - 1; rank >= 0; --rank) {
        if (!ranks_.leads()) {
          if (rank == ranks_.rank()) ranks_->receive(0, own.entries[i].values);
          continue;
        }
        const Tensor<Wide<T>, D> theirs({optimizer_.parameters().remembered(nth(shares, rank))});
        for_pieces(nth(shares, rank), restored_->entries[i].values, theirs,
                   [](index_t n, const Wide<T>* from, Wide<T>* to) { copy(D{}, n, from, to); });
        if (rank > 0) ranks_->send(rank, theirs);
        else own.entries[i].values.assign(theirs);
      }
    if (ranks_.leads()) own.steps = restored_->steps, own.skipped = restored_->skipped;
    restored_.reset();
    return own;
  }
  /// Brings the weights that the other ranks have moved.
  void gather_weights() {
    if (!sharded()) return;
    const auto& parameters = optimizer_.parameters();
    if (shares_.empty()) {
      shares_ = parameters.shares(ranks_.size());
      for (const auto& share : shares_)
        share_bytes_.push_back(static_cast<std::size_t>(parameters.remembered(share)) * sizeof(T));
      travelling_ = Tensor<T>({parameters.size()});
    }
    const Tensor<T> host = parameters.values().template to<Cpu>();
    const auto each = [&](auto&& f) {
      index_t before = 0;
      for (index_t rank = 0; rank < ranks_.size(); before += parameters.remembered(nth(shares_, rank++)))
        for (const auto& [begin, size, at] : nth(shares_, rank))
          f(rank, size, host.data() + begin, travelling_.data() + before + at);
    };
    each([&](index_t rank, index_t n, const T* from, T* to) {
      if (rank == ranks_.rank()) copy(Cpu{}, n, from, to);
    });
    ranks_->gather_pieces(std::as_writable_bytes(travelling_.span()), share_bytes_);
    each([&](index_t rank, index_t n, T* to, const T* from) {
      if (rank != ranks_.rank()) copy(Cpu{}, n, from, to);
    });
    if constexpr (!std::same_as<D, Cpu>) parameters.values().assign(host);
    weights_changed();
  }
  /// What ranks tell each other after each step.
  struct Word {
    double seconds, weights;
    index_t interrupted;
  };
  /// Makes the clock of rank 0 that of all, and an interruption of any. Throws RankError if their weights, of which it looks at
  /// the sum of the squares, are not the same; on a GPU, where that would keep the host waiting, at the gradients' norm.
  void agree() {
    if (!ranks_) return;
    Word mine{clock_.seconds(), 0, o_.stop != nullptr && o_.stop->load(std::memory_order_relaxed)};
    const auto& values = optimizer_.parameters().values();
    if constexpr (std::same_as<D, Cpu>) mine.weights = sum_of_squares(D{}, values.size(), values.data());
    else mine.weights = optimizer_.record().item().norm;
    const auto words = ranks_.gather(std::vector<Word>{mine});
    if (count_of(words) != ranks_.size()) throw RankError("fit: ranks do not do the same at step ", state_.step);
    agreed_seconds_ = words.front().seconds;
    for (std::size_t k = 0; k < words.size(); ++k) {
      agreed_interrupted_ = agreed_interrupted_ || words[k].interrupted;
      if (std::memcmp(&words[k].weights, &words.front().weights, sizeof(double)) != 0)
        throw RankError("fit: rank ", k, " has other weights than rank 0 after step ", state_.step,
                        ": their processors or builds compute differently, or something else has changed them");
    }
  }
  /// Seconds of training, on which ranks agree.
  [[nodiscard]] double seconds() const { return ranks_ ? agreed_seconds_ : clock_.seconds(); }

  /// What the optimizer remembers, and last the average of the weights if there is one.
  [[nodiscard]] optim::OptimizerState<T, D> memory() const {
    auto memory = optimizer_.state();
    if (average_) memory.entries.push_back({"average", average_->values()});
    return memory;
  }

  /// One update of the weights.
  void step() {
    note_generator();
    const auto batch = epoch_[state_.position];
    const index_t labels = batches_.labels(batch);
    say_warmup();
    const double rate = rate_ = schedule_.at(state_.step + 1, done());
    auto losses = differentiate(batch, labels);
    agree();  // of what stands before the update, so that nothing is lost if it fails
    sound_ = false;
    optimizer_.update(rate, o_.clip_norm);
    ++state_.step;
    gather_weights();
    if (average_) average_->update(state_.step, optimizer_.record().data());
    state_.tokens += labels;
    if (++state_.position == epoch_.size()) {
      state_.position = 0;
      epoch_ = batches_.epoch(++state_.epoch);
    }
    state_.seconds = seconds();
    updates_.add(
        {.step = state_.step, .epoch = epochs_done(), .seconds = state_.seconds, .tokens = state_.tokens, .learning_rate = rate},
        labels, std::move(losses), optimizer_.record());
    note_generator();
    sound_ = true;
    conclude_but(StepRunner<Model>::most_under_way);
  }

  /// Sums that an exception has overtaken must not go on beside what comes of it.
  struct AbandonedSums {
    std::optional<SumsOfRanks<T, D>>& sums;
    ~AbandonedSums() {
      if (sums) sums->abandon();
    }
  };
  using PartLoss = typename PendingUpdates<T, D>::PartLoss;
  /// Puts the gradients of a batch of so many labels into the optimizer's, and says the losses of its passes.
  std::vector<PartLoss> differentiate(std::span<const index_t> batch, index_t labels) {
    const auto parts = batches_.cut(batch, o_.parts);
    const index_t first = ranks_.first(o_.parts), last = ranks_.last(o_.parts);
    const auto& gradients = optimizer_.parameters().gradients();
    if (ranks_ && !sums_of_ranks_) sums_of_ranks_.emplace(*ranks_, optimizer_.parameters(), o_.fast_sums);
    const AbandonedSums abandoned{sums_of_ranks_};
    std::vector<PartLoss> losses;
    for (index_t part = first; part < last; ++part) {
      if (o_.parts > 1) draw_for(part);
      optimizer_.zero_grad();
      const bool is_last = part + 1 == last;
      const auto passes = batches_.passes(nth(parts, part), o_.parts);
      if (ranks_ && is_last && passes.empty()) sums_of_ranks_->begin(sums_, part - first);
      for (const auto& pass : passes) {
        if (ranks_ && is_last && &pass == &passes.back()) sums_of_ranks_->begin(sums_, part - first);
        const double share = static_cast<double>(batches_.labels(pass)) / static_cast<double>(labels);
        const auto mean = runner_.run(model_, batches_, pass, {.smoothing = o_.label_smoothing, .r_drop = o_.r_drop}, share);
        losses.push_back({share, Arriving<Wide<T>, D>(mean)});
      }
      if (!(ranks_ && is_last)) sums_.add(part - first, last - first, gradients);
    }
    if (o_.parts > 1) default_generator().restore(state_.generator_seed, state_.generator_drawn);
    if (!ranks_) return losses;
    sums_of_ranks_->finish();
    return gathered(std::move(losses));
  }
  /// Lets what is drawn next depend on the step and the part alone. The key stays, because recorded work has it.
  void draw_for(index_t part) const {
    const auto number = static_cast<std::uint64_t>(state_.step * o_.parts + part + 1);
    default_generator().restore(state_.generator_seed, number << 16);
  }
  /// The losses of all ranks' passes, in their order.
  std::vector<PartLoss> gathered(std::vector<PartLoss> losses) const {
    struct Loss {
      double share;
      Wide<T> mean;
    };
    std::vector<Loss> all;
    for (auto& loss : losses) all.push_back({loss.share, loss.mean.values().front()});
    all = ranks_.gather(all);
    losses.clear();
    for (const auto& [share, mean] : all) losses.push_back({share, Arriving<Wide<T>, D>(Tensor<Wide<T>, D>({1}, mean))});
    return losses;
  }

  /// Reads what came of the updates that are still under way on a device, but for the last so many.
  void conclude_but(std::size_t remaining) {
    while (const auto outcome = updates_.next(remaining)) {
      nan_steps_ = outcome->taken ? 0 : nan_steps_ + 1;
      if (nan_steps_ >= most_skipped) {
        sound_ = false;
        throw Error("fit: the gradient was not finite in the last ", nan_steps_, " steps, to step ", outcome->point.step,
                    "; a lower learning rate or a longer warm-up may help");
      }
      if (add(outcome->point, outcome->labels)) reporter_.point(state_.curve.back());
      reporter_.step(outcome->point, total_steps(), clock_);
    }
  }

  /// Adds a step to the curve; true where that gives it a point.
  bool add(const CurvePoint& now, index_t labels) {
    TrainingState& s = state_;
    s.sum.add(now, labels);
    if (now.step % o_.curve_every != 0) return false;
    s.curve.push_back(s.sum.mean(now));
    s.sum = {};
    return true;
  }

  [[nodiscard]] bool validation_due() const {
    if (!validation_ || state_.step == 0 || state_.validated == state_.step) return false;
    if (o_.validate_every > 0) return state_.step % o_.validate_every == 0;
    if (o_.validate_every == 0 || !ends()) return state_.position == 0;
    // Where the clock ends the run, it also says how much of it validation may have.
    const bool affordable = o_.max_seconds == 0 || seconds() - validation_end_ >= 9 * validation_seconds_;
    return twentieths() > state_.twentieths && affordable;
  }
  void validate() {
    conclude_but(0);
    const double begin = seconds();
    typename optim::WeightAverage<T, D>::Scope averaged(average_ ? &*average_ : nullptr);
    const auto measured = in_context("fit: validation at step " + std::to_string(state_.step) + ": ",
                                     [&] { return validation_->measure(model_, o_.translate, o_.stop, ranks_); });
    agree();
    if (!measured) return;  // interrupted; the run that resumes this one begins with this validation
    if (!std::isfinite(measured->loss)) {
      sound_ = false;
      throw Error("fit: the validation loss is not finite at step ", state_.step,
                  "; a lower learning rate or a longer warm-up may help");
    }
    ValidationPoint point{.step = state_.step, .loss = measured->loss, .bleu = measured->bleu};
    const double value = o_.best_by == Metric::loss ? point.loss : -point.bleu;  // lower is better
    const bool better = !(value >= state_.best_value) && !std::isnan(value);
    point.seconds = state_.seconds = seconds();
    validation_end_ = point.seconds, validation_seconds_ = point.seconds - begin;
    // If it cannot be written, the best stays what best/ has, so that the next that is better than that is written.
    point.best = better && (!folder_.used() || attempt(tries_again, [&] { folder_.save_best(model_, tokenizer_); }));
    if (ranks_) ranks_->broadcast(point.best);
    if (point.best) state_.best_value = value;
    state_.since_best = better ? 0 : state_.since_best + 1;
    state_.validated = state_.step;
    state_.twentieths = twentieths();
    state_.validations.push_back(point);
    reporter_.validation(point, measured->translations, validation_->batches().kept());
    saved_step_ = -1;  // what was saved does not know of this
    if (point.best && agreed(folder_.used())) {
      averaged.end();
      checkpoint();  // so that a run that goes on from `last` knows of this best
    }
    if (o_.on_validation) o_.on_validation(point, measured->translations);
  }

  /// At each step that `checkpoint_every` names, a checkpoint for a better validation there or not.
  [[nodiscard]] bool keeping_due() const {
    return o_.keep_checkpoints > 0 && state_.step > 0 && state_.step % o_.checkpoint_every == 0 && kept_step_ != state_.step;
  }
  void keep() {
    conclude_but(0);
    attempt(tries_again, [&] { folder_.keep(model_, tokenizer_, state_.step, o_.keep_checkpoints); });
    kept_step_ = state_.step;
  }

  [[nodiscard]] bool checkpoint_due() const {
    if (!folder_.used() || state_.step == 0 || saved_step_ == state_.step) return false;
    if (o_.checkpoint_every > 0 && state_.step % o_.checkpoint_every == 0) return true;
    return o_.checkpoint_seconds > 0 && clock_.seconds() - checkpoint_time_ >= o_.checkpoint_seconds;
  }
  void checkpoint() {
    conclude_but(0);
    note_generator();
    attempt(tries_again, [&] { save(); });
    checkpoint_time_ = clock_.seconds();
  }
  void save() {
    if (!ranks_) state_.seconds = clock_.seconds();
    const auto memory = gathered_memory();
    if (!folder_.used()) return;
    folder_.save_last(model_, tokenizer_, [&](const std::filesystem::path& path) {
      write_training_state(path, state_, identity(), model_, memory, optimizer_.parameters().layout());
    });
    saved_step_ = state_.step;
  }
  void note_generator() {
    state_.generator_seed = default_generator().seed(), state_.generator_drawn = default_generator().drawn();
  }
  /// Writes something that a run can do without for now; where a full disk or the like keeps it from that, a warning says so.
  template <class F>
  bool attempt(const char* otherwise, F&& write) {
    try {
      write();
      return true;
    } catch (const IoError& e) {
      reporter_.warn(e.what() + std::string(otherwise));
    } catch (const MemoryError& e) {
      reporter_.warn(e.what() + std::string(otherwise));
    } catch (const std::bad_alloc&) {
      reporter_.warn("there was no memory to write a checkpoint" + std::string(otherwise));
    }
    return false;
  }
  /// Saves what there is where an exception ends the run, but for a run that has diverged, whose last checkpoint is better.
  void rescue() noexcept {
    if (!folder_.used() || !sound_ || state_.step == 0 || saved_step_ == state_.step || sharded()) return;
    try {
      while (const auto outcome = updates_.next(0)) add(outcome->point, outcome->labels);
      if (attempt("; the run ends without a checkpoint of its last step", [&] { save(); }))
        reporter_.message("train: an error ends the run; the checkpoint of step " + std::to_string(state_.step) +
                          " is written, from which a run that resumes it goes on");
    } catch (...) {  // a device that has failed, say: what ends the run tells more
    }
  }

  [[nodiscard]] std::optional<StopReason> stop_reason() const {
    const bool interrupted = ranks_ ? agreed_interrupted_ : o_.stop != nullptr && o_.stop->load(std::memory_order_relaxed);
    if (interrupted) return StopReason::interrupted;
    if (o_.patience > 0 && state_.since_best >= o_.patience) return StopReason::patience;
    if (o_.epochs > 0 && state_.epoch >= o_.epochs) return StopReason::epochs;
    if (o_.max_steps > 0 && state_.step >= o_.max_steps) return StopReason::max_steps;
    if (o_.max_seconds > 0 && seconds() >= o_.max_seconds) return StopReason::max_seconds;
    return std::nullopt;
  }
  FitReport end(StopReason reason) {
    conclude_but(0);
    const bool validated = !validation_ || state_.validated == state_.step || state_.step == 0;
    if (reason != StopReason::interrupted && !validated) validate();
    if (agreed(folder_.used() && saved_step_ != state_.step)) {
      note_generator();
      sound_ = false;  // what cannot be written now will not be a moment later
      in_context("fit: the last checkpoint: ", [&] { save(); });
    }
    if (average_) average_->exchange();
    if (!ranks_) state_.seconds = clock_.seconds();
    FitReport report{.curve = state_.curve,
                     .validations = state_.validations,
                     .steps = state_.step,
                     .skipped = optimizer_.skipped(),
                     .epochs = state_.epoch,
                     .tokens = state_.tokens,
                     .seconds = state_.seconds,
                     .pairs = batches_.size(),
                     .dropped = batches_.dropped(),
                     .validation_dropped = validation_ ? validation_->batches().dropped() : 0,
                     .stopped = reason,
                     .warnings = reporter_.warnings()};
    if (sums_of_ranks_) report.summed = sums_of_ranks_->summed(), report.waited = sums_of_ranks_->waited();
    if (state_.sum.steps > 0)  // the steps since the last point; a run that goes on from here has them in its next
      report.curve.push_back(state_.sum.mean({.step = state_.step,
                                              .epoch = epochs_done(),
                                              .seconds = state_.seconds,
                                              .tokens = state_.tokens,
                                              .learning_rate = rate_}));
    reporter_.message("train: " + report.text());
    return report;
  }

  /// The share of the run that is over, 0 to 1; 0 where nothing but patience or an interruption ends it.
  [[nodiscard]] double done() const { return std::max(0.0, RunClock::fraction(o_, epochs_done(), state_.step, state_.seconds)); }
  /// Whether anything ends the run but patience or an interruption.
  [[nodiscard]] bool ends() const { return o_.epochs > 0 || o_.max_steps > 0 || o_.max_seconds > 0; }
  /// How many twentieths of the run are over.
  [[nodiscard]] index_t twentieths() const { return static_cast<index_t>(20 * done() + 1e-9); }
  /// Says that the warm-up is cut short, once that is known: by the number of steps at the beginning, by the clock half-way.
  void say_warmup() {
    const optim::Schedule& asked = o_.schedule ? *o_.schedule : schedule_;
    if (warmup_said_ || !asked.cuts_warmup()) return;
    const index_t wanted = asked.options().warmup, half = total_steps() / 2;
    const bool by_steps = half > 0 && wanted > half, by_clock = done() >= 0.5 && state_.step < wanted;
    if (!by_steps && !by_clock) return;
    warmup_said_ = true;
    reporter_.message("train: a warm-up of " + std::to_string(wanted) + " steps is more than half of the run; it is cut to " +
                      std::to_string(by_steps ? half : state_.step));
  }

  [[nodiscard]] double epochs_done() const {
    return static_cast<double>(state_.epoch) + static_cast<double>(state_.position) / static_cast<double>(epoch_.size());
  }

  Model& model_;
  const Tokenizer& tokenizer_;
  const Ranks ranks_;
  const FitOptions o_;
  Batches batches_;
  Batches::Epoch epoch_;
  std::optional<Validation> validation_;
  optim::AnyOptimizer<T, D> optimizer_;
  std::optional<optim::WeightAverage<T, D>> average_;
  optim::Schedule schedule_;
  RunFolder folder_;
  std::optional<io::FolderLock> lock_;  // where the caller has none
  Reporter reporter_;
  StepRunner<Model> runner_;
  PendingUpdates<T, D> updates_;
  PairwiseSum<T, D> sums_;  // of the gradients of a batch's parts
  std::optional<SumsOfRanks<T, D>> sums_of_ranks_;

  TrainingState state_;
  std::vector<std::string> suspicions_;                 // of the corpus
  double rate_ = 0;                                     // of the last update
  bool warmup_said_ = false;                            // that it is cut short
  double validation_end_ = 0, validation_seconds_ = 0;  // when the last one was done, and what it took
  index_t saved_step_ = -1;                             // of the last checkpoint
  index_t kept_step_ = -1;                              // of the last one that is kept
  index_t nan_steps_ = 0;                               // skipped in a row
  bool sound_ = true;                                   // whether weights and state belong together and are worth a checkpoint
  RunClock clock_;
  double checkpoint_time_ = 0;
  std::optional<optim::OptimizerState<T, D>> restored_;  // what rank 0 has read for all
  std::vector<std::vector<typename optim::FlatParameters<T, D>::Piece>> shares_;
  std::vector<std::size_t> share_bytes_;
  Tensor<T> travelling_;             // the weights of all shares, end to end
  double agreed_seconds_ = 0;        // with the other ranks
  bool agreed_interrupted_ = false;  // in any of them
};

}  // namespace attend::train
