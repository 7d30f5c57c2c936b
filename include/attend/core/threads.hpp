#pragma once

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
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

/// Worker threads that stay. A loop is cut into chunks which the workers and the caller take one by one. Which thread takes a
/// chunk never changes a result, because a chunk writes only what belongs to its own indices.
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
  // One word says which loop this is, how many chunks it has and which is next, so that a worker takes a chunk by one
  // compare-and-swap that cannot succeed on a loop that has ended.
  static constexpr int chunk_bits = 20;
  static constexpr index_t max_chunks = (index_t{1} << chunk_bits) - 2;
  static constexpr std::uint64_t mask = (std::uint64_t{1} << chunk_bits) - 1;

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
    const std::uint64_t loop = (state_.load(std::memory_order_relaxed) >> (2 * chunk_bits)) + 1;
    state_.store((loop << (2 * chunk_bits)) | (static_cast<std::uint64_t>(chunks) << chunk_bits), std::memory_order_release);
    if (sleeping_.load(std::memory_order_seq_cst) > 0) {
      { const std::lock_guard lock(mutex_); }
      wake_.notify_all();
    }
    inside() = true;
    while (take()) {
    }
    inside() = false;
    await(chunks);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  bool take() {
    std::uint64_t state = state_.load(std::memory_order_acquire);
    while (true) {
      const std::uint64_t next = state & mask, chunks = (state >> chunk_bits) & mask;
      if (next >= chunks) return false;
      const LoopBody body(body_.load(std::memory_order_relaxed), call_.load(std::memory_order_relaxed));
      const index_t n = n_.load(std::memory_order_relaxed), chunk = chunk_.load(std::memory_order_relaxed);
      if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
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
      const bool last = completed_.fetch_add(1, std::memory_order_seq_cst) + 1 == static_cast<index_t>(chunks);
      if (last && awaited_.load(std::memory_order_seq_cst)) {
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

  [[nodiscard]] bool work_waits() const {
    const std::uint64_t state = state_.load(std::memory_order_seq_cst);
    return (state & mask) < ((state >> chunk_bits) & mask);
  }

  void worker() {
    inside() = true;
    int idle = 0;
    while (!stop_.load(std::memory_order_acquire)) {
      if (take()) {
        idle = 0;
      } else if (++idle < short_wait) {
        pause();
      } else {
        std::unique_lock lock(mutex_);
        sleeping_.fetch_add(1, std::memory_order_seq_cst);
        wake_.wait(lock, [&] { return stop_.load(std::memory_order_acquire) || work_waits(); });
        sleeping_.fetch_sub(1, std::memory_order_relaxed);
        idle = 0;
      }
    }
  }

  /// Whether the system let all of them begin; otherwise there are fewer.
  bool start(int threads) {
    stop_.store(false, std::memory_order_relaxed);
    try {
      workers_.reserve(static_cast<std::size_t>(threads));
      while (1 + static_cast<int>(workers_.size()) < threads) workers_.emplace_back([this] { worker(); });
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
  std::mutex running_, mutex_;
  std::condition_variable wake_, done_;
  std::atomic<int> sleeping_{0};
  std::atomic<bool> stop_{false}, failed_{false}, awaited_{false};
  std::exception_ptr error_;
  std::atomic<std::uint64_t> state_{0};
  std::atomic<index_t> completed_{0}, n_{0}, chunk_{0};
  std::atomic<void*> body_{nullptr};
  std::atomic<LoopBody::Call> call_{nullptr};
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
