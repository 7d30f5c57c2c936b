#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "attend/core/error.hpp"
#include "attend/core/precision.hpp"
#include "attend/core/types.hpp"

#if defined(__CUDACC__) || defined(ATTEND_CUDA_EMULATOR)
#include "attend/cuda.hpp"
#define TRANSLATE_WITH_CUDA 1
#endif

namespace translate {

/// The types of a model: what it computes in, and where.
template <class Number, attend::Device Where>
struct Types {
  using T = Number;
  using D = Where;

  /// Waits until all that was begun is done.
  static void wait() {
#if defined(TRANSLATE_WITH_CUDA)
    if constexpr (std::same_as<D, attend::Cuda>) attend::cuda::synchronize();
#endif
  }
};

/// Where a model works and in what numbers, on the command line.
struct Place {
  std::string device = "cpu", precision = "float32";

  void add_to(CLI::App& app, bool only_decoding) {
    const std::string group = "Device";
    app.add_option("--device", device, "Where to compute; cuda: an NVIDIA GPU")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->capture_default_str()
        ->group(group);
    auto* option =
        app.add_option("--precision", precision,
                       only_decoding ? "Of the products. On the CPU float32, bf16 or int8: faster where the processor has "
                                       "instructions for it, slightly other results. On a GPU float32, tf32: its tensor "
                                       "cores, or bf16: all but norms and softmax"
                                     : "On the CPU float32, or bf16: products, which is faster on Intel's processors "
                                       "with AMX and AMD's with AVX512_BF16 alone. On a GPU float32, tf32: products on its "
                                       "tensor cores, or bf16: all but norms, softmax, loss and the optimizer's copies");
    option->capture_default_str()->group(group);
    if (only_decoding) option->check(CLI::IsMember({"float32", "int8", "tf32", "bf16"}));
    else option->check(CLI::IsMember({"float32", "tf32", "bf16"}));
  }

  /// f(Types<T, D>{}) for what was chosen. Throws ValueError for what does not go together, CudaError if there is no GPU.
  template <class F>
  auto with_types(F&& f) const {
    const bool gpu = device == "cuda";
    const auto check = [](bool good, const std::string& what) {  // the program puts its name before it
      if (!good) throw attend::ValueError(what);
    };
    check(gpu || precision != "tf32", "--precision tf32 is for a GPU: add --device cuda");
    check(!gpu || precision != "int8", "--precision int8 is for the CPU");
#if defined(TRANSLATE_WITH_CUDA)
    if (gpu) {
      attend::cuda::Context::instance();  // says what is wrong before any work is done
      attend::cuda::tf32() = precision == "tf32";
      if (precision == "bf16") return f(Types<attend::bfloat16, attend::Cuda>{});
      return f(Types<float, attend::Cuda>{});
    }
#else
    check(!gpu, "this program was built without CUDA: build it with `cmake --workflow --preset cuda`");
#endif
    return f(Types<float, attend::Cpu>{});
  }
  /// What products are to be computed in by a model of `with_types`' numbers.
  [[nodiscard]] attend::Precision products() const {
    if (device == "cpu" && precision == "bf16") return attend::Precision::bf16;
    return precision == "int8" ? attend::Precision::int8 : attend::Precision::full;
  }
};

}  // namespace translate
