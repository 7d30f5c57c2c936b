#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "attend/train/communicator.hpp"

/// Ranks that are threads of one process.
namespace attend::test {

class ThreadRanks {
 public:
  /// Runs `work` as each of so many ranks, and gives the exceptions that ended them, null if none did.
  template <class F>
  static std::vector<std::exception_ptr> run(index_t size, F&& work) {
    const auto post = std::make_shared<Post>();
    std::vector<std::exception_ptr> ends(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (index_t rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        try {
          work(std::make_shared<Rank>(post, rank, size));
        } catch (...) {
          nth(ends, rank) = std::current_exception();
        }
      });
    for (auto& thread : threads) thread.join();
    return ends;
  }

 private:
  /// What was sent and not received yet, by sender and receiver.
  struct Post {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::pair<index_t, index_t>, std::vector<std::string>> letters;
    std::string failure;
    index_t failed = -1;
  };

  class Rank final : public train::Communicator {
   public:
    Rank(std::shared_ptr<Post> post, index_t rank, index_t size) : post_(std::move(post)), rank_(rank), size_(size) {}
    [[nodiscard]] index_t rank() const override { return rank_; }
    [[nodiscard]] index_t size() const override { return size_; }
    void exchange(index_t other, std::span<const std::byte> sent, std::span<std::byte> received) override {
      std::unique_lock lock(post_->mutex);
      if (!sent.empty()) {
        post_->letters[{rank_, other}].emplace_back(reinterpret_cast<const char*>(sent.data()), sent.size());
        post_->changed.notify_all();
      }
      if (received.empty()) return;
      auto& letters = post_->letters[{other, rank_}];
      post_->changed.wait(lock, [&] { return !letters.empty() || !post_->failure.empty(); });
      if (letters.empty()) throw train::RankError("rank ", post_->failed, " failed: ", post_->failure);
      if (letters.front().size() != received.size())
        throw train::RankError("exchange: ", letters.front().size(), " bytes came, expected ", received.size());
      std::copy(letters.front().begin(), letters.front().end(), reinterpret_cast<char*>(received.data()));
      letters.erase(letters.begin());
    }
    void look_for_failure() override {
      const std::lock_guard lock(post_->mutex);
      if (!post_->failure.empty()) throw train::RankError("rank ", post_->failed, " failed: ", post_->failure);
    }
    [[nodiscard]] bool waiting(index_t other) override {
      look_for_failure();
      const std::lock_guard lock(post_->mutex);
      return !post_->letters[{other, rank_}].empty();
    }
    void fail(std::string_view why) noexcept override {
      const std::lock_guard lock(post_->mutex);
      if (!post_->failure.empty()) return;
      post_->failed = rank_, post_->failure = why;
      post_->changed.notify_all();
    }

   private:
    std::shared_ptr<Post> post_;
    index_t rank_, size_;
  };
};

}  // namespace attend::test
