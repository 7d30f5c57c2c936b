#pragma once

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/processors.hpp"
#include "attend/core/thread_part.hpp"
#include "attend/core/types.hpp"

namespace attend {

namespace detail {

/// More threads than any machine has processors for.
inline constexpr int most_threads = 1024;

/// The number that a text gives. Throws ValueError, whose message begins with `name`, unless it is a whole number from 1 to 1024.
inline int threads_from(const char* name, std::string_view text) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 1 || n > most_threads)
    throw ValueError(name, " is '", printable(text), "', expected a number from 1 to ", most_threads);
  return n;
}

}  // namespace detail

/// A reference to what a loop does with a part of its indices, body(begin, end). It hides the body's type: were the pool a
/// template of it, every parallel loop would compile a pool, and its own body more than once.
class LoopBody {
 public:
  /// Refers to `body`, which must live as long: a lambda in the call of a loop does.
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, LoopBody>) LoopBody(F&& body)  // implicit, so that loops take a lambda
      : object_(const_cast<void*>(static_cast<const void*>(&body))), call_(&LoopBody::run<std::remove_reference_t<F>>) {}
  void operator()(index_t begin, index_t end) const { call_(object_, begin, end); }

 private:
  friend class ThreadPool;
  using Call = void (*)(void*, index_t, index_t);
  LoopBody(void* object, Call call) : object_(object), call_(call) {}
  template <class F>
  static void run(void* f, index_t begin, index_t end) {
    (*static_cast<F*>(f))(begin, end);
  }

  void* object_;
  Call call_;
};

/// Worker threads that stay. A loop is cut into chunks. A thread takes those of its own share one by one, which are about the
/// same part of each loop, so that what it wrote in one is in its caches when it reads it in the next; then what others have left
/// of theirs. Which thread takes a chunk never changes a result, because a chunk writes only what belongs to its own indices.
class ThreadPool {
 public:
  /// The pool of the process; see `threads`.
  static ThreadPool& instance() { return instance(0); }
  ~ThreadPool() { stop(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// How many work on a loop, the caller counted.
  [[nodiscard]] int threads() const { return threads_.load(std::memory_order_relaxed); }
  /// Whether this thread is at work on a part of a loop, so that a loop within it would run on this thread alone.
  [[nodiscard]] static bool within_loop() { return inside(); }
  /// How many of the threads that sleep a loop of so many chunks wants: those that are awake, the caller among them, take one
  /// each.
  [[nodiscard]] static index_t to_wake(index_t threads, index_t chunks, index_t sleeping) {
    return std::max<index_t>(0, sleeping - std::max<index_t>(0, threads - chunks));
  }

  /// Sets the number of threads of the process's pool. Not to be called while a loop runs in another thread. Throws ValueError
  /// unless it is 1 to 1024, and Error if the system does not let this process have them; there are then as many as before, if
  /// they can still be had.
  static void resize(int threads) {
    if (threads < 1 || threads > detail::most_threads)
      throw ValueError("set_threads: got ", threads, ", expected 1 to ", detail::most_threads);
    ThreadPool& pool = instance(threads);
    const std::lock_guard running(pool.running_);
    const int before = pool.threads();
    if (threads == before) return;
    pool.stop();
    if (pool.start(threads)) return;
    const int possible = pool.threads();
    pool.stop();
    pool.start(before);
    refuse("set_threads", possible, threads);
  }

  /// Calls body(begin, end) on consecutive parts of [0, n), each `chunk` long but for the last. All of it is one part, and runs
  /// on this thread alone, if there is only one chunk, if this is itself part of such a loop, or if another thread keeps the
  /// workers busy.
  /// An exception of the body is thrown here once all parts have ended; later parts are then left out.
  void run(index_t n, index_t chunk, LoopBody body) {
    const index_t chunks = (n + chunk - 1) / chunk;
    if (chunks > 1 && threads() > 1 && !inside()) {
      const std::unique_lock running(running_, std::try_to_lock);
      if (running.owns_lock() && chunks <= max_chunks) {
        run_shared(n, chunk, chunks, body);
        return;
      }
    }
    if (n > 0) body(index_t{0}, n);
  }

 private:
  // A share is a word that says which loop it is of and which of its chunks are left, so that a thread takes a chunk
  // with a single compare-and-swap, which cannot succeed on a loop that has ended.
  static constexpr int chunk_bits = 20;
  static constexpr index_t max_chunks = (index_t{1} << chunk_bits) - 2;
  static constexpr std::uint64_t mask = (std::uint64_t{1} << chunk_bits) - 1;
  struct alignas(detail::cache_line) Share {
    std::atomic<std::uint64_t> word{0};  // loop, end, next
  };

  /// The pool of the process, with `first` threads if this is what makes it; 0: as many as `threads` says.
  static ThreadPool& instance(int first) {
    static ThreadPool pool(first);
    return pool;
  }
  explicit ThreadPool(int first) {
    const char* const text = std::getenv("ATTEND_THREADS");
    const bool by_environment = first == 0 && text != nullptr && *text != 0;
    const int asked = by_environment ? detail::threads_from("ATTEND_THREADS", text) : first;
    if (start(asked > 0 ? asked : std::min(available_processors(), detail::most_threads))) return;
    const int possible = threads();
    stop();
    if (asked > 0) refuse(by_environment ? "ATTEND_THREADS" : "set_threads", possible, asked);
    start(std::max(1, possible / 2));  // nobody has asked for all of them; half, so that the program has room for its work
  }
  [[noreturn]] static void refuse(const char* name, int possible, int wanted) {
    throw Error(name, ": the system lets this process have ", possible, " of ", wanted, " threads");
  }

  static bool& inside() {
    thread_local bool value = false;
    return value;
  }

  void run_shared(index_t n, index_t chunk, index_t chunks, LoopBody body) {
    error_ = nullptr;
    failed_.store(false, std::memory_order_relaxed);
    completed_.store(0, std::memory_order_relaxed);
    body_.store(body.object_, std::memory_order_relaxed);
    call_.store(body.call_, std::memory_order_relaxed);
    n_.store(n, std::memory_order_relaxed);
    chunk_.store(chunk, std::memory_order_relaxed);
    const std::uint64_t loop = loop_.load(std::memory_order_relaxed) + 1;
    const auto threads = shares_.size();
    std::uint64_t first = 0, scaled_end = threads - 1;  // share i ends at (i + 1) * chunks / threads, rounded up
    for (Share& share : shares_) {
      scaled_end += static_cast<std::uint64_t>(chunks);
      const std::uint64_t end = scaled_end / threads;
      if (first == end) continue;  // few chunks: it is empty, as the loop before left it
      share.word.store((loop << (2 * chunk_bits)) | (end << chunk_bits) | first, std::memory_order_release);
      first = end;
    }
    // In one order with the next line, as a worker's two in `worker` are: either it sees the loop, or this sees that it sleeps.
    loop_.store(loop, std::memory_order_seq_cst);
    wake(chunks, sleeping_.load(std::memory_order_seq_cst));
    inside() = true;
    take_all(0);
    inside() = false;
    await(chunks);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  /// Wakes as many sleeping threads as a loop of so many chunks wants, or all if those are most.
  void wake(index_t chunks, int sleeping) {
    const index_t wanted = to_wake(threads(), chunks, sleeping);
    if (wanted == 0) return;
    { const std::lock_guard lock(mutex_); }
    if (2 * wanted > sleeping) return wake_.notify_all();  // one call for all costs less than one for each of most
    for (index_t i = 0; i < wanted; ++i) wake_.notify_one();
  }

  /// What is left of a thread's own share, and then of the others. None grows while its loop lasts, so one round is enough.
  /// Whether there was anything.
  bool take_all(std::size_t own) {
    bool any = false;
    for (std::size_t i = 0; i < shares_.size(); ++i)
      while (take(shares_[(own + i) % shares_.size()].word)) any = true;
    return any;
  }

  bool take(std::atomic<std::uint64_t>& share) {
    std::uint64_t word = share.load(std::memory_order_acquire);
    while (true) {
      const std::uint64_t next = word & mask, end = (word >> chunk_bits) & mask;
      if (next >= end) return false;
      const LoopBody body(body_.load(std::memory_order_relaxed), call_.load(std::memory_order_relaxed));
      const index_t n = n_.load(std::memory_order_relaxed), chunk = chunk_.load(std::memory_order_relaxed);
      if (!share.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      if (!failed_.load(std::memory_order_relaxed)) {
        try {
          const index_t begin = static_cast<index_t>(next) * chunk;
          body(begin, std::min(begin + chunk, n));
        } catch (...) {
          const std::lock_guard lock(mutex_);
          if (!error_) error_ = std::current_exception();
          failed_.store(true, std::memory_order_relaxed);
        }
      }
      const index_t completed = completed_.fetch_add(1, std::memory_order_seq_cst) + 1;
      if (awaited_.load(std::memory_order_seq_cst) && completed == (n + chunk - 1) / chunk) {
        { const std::lock_guard lock(mutex_); }
        done_.notify_one();
      }
      return true;
    }
  }

  // A short wait is cheaper than a sleep. A longer one gives the processor away, for the machine may be shared, and a long one
  // sleeps.
  static constexpr int short_wait = 4000, longer_wait = 4400;
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  /// Waits until so many chunks are done.
  void await(index_t chunks) {
    for (int spins = 0; spins < longer_wait; ++spins) {
      if (completed_.load(std::memory_order_acquire) == chunks) return;
      if (spins < short_wait) pause();
      else std::this_thread::yield();
    }
    std::unique_lock lock(mutex_);
    awaited_.store(true, std::memory_order_seq_cst);
    done_.wait(lock, [&] { return completed_.load(std::memory_order_seq_cst) == chunks; });
    awaited_.store(false, std::memory_order_relaxed);
  }

  void worker(std::size_t own) {
    inside() = true;
    int idle = 0;
    for (std::uint64_t seen = 0; !stop_.load(std::memory_order_acquire);) {
      const std::uint64_t loop = loop_.load(std::memory_order_acquire);
      if (loop != seen) {
        seen = loop;
        if (take_all(own)) idle = 0;
      } else if (++idle < short_wait) {
        pause();
      } else {
        std::unique_lock lock(mutex_);
        sleeping_.fetch_add(1, std::memory_order_seq_cst);
        wake_.wait(lock, [&] { return stop_.load(std::memory_order_acquire) || loop_.load(std::memory_order_seq_cst) != seen; });
        sleeping_.fetch_sub(1, std::memory_order_relaxed);
        idle = short_wait;  // sleeps on if it came too late
      }
    }
  }

  /// Whether the system let all of them begin; otherwise there are fewer.
  bool start(int threads) {
    stop_.store(false, std::memory_order_relaxed);
    try {
      const auto count = static_cast<std::size_t>(threads);
      shares_ = std::vector<Share>(count);
      workers_.reserve(count);
      for (std::size_t own = 1; own < count; ++own) workers_.emplace_back([this, own] { worker(own); });
    } catch (const std::exception&) {  // std::system_error, or without memory std::bad_alloc
    }
    threads_.store(1 + static_cast<int>(workers_.size()), std::memory_order_relaxed);
    return this->threads() >= threads;
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_.store(true, std::memory_order_release);
    }
    wake_.notify_all();
    for (auto& w : workers_) w.join();
    workers_.clear();
  }

  std::atomic<int> threads_{1};
  std::vector<std::thread> workers_;
  std::vector<Share> shares_;
  // What a worker reads of each loop, in one line of the caches.
  alignas(detail::cache_line) std::atomic<std::uint64_t> loop_{0};
  std::atomic<index_t> n_{0}, chunk_{0};
  std::atomic<void*> body_{nullptr};
  std::atomic<LoopBody::Call> call_{nullptr};
  std::atomic<bool> stop_{false}, failed_{false};
  // What they write.
  alignas(detail::cache_line) std::atomic<index_t> completed_{0};
  alignas(detail::cache_line) std::mutex running_, mutex_;
  std::condition_variable wake_, done_;
  std::atomic<int> sleeping_{0};
  std::atomic<bool> awaited_{false};
  std::exception_ptr error_;
};

/// The number of threads that loops are split over: ATTEND_THREADS in the environment, otherwise `available_processors`, or fewer
/// if the system does not let this process have as many. If ATTEND_THREADS is neither empty nor a number from 1 to 1024, this
/// throws ValueError, and Error if the system does not let this process have them; so does all that computes.
inline int threads() { return ThreadPool::instance().threads(); }
/// Sets that number, whatever ATTEND_THREADS says. Not to be called while another thread computes. Throws ValueError unless it is
/// 1 to 1024, and Error if the system does not let this process have as many; there are then as many as before.
inline void set_threads(int n) { ThreadPool::resize(n); }

/// body(begin, end) over parts of [0, n), in parallel. A part has at least `grain` indices (but for the last); choose it so
/// that a part is worth some ten microseconds. The parts' bounds change with the number of threads, so the body must treat
/// each index on its own.
inline void parallel_for(index_t n, index_t grain, LoopBody body) {
  if (n <= 0) return;
  const index_t share = (n + threads() * 2 - 1) / (threads() * 2);
  ThreadPool::instance().run(n, std::max({grain, share, index_t{1}}), body);
}

/// body(row_begin, row_end) over rows of `width` elements each, in parts large enough to be worth a thread.
inline void parallel_rows(index_t rows, index_t width, LoopBody body) {
  constexpr index_t elements = 8192;
  parallel_for(rows, std::max<index_t>(1, elements / std::max<index_t>(1, width)), body);
}

}  // namespace attend
