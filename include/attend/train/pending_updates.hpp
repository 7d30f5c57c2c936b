#pragma once

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "attend/core/arriving.hpp"
#include "attend/cpu/optimizer.hpp"
#include "attend/train/report.hpp"

namespace attend::train {

/// Updates of the weights whose outcome may still be under way on a device while the host prepares the next.
template <class T, Device D>
class PendingUpdates {
 public:
  /// The mean loss of a part of a batch, and the share of the batch's labels over which it is the mean.
  struct PartLoss {
    double share;
    Arriving<Wide<T>, D> mean;
  };
  /// What came of an update: its point with the loss and the gradient's norm.
  struct Outcome {
    CurvePoint point;
    index_t labels;
    bool taken;  ///< false if the gradient was not finite
  };

  /// The update has been asked for; `record` is the optimizer's, after it.
  void add(const CurvePoint& point, index_t labels, std::vector<PartLoss> losses, const Tensor<UpdateRecord, D>& record) {
    updates_.push_back({point, labels, std::move(losses), Arriving<UpdateRecord, D>(record)});
  }
  /// Waits for the outcome of the oldest, unless only `remaining` of them are under way.
  std::optional<Outcome> next(std::size_t remaining) {
    if (updates_.size() <= remaining) return std::nullopt;
    Update update = std::move(updates_.front());
    updates_.pop_front();
    const UpdateRecord record = update.record.values().front();
    update.point.gradient_norm = record.norm;
    for (auto& part : update.losses) update.point.loss += part.share * static_cast<double>(part.mean.values().front());
    return Outcome{update.point, update.labels, record.taken};
  }

 private:
  struct Update {
    CurvePoint point;
    index_t labels;
    std::vector<PartLoss> losses;
    Arriving<UpdateRecord, D> record;
  };
  std::deque<Update> updates_;
};

}  // namespace attend::train
