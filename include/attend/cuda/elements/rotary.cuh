#pragma once

#include <type_traits>

#include "attend/cuda/device/segments.cuh"
#include "attend/cuda/elements/elementwise.cuh"
#include "attend/kernels/rotary.hpp"

namespace attend::cuda {

/// Column c of a row x, turned; `turns`: those of its place.
template <class T>
__device__ T rotary_value(const kernels::RotaryLayout& a, const Wide<T>* turns, Wide<T> sign, const T* x, index_t c) {
  const index_t within = c % a.width, pairs = a.turned / 2;
  if (c >= a.heads * a.width || within >= a.turned) return x[c];
  const bool halves = a.order == RotaryOrder::halves;
  const index_t pair = halves ? within % pairs : within / 2;
  const bool first = halves ? within < pairs : within % 2 == 0;
  const index_t step = halves ? pairs : 1, other = first ? c + step : c - step;
  const Wide<T> sine = (first ? -sign : sign) * turns[pairs + pair];
  return static_cast<T>(static_cast<Wide<T>>(x[c]) * turns[pair] + static_cast<Wide<T>>(x[other]) * sine);
}

/// See kernels::rotary_turn. Block b takes part b % parts of sentence b / parts.
template <class T>
__global__ void __launch_bounds__(block_threads)
    rotary_sentences_kernel(SegmentTables segments, index_t parts, kernels::RotaryLayout a, const Wide<T>* turns, Wide<T> sign,
                            const T* x, T* y) {
  const index_t s = blockIdx.x / parts, i = (blockIdx.x - s * parts) * block_threads + threadIdx.x;
  if (i >= segments.length[s] * a.columns) return;
  const index_t place = i / a.columns, row = (segments.begin[s] + place) * a.columns, c = i - place * a.columns;
  y[row + c] = rotary_value(a, turns + place * a.turned, sign, x + row, c);
}
/// The same where all rows stand at place `place`, or that many after `*step`.
template <class T>
__global__ void __launch_bounds__(block_threads)
    rotary_step_kernel(index_t rows, index_t place, const index_t* step, kernels::RotaryLayout a, const Wide<T>* turns,
                       Wide<T> sign, const T* x, T* y) {
  turns += (place + (step ? *step : 0)) * a.turned;
  for (index_t i = grid_thread(); i < rows * a.columns; i += grid_threads()) {
    const index_t c = i % a.columns;
    y[i] = rotary_value(a, turns, sign, x + (i - c), c);
  }
}

}  // namespace attend::cuda

namespace attend::kernels {

/// See the CPU's.
template <class T>
void rotary_turn(Cuda, const Places& places, index_t rows, const RotaryLayout& layout, const Wide<T>* turns,
                 std::type_identity_t<Wide<T>> sign, const T* x, T* y) {
  if (rows == 0 || layout.columns == 0) return;
  if (!places.sentences) {
    cuda::launch("rotary", cuda::rotary_step_kernel<T>, cuda::blocks_for(rows * layout.columns), cuda::block_threads, 0, rows,
                 places.place, places.step, layout, turns, sign, x, y);
    return;
  }
  const Segments& segments = *places.sentences;
  const index_t parts = cuda::detail::pieces(segments.longest() * layout.columns, index_t{cuda::block_threads});
  if (segments.count() == 0 || parts == 0) return;
  cuda::launch("rotary", cuda::rotary_sentences_kernel<T>, static_cast<unsigned>(segments.count() * parts), cuda::block_threads,
               0, cuda::tables(segments), parts, layout, turns, sign, x, y);
}

}  // namespace attend::kernels
