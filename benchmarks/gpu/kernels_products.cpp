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
  Tensor<bfloat16, Cuda> inputs;  // of GELU

  /// `out`: as many as the hidden layer has.
  Arrays(index_t r, index_t n, index_t hidden, bool gelu)
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
        dbias(random_numbers<bfloat16>({hidden})),
        inputs({activation_inputs(Cuda{}, r, hidden, gelu)}) {}
};

template <class F>
void activation(const Bench& bench, const std::string& name, bool gelu, const F& f) {
  const index_t rows = bench.sizes.rows, in = bench.sizes.width, out = bench.sizes.hidden;
  const double flops = 2 * static_cast<double>(rows * in * out), once = bytes_of<bfloat16>(rows * in + in * out + rows * out);
  const auto kept = bytes_of<bfloat16>(activation_inputs(Cuda{}, rows, out, gelu));
  const auto make = [=] { return Arrays(rows, in, out, gelu); };
  const auto forward = [gelu](const Arrays& a) {
    return linear_activation_forward(Cuda{}, as_rows(a.x), as_rows(a.weight), a.bias.data(), gelu, as_rows(a.y), a.inputs.data());
  };
  if (forward(make())) {
    bench.measure(name + " by a product", {once + kept, flops}, [&] { return [=, a = make()] { (void)forward(a); }; });
    bench.measure(name + " by a product, backward", {once + kept, flops}, [&] {
      Arrays arrays = make();
      (void)forward(arrays);
      return [gelu, a = std::move(arrays)] {
        linear_backward_input_activation(Cuda{}, as_rows(a.dz), as_rows(a.back), {gelu, a.y.data(), a.inputs.data()},
                                         as_rows(a.dy), a.dbias.data());
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
      if constexpr (DifferentiableFromValue<F, float>)
        map_backward(Cuda{}, a.rows * a.out, detail::SlopeFromValue<F>{f}, a.dy.data(), a.y.data(), {a.dy.data()});
      else map_backward(Cuda{}, a.rows * a.out, detail::Slope<F>{f}, a.dy.data(), a.before.data(), {a.dy.data()});
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
    return [a = Arrays(rows, in, out, false)] {
      linear_backward_weight_bias(Cuda{}, as_rows(a.dy), as_rows(a.x), as_rows(a.weight), false,
                                  kernels::Gradient{a.dbias.data()});
    };
  });
}

}  // namespace gpu
