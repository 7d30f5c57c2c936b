#pragma once
/// \file
/// Stands in for the CUDA runtime, so that kernels compiled by an ordinary compiler run on the CPU, in tests. Put this folder
/// before all others in the include path; launches go through cudaLaunchKernelEx, and a kernel is written in what g++ and clang++
/// read: shared memory as `static __shared__ T x[n];` or through `attend::cuda::dynamic_shared<T>()`, no inline assembly.
///
/// What a kernel meets (block.hpp, device.hpp, math.hpp)
/// - Blocks run one after the other, each on one system thread, its threads as fibers that run until they must wait for others.
///   A warp goes as far as it can before the next begins. Faults, which the call that waits throws as `emulator::Fault`: a thread
///   that ends while others wait for it, barriers of one block at two places, lanes that meet at different calls or with
///   different masks, writes past dynamic shared memory, `__trap`.
/// - `emulator::set_order`, or ATTEND_EMULATOR_ORDER = forward | reverse | shuffle, says in what order blocks, warps
///   and lanes run. Results that differ by a single bit between these orders are a race: run tests under all three.
/// - Dynamic shared memory begins as bytes 0xff (NaN) in each block, device memory when it is allocated, pinned memory likewise.
/// - `emulator::warp_gather(value)` hands every lane all 32 lanes' values, and `emulator::warp_combine(in, out, together)`
///   has one lane make of them what each gets: for twins of matrix instructions.
///
/// What the host meets (memory.hpp, stream.hpp, event.hpp, graph.hpp, copy.hpp, launch.hpp, query.hpp)
/// - A stream does nothing before somebody waits for it; queries only look. So a missing wait, and pinned memory that is
///   used again too early, show every time. Ordinary memory is copied from at the call and copied to before it returns, as CUDA
///   stages it.
/// - Device memory cannot be touched by the host (SIGSEGV). Under the address sanitizer it can, but there each block's ends
///   are watched.
/// - Parameters of a kernel that are pointers must lead to device or pinned memory. Copies must lie where their kind says.
/// - Launches that hardware refuses are refused with its error; the reason is on stderr (`emulator::Quiet` keeps silent).
/// - Captures refuse what CUDA refuses, and are invalid after it.
/// - `emulator::set_device_memory`, `set_device_count`, `device_memory_in_use`, `launches_run` are there for tests.
///
/// What is not emulated
/// - Static shared memory keeps its values from block to block and is zero in the first; it does not count towards 48 KiB.
/// - Blocks and warps never run at the same time: a block that spins for another one hangs, and a race shows only through
///   the orders.
/// - Registers, `__launch_bounds__`, the weak order of memory, clocks, caches. Alignment of vectors is checked by __ldg and
///   its like; for plain dereferences by the undefined-behaviour sanitizer.
/// - A kernel that follows a pointer to ordinary host memory from within a struct is not noticed.
/// - Fast functions (__expf, rsqrtf, …) are as exact as the C library's, sums of floats are rounded as the CPU rounds them.
/// - A graph runs its work in the order of the calls. Clusters, cooperative launches, managed memory, textures: refused
///   or absent.

#include "emulator/copy.hpp"
#include "emulator/device.hpp"
#include "emulator/event.hpp"
#include "emulator/graph.hpp"
#include "emulator/launch.hpp"
#include "emulator/math.hpp"
#include "emulator/query.hpp"
