// The kernels that go over numbers one by one: the bytes that they move, to be set against the rate of a copy.

#include "kernels.hpp"

#include "attend/ops/activations.hpp"
#include "attend/ops/map.hpp"
#include "attend/optim/adam.hpp"
#include "parts.hpp"

using namespace attend;

namespace gpu {

namespace {

struct Square {
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return x * x;
  }
};

}  // namespace

void elements(const Bench& bench) {
  const index_t n = bench.sizes.rows * bench.sizes.width, wide = bench.sizes.rows * bench.sizes.hidden;
  const auto numbers = [](index_t count) { return random_numbers<bfloat16>({count}); };
  const double two = 2 * bytes_of<bfloat16>(n), three = 3 * bytes_of<bfloat16>(n), wide_two = 2 * bytes_of<bfloat16>(wide);

  bench.measure("add_into", {three},
                [&] { return [n, x = numbers(n), y = numbers(n)] { add_into(Cuda{}, n, x.data(), y.data()); }; });
  bench.measure("scale_add", {two},
                [&] { return [n, x = numbers(n), y = numbers(n)] { scale_add(Cuda{}, n, 0.5f, x.data(), 0.0f, y.data()); }; });
  bench.measure("map relu", {wide_two}, [&] {
    return [wide, x = numbers(wide), y = numbers(wide)] { map_forward(Cuda{}, wide, Relu{}, x.data(), y.data()); };
  });
  bench.measure("map relu backward", {1.5 * wide_two}, [&] {
    return [wide, dy = numbers(wide), y = numbers(wide), dx = numbers(wide)] {
      map_backward(Cuda{}, wide, detail::SlopeFromValue<Relu>{Relu{}}, dy.data(), y.data(), {dx.data()});
    };
  });
  bench.measure("map gelu", {wide_two}, [&] {
    return [wide, x = numbers(wide), y = numbers(wide)] { map_forward(Cuda{}, wide, Gelu{}, x.data(), y.data()); };
  });
  bench.measure("dropout", {wide_two}, [&] {
    return [wide, m = mask(), x = numbers(wide), y = numbers(wide)] {
      dropout_apply<bfloat16>(Cuda{}, wide, m, x.data(), {y.data()});
    };
  });
  bench.measure("add_dropout", {three}, [&] {
    return [n, m = mask(), x = numbers(n), branch = numbers(n), y = numbers(n)] {
      add_dropout_forward(Cuda{}, n, m, x.data(), branch.data(), y.data());
    };
  });

  const index_t weights = bench.sizes.weights;
  bench.measure("norm of the gradients", {bytes_of<bfloat16>(weights)}, [&] {
    return [weights, g = numbers(weights), record = Tensor<UpdateRecord, Cuda>({1}, UpdateRecord{})] {
      begin_update(Cuda{}, weights, g.data(), 1.0, record.data());
    };
  });
  // Reads the gradient, reads and writes the values and both moments, writes the values that the model has.
  bench.measure("adam", {2 * bytes_of<bfloat16>(weights) + 6 * bytes_of<float>(weights)}, [&] {
    const Tensor<UpdateRecord, Cuda> record({1}, UpdateRecord{.steps = 1, .taken = true});
    const optim::AdamRule rule{.learning_rate = 1e-5, .l2 = 0, .shrink = 1, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-9};
    const auto value = random_numbers<float>({weights}), first = random_numbers<float>({weights});
    const auto second = random_numbers<float>({weights});
    map_forward(Cuda{}, weights, Square{}, second.data(), second.data());
    return [=, g = numbers(weights), rounded = numbers(weights)] {
      update_by(Cuda{}, weights, rule, record.data(), g.data(), value.data(), rounded.data(), first.data(), second.data());
    };
  });
}

/// kernels [small] [NAME]. Prints {"kernel", "seconds", "bytes", "flops"} for each.
void kernels(Arguments arguments) {
  const bool little = !arguments.empty() && arguments[0] == "small";
  if (little) arguments = arguments.subspan(1);
  seed(1);
  const Bench bench(little ? small : large, arguments.empty() ? std::string() : arguments[0]);
  elements(bench);
  rows(bench);
  attention(bench);
  products(bench);
}

}  // namespace gpu
