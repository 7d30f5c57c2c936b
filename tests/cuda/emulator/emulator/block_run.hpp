#pragma once
/// \file
/// How a block runs: the bodies of `Block`.

#include "emulator/block.hpp"

namespace emulator {

inline void Block::thread_body() {
  Block& block = *current_;
  try {
    block.call_(block.context_);
  } catch (...) {
    block.failure_ = std::current_exception();
  }
  block.threads_[block.running_].state = State::ended;
}

inline void Block::run(void (*call)(const void*), const void* context) {
  const dim3 size = place.block_size;
  threads_.resize(std::size_t{size.x} * size.y * size.z);
  unsigned number = 0;
  for (unsigned z = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x, ++number) {
        threads_[number].state = State::ready;
        threads_[number].index = {x, y, z};
        threads_[number].fiber = nullptr;
      }
  lanes_of_.assign((threads_.size() + 31) / 32, Lanes{.alive = 0xffffffffU});
  if (threads_.size() % 32 != 0) lanes_of_.back().alive = (1U << threads_.size() % 32) - 1;
  for (Lanes& lanes : lanes_of_) lanes.ready = lanes.alive;
  ended_ = at_block_ = 0;
  failure_ = nullptr;
  call_ = call;
  context_ = context;
  current_ = this;
  try {
    run_threads();
    current_ = nullptr;
  } catch (...) {
    current_ = nullptr;
    for (Thread& thread : threads_)
      if (thread.fiber != nullptr) {  // it stands in the middle of a kernel that nobody will finish
        thread.fiber->reset();
        fibers().give(thread.fiber);
        thread.fiber = nullptr;
      }
    throw;
  }
}

inline void Block::run_threads() {
  const std::size_t warps = (threads_.size() + 31) / 32;
  while (ended_ < threads_.size()) {
    bool moved = false;
    arrange(warps_, warps);
    for (const unsigned warp : warps_) moved |= run_warp(warp);
    if (at_block_ == threads_.size()) release();
    else if (!moved || (at_block_ != 0 && at_block_ + ended_ == threads_.size())) stuck();
  }
}

inline bool Block::run_warp(unsigned warp) {
  warp_ = warp;
  bool moved = false;
  while (lanes_of_[warp].ready != 0) {
    arrange(lanes_, std::min(std::size_t{32}, threads_.size() - warp * 32));
    place_in_lanes_ = 0;
    for (int lane = next_lane(); lane >= 0; lane = next_lane()) resume(warp * 32 + static_cast<unsigned>(lane));
    moved = true;
  }
  return moved;
}

/// The next lane of this pass that can run, or -1.
inline int Block::next_lane() {
  const unsigned ready = lanes_of_[warp_].ready;
  while (place_in_lanes_ < lanes_.size()) {
    const unsigned lane = lanes_[place_in_lanes_++];
    if ((ready >> lane & 1U) != 0) return static_cast<int>(lane);
  }
  return -1;
}

/// All that a thread needs to run.
inline void Block::prepare(unsigned number) {
  Thread& thread = threads_[number];
  if (thread.fiber == nullptr) thread.fiber = fibers().take();
  lanes_of_[warp_].ready &= ~(1U << number % 32);
  place.thread = thread.index;
  running_ = number;
}

/// Runs a thread, and after it others of its warp, until one of them ends or no other can run in this pass.
inline void Block::resume(unsigned number) {
  prepare(number);
  threads_[number].fiber->enter();
  number = running_;
  Thread& thread = threads_[number];
  if (thread.state != State::ended) return;
  fibers().give(thread.fiber);
  thread.fiber = nullptr;
  ++ended_;
  Lanes& lanes = lanes_of_[warp_];
  lanes.alive &= ~(1U << number % 32);
  if (failure_) std::rethrow_exception(failure_);
  if (lanes.at_warp == 0) return;
  const unsigned first = number / 32 * 32;
  for (unsigned other = first; other < std::min<std::size_t>(first + 32, threads_.size()); ++other)
    if (threads_[other].state == State::at_warp && (threads_[other].mask >> (number - first) & 1U) != 0)
      throw Fault(name_of(number) + " ended, but " + name_of(other) + " waits for it at " + threads_[other].meeting.text());
}

/// The thread that runs stands still, and the next one of its warp goes on.
inline void Block::pause() {
  Fiber& fiber = *threads_[running_].fiber;
  const int lane = next_lane();
  if (lane < 0) return fiber.leave();
  prepare(warp_ * 32 + static_cast<unsigned>(lane));
  fiber.pass_to(*threads_[running_].fiber);
}

inline int Block::barrier(Meeting meeting, int predicate) {
  Thread& thread = threads_[running_];
  thread.meeting = meeting;
  thread.predicate = predicate;
  thread.state = State::at_block;
  ++at_block_;
  pause();
  return counted_;
}

inline void Block::release() {
  counted_ = 0;
  for (unsigned number = 0; number < threads_.size(); ++number) {
    Thread& thread = threads_[number];
    if (!(thread.meeting == threads_[0].meeting))
      throw Fault("threads of a block wait at different barriers: " + name_of(0) + " at " + threads_[0].meeting.text() + ", " +
                  name_of(number) + " at " + thread.meeting.text());
    counted_ += thread.predicate != 0;
    thread.state = State::ready;
  }
  for (Lanes& lanes : lanes_of_) lanes.ready = lanes.alive;
  at_block_ = 0;
}

inline void Block::stuck() const {
  std::string waiting, ended;
  for (unsigned number = 0; number < threads_.size(); ++number) {
    const Thread& thread = threads_[number];
    if (thread.state == State::ended && ended.empty()) ended = name_of(number) + " has ended";
    if (thread.state == State::at_block && waiting.find(thread.meeting.text()) == std::string::npos)
      waiting += name_of(number) + " waits at the block's barrier " + thread.meeting.text() + "; ";
    if (thread.state == State::at_warp && waiting.find(thread.meeting.text()) == std::string::npos)
      waiting += name_of(number) + " waits for lanes of its warp at " + thread.meeting.text() + "; ";
  }
  throw Fault("divergence, no thread can go on: " + waiting + (ended.empty() ? "none has ended" : ended));
}

inline void Block::wait_for(Meeting meeting, unsigned mask, const Brought& brought) {
  Thread& thread = threads_[running_];
  const unsigned first = running_ / 32 * 32;
  thread.meeting = meeting;
  thread.mask = mask;
  thread.brought = brought;
  thread.state = State::at_warp;
  if ((mask >> (running_ - first) & 1U) == 0)
    throw Fault(name_of(running_) + " is not in the mask that it passes to " + meeting.text());
  if ((mask & ~alive()) != 0)
    throw Fault(name_of(running_) + " waits at " + meeting.text() + " for lanes that have ended or never were: mask " +
                std::to_string(mask) + ", alive " + std::to_string(alive()));
  unsigned& here = lanes_of_[first / 32].at_warp;
  here |= 1U << (running_ - first);
  if ((mask & ~here) == 0) {
    here &= ~mask;
    meet(first, mask);
  }
  // The last to come stands still as well: all lanes go on in the order that is set.
  pause();
}

inline void Block::meet(unsigned first, unsigned mask) {
  const Thread& mine = threads_[running_];
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    const Thread& other = threads_[first + lane];
    if (!(other.meeting == mine.meeting) || other.mask != mask || other.brought.bytes != mine.brought.bytes)
      throw Fault("lanes of a warp meet at different calls: " + name_of(running_) + " at " + mine.meeting.text() + ", " +
                  name_of(first + lane) + " at " + other.meeting.text());
    const int source = other.brought.source;
    if (source >= 0 && (mask >> source & 1U) == 0)
      throw Fault(name_of(first + lane) + " reads from lane " + std::to_string(source) + " outside the mask of " +
                  mine.meeting.text());
  }
  const void* in[32] = {};
  void* out[32] = {};
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    Thread& other = threads_[first + lane];
    in[lane] = other.brought.in;
    out[lane] = other.brought.out;
    other.state = State::ready;
  }
  lanes_of_[first / 32].ready |= mask;
  if (mine.brought.together != nullptr) return mine.brought.together(in, out);
  if (mine.brought.bytes == 0) return;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1U) != 0) std::memcpy(out[lane], in[threads_[first + lane].brought.source], mine.brought.bytes);
}

}  // namespace emulator
