#pragma once
/// \file
/// A block of threads, run by one system thread. Each thread runs until it has to wait for others; a warp runs as far as it can
/// before the next one begins, so that between two barriers warps are as far apart as they can ever be. If all orders that
/// `set_order` knows give the same bits, no two threads touch the same memory between barriers in a way that matters: each pair
/// of threads runs in both orders between forward and reverse.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "emulator/fault.hpp"
#include "emulator/fiber.hpp"
#include "emulator/types.hpp"

namespace emulator {

/// In what order the blocks of a grid, the warps of a block and the lanes of a warp run.
enum class Order { forward, reverse, shuffle };

inline Order& order_now() {
  static Order order = [] {
    const char* name = std::getenv("ATTEND_EMULATOR_ORDER");
    if (name == nullptr || std::strcmp(name, "forward") == 0) return Order::forward;
    if (std::strcmp(name, "reverse") == 0) return Order::reverse;
    if (std::strcmp(name, "shuffle") == 0) return Order::shuffle;
    throw Fault(std::string("ATTEND_EMULATOR_ORDER is ") + name + ", expected forward, reverse or shuffle");
  }();
  return order;
}
/// Chooses the order for launches that run from now on; at the start it is that of ATTEND_EMULATOR_ORDER, else forward.
inline void set_order(Order order) { order_now() = order; }

/// 0 … count - 1 in the order that is set. A shuffle is another one each time, but the same from run to run.
inline void arrange(std::vector<unsigned>& numbers, std::size_t count) {
  static std::uint64_t random = 1;
  numbers.resize(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  if (order_now() == Order::reverse) std::reverse(numbers.begin(), numbers.end());
  if (order_now() != Order::shuffle) return;
  for (std::size_t left = count; left > 1; --left) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    std::swap(numbers[left - 1], numbers[(random >> 33) % left]);
  }
}

/// Where the thread that runs now stands: what threadIdx and its like refer to.
struct Place {
  uint3 thread{}, block{};
  dim3 block_size, grid_size;
};
inline Place place;

/// A call at which threads wait for each other: its name and where it is written.
struct Meeting {
  const char* name = "";
  const char* file = "";
  int line = 0;

  bool operator==(const Meeting& other) const { return line == other.line && same(name, other.name) && same(file, other.file); }
  std::string text() const { return std::string(name) + " (" + file + ":" + std::to_string(line) + ")"; }

 private:
  // Nearly always one literal.
  static bool same(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }
};

/// The threads of one block and what they wait for.
class Block {
 public:
  /// The block whose threads run now. Throws Fault outside kernels.
  static Block& here() {
    if (current_ == nullptr) throw Fault("a function for kernels was called outside any");
    return *current_;
  }

  /// Runs `call(context)` as each thread of the block at `place`. Throws Fault, or what the kernel threw.
  void run(void (*call)(const void*), const void* context);

  /// Waits for all threads of the block. Returns how many of them gave a predicate that is not 0.
  int barrier(Meeting meeting, int predicate);

  /// Waits for all lanes of `mask`. Then `out` has the value that `in` points to in lane `source`.
  void exchange(Meeting meeting, unsigned mask, const void* in, void* out, std::size_t bytes, int source) {
    wait_for(meeting, mask, {.in = in, .out = out, .bytes = bytes, .source = source});
  }

  /// What one lane makes of what all brought, in `in`, and leaves in `out`, for each of 32 lanes: null for those that are not
  /// there.
  using Together = void (*)(const void* const* in, void* const* out);
  /// Waits for all lanes of `mask`. Then `out` has what `together`, unless that is null, has made of what `in` points to in each.
  void combine(Meeting meeting, unsigned mask, const void* in, void* out, Together together) {
    wait_for(meeting, mask, {.in = in, .out = out, .together = together});
  }

  unsigned lane() const { return running_ % 32; }
  /// The lanes of this warp that have not ended.
  unsigned alive() const { return lanes_of_[running_ / 32].alive; }
  std::size_t size() const { return threads_.size(); }

 private:
  enum class State { ready, at_warp, at_block, ended };
  /// What a lane brings to a meeting, and where what it gets goes.
  struct Brought {
    const void* in = nullptr;
    void* out = nullptr;
    std::size_t bytes = 0;
    int source = -1;
    Together together = nullptr;
  };
  struct Thread {
    State state = State::ready;
    uint3 index{};
    Fiber* fiber = nullptr;
    Meeting meeting;
    int predicate = 0;
    unsigned mask = 0;
    Brought brought;
  };

  /// Lanes of a warp as bits.
  struct Lanes {
    unsigned alive = 0, at_warp = 0, ready = 0;
  };

  static FiberPool& fibers() {
    static thread_local FiberPool pool(&Block::thread_body);
    return pool;
  }
  static void thread_body();
  void prepare(unsigned number);
  void resume(unsigned number);
  int next_lane();
  bool run_warp(unsigned warp);
  void run_threads();
  void wait_for(Meeting meeting, unsigned mask, const Brought& brought);
  void meet(unsigned first, unsigned mask);
  void release();
  void pause();
  [[noreturn]] void stuck() const;
  std::string name_of(unsigned number) const {
    const uint3 at = threads_[number].index;
    return "thread (" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ") of block (" +
           std::to_string(place.block.x) + ", " + std::to_string(place.block.y) + ", " + std::to_string(place.block.z) + ")";
  }

  inline static Block* current_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<Lanes> lanes_of_;  // each warp
  std::vector<unsigned> warps_, lanes_;
  unsigned running_ = 0;
  unsigned warp_ = 0, place_in_lanes_ = 0;  ///< whose lanes run, and where in `lanes_` the next one is looked for
  std::size_t ended_ = 0, at_block_ = 0;
  int counted_ = 0;
  void (*call_)(const void*) = nullptr;
  const void* context_ = nullptr;
  std::exception_ptr failure_;
};

}  // namespace emulator

#include "emulator/block_run.hpp"
