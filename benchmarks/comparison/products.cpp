// Matrix products of one shape at a time, by attend, by Eigen alone or by OpenBLAS.

#include <dlfcn.h>

#include <functional>
#include <memory>
#include <vector>

#include "attend/core/tensor.hpp"
#include "attend/cpu/packed_matrix.hpp"
#include "parts.hpp"
#include "worker.hpp"

#if __has_include(<Eigen/Core>)
#define COMPARE_WITH_EIGEN
#define EIGEN_DONT_PARALLELIZE  // threads are ours: one thread's share is one single-threaded product
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 calls AVX-512's "undefined" registers, on purpose not initialised, a mistake of whoever uses them.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

using namespace attend;

namespace compare {

namespace {

/// c [m, n] = op(a) op(b), `count` times side by side, all rows contiguous.
struct Problem {
  bool a_transposed, b_transposed;
  index_t m, n, k, count;
};

/// A product of one problem by one library, or all of its products.
using Multiply = std::function<void(const Problem&, const float* a, const float* b, float* c)>;

/// A library, with what it offers.
struct Library {
  Multiply multiply;  ///< empty if it is not there
  bool packs;         ///< whether it copies weights once: attend
  bool batches;       ///< whether one call multiplies all: attend. Otherwise, if there are several, each is a whole thread's.
};

kernels::Matrix<const float> left(const Problem& p, const float* a) { return kernels::stored(p.a_transposed, a, p.m, p.k); }
kernels::Matrix<const float> right(const Problem& p, const float* b) { return kernels::stored(p.b_transposed, b, p.k, p.n); }

void attend_products(const Problem& p, const float* a, const float* b, float* c) {
  gemm_batched<float>(Cpu{}, p.count, {left(p, a), p.m * p.k}, {right(p, b), p.k * p.n}, {{c, p.m, p.n}, p.m * p.n});
}

#ifdef COMPARE_WITH_EIGEN
/// Eigen on one thread, as its documentation has it: rows [begin, end) of c, columns [left, right).
void eigen_part(const Problem& p, index_t begin, index_t end, index_t left, index_t right, const float* a, const float* b,
                float* c) {
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Columns = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  const auto multiply = [&](const auto& op_a, const auto& op_b) {
    Eigen::Map<Rows>(c, p.m, p.n).block(begin, left, end - begin, right - left).noalias() =
        op_a.middleRows(begin, end - begin) * op_b.middleCols(left, right - left);
  };
  const auto with_a = [&](const auto& op_a) {
    if (p.b_transposed) multiply(op_a, Eigen::Map<const Columns>(b, p.k, p.n));
    else multiply(op_a, Eigen::Map<const Rows>(b, p.k, p.n));
  };
  if (p.a_transposed) with_a(Eigen::Map<const Columns>(a, p.m, p.k));
  else with_a(Eigen::Map<const Rows>(a, p.m, p.k));
}

/// An even share of the rows, or of the columns if there are more of them, for each thread.
void eigen_product(const Problem& p, const float* a, const float* b, float* c) {
  const index_t size = std::max(p.m, p.n);
  parallel_for(size, (size + threads() - 1) / threads(), [&](index_t begin, index_t end) {
    if (p.m >= p.n) eigen_part(p, begin, end, 0, p.n, a, b, c);
    else eigen_part(p, 0, p.m, begin, end, a, b, c);
  });
}
#endif

/// Eigen, if it was installed when this was compiled; else empty.
Multiply eigen() {
#ifdef COMPARE_WITH_EIGEN
  return eigen_product;
#else
  return {};
#endif
}

/// OpenBLAS, if the system has it, found when the program runs; else null.
void* openblas_library() {
  for (const char* name : {"libopenblas.so.0", "libopenblas.so", "libopenblas.dylib"})
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

/// Its name for the processor that it takes this one for; "" if there is no OpenBLAS.
std::string openblas_core() {
  void* library = openblas_library();
  const auto name = library ? reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename")) : nullptr;
  return name ? name() : "";
}

/// Its product; else empty.
Multiply openblas() {
  void* library = openblas_library();
  if (!library) return {};
  // The arguments of cblas_sgemm and openblas_set_num_threads, from OpenBLAS's cblas.h.
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  const auto sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  if (!sgemm || !set_threads) return {};
  return [=](const Problem& p, const float* a, const float* b, float* c) {
    constexpr int row_major = 101, plain = 111, transposed = 112;
    set_threads(p.count > 1 ? 1 : threads());
    const auto size = [](index_t n) { return static_cast<int>(n); };
    sgemm(row_major, p.a_transposed ? transposed : plain, p.b_transposed ? transposed : plain, size(p.m), size(p.n), size(p.k),
          1.0f, a, size(left(p, a).stride), b, size(right(p, b).stride), 0.0f, c, size(p.n));
  };
}

Library library(const std::string& name) {
  if (name == "attend") return {attend_products, true, true};
  if (name == "eigen") return {eigen(), false, false};
  if (name == "openblas") return {openblas(), false, false};
  throw ValueError("attend_compare: no library is called " + name);
}

/// Small fractions, so that every sum is exact and all libraries have to agree to the last bit.
Tensor<float> fractions(index_t size, index_t factor, index_t modulus) {
  Tensor<float> x({size});
  for (index_t i = 0; i < size; ++i) x.data()[i] = static_cast<float>((i * factor + 1) % modulus - modulus / 2) / 8;
  return x;
}

double checksum(const Tensor<float>& c) {
  double sum = 0;
  for (index_t i = 0; i < c.size(); ++i) sum += static_cast<double>(c.data()[i]) * static_cast<double>(i % 7 + 1);
  return sum;
}

Json time(const Library& library, const Json& request) {
  const Problem p{request.at("a_transposed"), request.at("b_transposed"), request.at("m"), request.at("n"), request.at("k"),
                  request.at("count")};
  const index_t a_size = p.m * p.k, b_size = p.k * p.n, c_size = p.m * p.n;
  struct Operands {
    Tensor<float> a, b, c;
    std::unique_ptr<kernels::PackedProduct<float>> packed;
  };
  std::vector<Operands> sets;
  for (int i = 0; i < request.at("sets").get<int>(); ++i)
    sets.push_back(
        {fractions(p.count * a_size, 7, 13), fractions(p.count * b_size, 5, 11), Tensor<float>({p.count * c_size}), {}});
  if (library.packs && request.at("weights"))
    for (auto& set : sets) set.packed = pack_matrix<float>(Cpu{}, right(p, set.b.data()));
  const auto call = [&](const Operands& o) {
    if (o.packed) return o.packed->multiply(left(p, o.a.data()), nullptr, {o.c.data(), p.m, p.n});
    if (p.count == 1 || library.batches) return library.multiply(p, o.a.data(), o.b.data(), o.c.data());
    parallel_for(p.count, (p.count + 4 * threads() - 1) / (4 * threads()), [&](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i)
        library.multiply(p, o.a.data() + i * a_size, o.b.data() + i * b_size, o.c.data() + i * c_size);
    });
  };
  const double seconds = request.at("seconds");
  // If another process has just had the machine, its threads may still be spinning: a while that is not counted.
  for (const Stopwatch warm; warm.real() < seconds / 2;)
    for (const auto& set : sets) call(set);
  const Stopwatch watch;
  double calls = 0;
  do {
    for (const auto& set : sets) call(set);
    calls += static_cast<double>(sets.size());
  } while (watch.real() < seconds);
  Json answer = watch.per(calls);
  answer["checksum"] = checksum(sets.back().c);
  return answer;
}

}  // namespace

/// products LIBRARY
void products(Arguments arguments) {
  if (arguments.size() != 1) throw ValueError("attend_compare products: expected LIBRARY");
  const Library chosen = library(arguments[0]);
  Json ready = {{"available", static_cast<bool>(chosen.multiply)}};
  if (arguments[0] == "openblas") ready["core"] = openblas_core();
  serve(ready, [&](const Json& request) -> Json { return time(chosen, request); });
}

}  // namespace compare
