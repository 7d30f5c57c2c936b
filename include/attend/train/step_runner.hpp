#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "attend/core/repeated.hpp"
#include "attend/cpu/cross_entropy.hpp"
#include "attend/train/batches.hpp"
#include "attend/train/teacher.hpp"

namespace attend::train {

/// Computes the loss of a part of a batch and adds its gradients to those of the model. On a device that can record work (see
/// Repeated), the steps of small batches are recorded, one recording for each size: batches are brought to a few sizes by
/// sentences that count for nothing.
template <class Model>
class StepRunner {
 public:
  using T = typename Model::value_type;
  using D = typename Model::device_type;
  using W = Wide<T>;

  /// Updates whose outcome may still be under way while the next is prepared: on a device the host would otherwise wait in every
  /// step.
  static constexpr std::size_t most_under_way = std::same_as<D, Cpu> ? 0 : 1;

  /// `lesson`: what is learnt besides the labels, if it has a teacher.
  explicit StepRunner(Lesson<T, D> lesson = {}) : lesson_(std::move(lesson)) {}

  /// Whether several threads may `run` at the same time.
  [[nodiscard]] bool by_threads() const {
    if constexpr (std::same_as<D, Cpu> && requires { requires Model::loss_by_threads; }) return lesson_.teacher.by_threads();
    return false;
  }

  /// The mean loss over the labels of these pairs, [1], to be read before the next call; the gradients are those of `share` times
  /// it. With R-Drop the model gets the batch twice. The model's parameters and gradients must stay where they are from call to
  /// call, and the model, its mode and the options must not change.
  Tensor<W, D> run(const Model& model, const Batches& batches, std::span<const index_t> pairs, const CrossEntropyOptions& options,
                   double share) {
    const bool twice = options.r_drop > 0;
    if constexpr (Repeated<D>::records)
      if (batches.tokens(pairs) * (twice ? 2 : 1) <= most_recorded_tokens) return repeat(model, batches, pairs, options, share);
    const auto batch = batches.template make<D>(pairs);
    const auto mean = lesson_.loss(model, twice ? batch.twice() : batch, options);
    mean.backward(Tensor<W, D>(mean.shape(), static_cast<W>(share)));
    return mean.value();
  }

 private:
  /// A larger step keeps a device busy for longer than the host needs to launch it.
  static constexpr index_t most_recorded_tokens = 32768;
  static constexpr std::size_t most_frames = 256;

  /// Source rows, target rows, sentences, the longest source, the longest target.
  using Size = std::array<index_t, 5>;

  /// Where the numbers of all batches of one size lie, and the recording that works on them.
  struct Frame {
    std::shared_ptr<const void> source_tables, target_tables;
    nn::Batch<D> batch;
    Tensor<W, D> share{Shape{1}}, loss{Shape{1}};
    Repeated<D> work;
    std::size_t last_use = 0;

    explicit Frame(const Size& s)
        : source_tables(make_tables(D{}, s[2])),
          target_tables(make_tables(D{}, s[2])),
          batch{.source = Tensor<token_t, D>({s[0]}),
                .source_segments = Segments::room(s[2], s[0], s[3], source_tables),
                .target = Tensor<token_t, D>({s[1]}),
                .target_segments = Segments::room(s[2], s[1], s[4], target_tables),
                .labels = Tensor<token_t, D>({s[1]})} {}
  };

  /// n rounded up to one of eight sizes between a power of two and the next.
  static index_t rounded(index_t n) {
    const auto step = std::max<index_t>(16, static_cast<index_t>(std::bit_floor(static_cast<std::uint64_t>(n))) / 8);
    return (n + step - 1) / step * step;
  }

  Tensor<W, D> repeat(const Model& model, const Batches& batches, std::span<const index_t> pairs,
                      const CrossEntropyOptions& options, double share) {
    nn::Batch<> batch = batches.make(pairs);
    Size size = pad(batch, batches.longest(), options.ignore_index);
    if (options.r_drop > 0) {
      batch = batch.twice();
      for (const std::size_t k : {0, 1, 2}) size[k] *= 2;
    }
    Frame& frame = find(size);
    frame.batch.source.assign(batch.source);
    frame.batch.target.assign(batch.target);
    frame.batch.labels.assign(batch.labels);
    frame.share.assign(Tensor<W>({1}, static_cast<W>(share)));
    write_tables(D{}, batch.source_segments, frame.source_tables);
    write_tables(D{}, batch.target_segments, frame.target_tables);
    frame.work.run([&] {
      const auto mean = lesson_.loss(model, frame.batch, options);
      copy(D{}, index_t{1}, mean.data(), frame.loss.data());
      mean.backward(frame.share);
    });
    return frame.loss;
  }

  Frame& find(const Size& size) {
    auto made = frames_.find(size);
    if (made == frames_.end()) made = frames_.emplace(size, std::make_unique<Frame>(size)).first;
    const auto& frame = made->second;
    frame->last_use = ++uses_;
    if (frames_.size() > most_frames) {
      const auto oldest = std::min_element(frames_.begin(), frames_.end(),
                                           [](const auto& a, const auto& b) { return a.second->last_use < b.second->last_use; });
      frames_.erase(oldest);
    }
    return *frame;
  }

  /// Appends sentences whose labels are ignored until the batch has one of few sizes, and says which.
  static Size pad(nn::Batch<>& batch, index_t longest_of_all, token_t ignored) {
    const Segments &source = batch.source_segments, &target = batch.target_segments;
    const auto limit = [&](index_t longest) { return std::min((longest + 15) / 16 * 16, longest_of_all); };
    Size size{rounded(source.rows()), rounded(target.rows()), 0, limit(source.longest()), limit(target.longest())};
    const auto missing = [&](index_t rows, index_t longest) { return (rows + longest - 1) / longest; };
    const index_t more = std::max(missing(size[0] - source.rows(), size[3]), missing(size[1] - target.rows(), size[4]));
    size[2] = rounded(source.count() + more);
    const auto lengths = [&](const Segments& s, index_t rows, index_t longest) {
      std::vector<index_t> all(s.lengths());
      index_t rest = rows - s.rows();
      while (count_of(all) < size[2]) {
        all.push_back(std::min(rest, longest));
        rest -= all.back();
      }
      return Segments::ragged(all);
    };
    const auto extended = [](const Tensor<token_t>& x, index_t rows, token_t value) {
      const Tensor<token_t> all({rows}, value);
      copy(Cpu{}, x.size(), x.data(), all.data());
      return all;
    };
    batch = {.source = extended(batch.source, size[0], token_t{0}),
             .source_segments = lengths(source, size[0], size[3]),
             .target = extended(batch.target, size[1], token_t{0}),
             .target_segments = lengths(target, size[1], size[4]),
             .labels = extended(batch.labels, size[1], ignored)};
    return size;
  }

  Lesson<T, D> lesson_;
  std::map<Size, std::unique_ptr<Frame>> frames_;
  std::size_t uses_ = 0;
};

}  // namespace attend::train
