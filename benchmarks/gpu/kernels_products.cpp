// The first product of a feed-forward block with its activation, and the way back: taken along by the product, or in a kernel of
// its own. What `cuda::fuses_activations` chooses between.

#include "attend/ops/activations.hpp"
#include "kernels.hpp"

using namespace attend;

namespace gpu {

namespace {

struct Arrays {
  index_t rows, in, out;
  Tensor<bfloat16, Cuda> x, weight, bias, y, before, dz, back, dy, dbias;

  /// `out`: as many as the hidden layer has.
  Arrays(index_t r, index_t n, index_t hidden)
      : rows(r),
        in(n),
        out(hidden),
        x(random_numbers<bfloat16>({r, n})),
        weight(random_numbers<bfloat16>({hidden, n})),
        bias(random_numbers<bfloat16>({hidden})),
        y(random_numbers<bfloat16>({r, hidden})),
        before(random_numbers<bfloat16>({r, hidden})),
        dz(random_numbers<bfloat16>({r, n})),
        back(random_numbers<bfloat16>({n, hidden})),
        dy(random_numbers<bfloat16>({r, hidden})),
        dbias(random_numbers<bfloat16>({hidden})) {}
};

/// Calls g with the slope of an activation and with what it is a function of.
template <class F, class G>
void with_slope(const F& f, const Arrays& a, const G& g) {
  if constexpr (DifferentiableFromValue<F, float>) g(detail::SlopeFromValue<F>{f}, a.y);
  else g(detail::Slope<F>{f}, a.before);
}

template <class F>
void activation(const Bench& bench, const std::string& name, bool gelu, const F& f) {
  const index_t rows = bench.sizes.rows, in = bench.sizes.width, out = bench.sizes.hidden;
  const double flops = 2 * static_cast<double>(rows * in * out), once = bytes_of<bfloat16>(rows * in + in * out + rows * out);
  const double kept = gelu ? bytes_of<bfloat16>(rows * out) : 0;
  const auto make = [=] { return Arrays(rows, in, out); };
  const auto forward = [gelu](const Arrays& a) {
    return linear_activation_forward(Cuda{}, as_rows(a.x), as_rows(a.weight), a.bias.data(), gelu, as_rows(a.y), a.before.data());
  };
  if (forward(make())) {
    bench.measure(name + " by a product", {once + kept, flops}, [&] { return [=, a = make()] { (void)forward(a); }; });
    bench.measure(name + " by a product, backward", {once + kept, flops}, [&] {
      Arrays arrays = make();
      (void)forward(arrays);
      return [f, a = std::move(arrays)] {
        with_slope(f, a, [&](const auto& slope, const auto& at) {
          linear_backward_input_activation(Cuda{}, as_rows(a.dz), as_rows(a.back), slope, as_rows(at), as_rows(a.dy),
                                           a.dbias.data());
        });
      };
    });
  }
  bench.measure(name + " after a product", {once, flops}, [&] {
    return [f, a = make()] {
      linear_forward(Cuda{}, as_rows(a.x), as_rows(a.weight), a.bias.data(), as_rows(a.before));
      map_forward(Cuda{}, a.rows * a.out, f, a.before.data(), a.y.data());
    };
  });
  bench.measure(name + " after a product, backward", {once, flops}, [&] {
    return [f, a = make()] {
      linear_backward_input(Cuda{}, as_rows(a.dz), as_rows(a.back), as_rows(a.dy), false);
      with_slope(f, a, [&](const auto& slope, const auto& at) {
        map_backward(Cuda{}, a.rows * a.out, slope, a.dy.data(), at.data(), {a.dy.data()});
      });
      linear_backward_bias(Cuda{}, as_rows(a.dy), kernels::Gradient{a.dbias.data()});
    };
  });
}

}  // namespace

void products(const Bench& bench) {
  cuda::fuse_activations(true);
  activation(bench, "relu", false, Relu{});
  activation(bench, "gelu_tanh", true, GeluTanh{});
  const index_t rows = bench.sizes.rows, in = bench.sizes.width, out = bench.sizes.hidden;
  const double flops = 2 * static_cast<double>(rows * in * out), once = bytes_of<bfloat16>(rows * in + in * out + rows * out);
  bench.measure("gradients of weight and bias", {once, flops}, [=] {
    return [a = Arrays(rows, in, out)] {
      linear_backward_weight_bias(Cuda{}, as_rows(a.dy), as_rows(a.x), as_rows(a.weight), false,
                                  kernels::Gradient{a.dbias.data()});
    };
  });
}

}  // namespace gpu
