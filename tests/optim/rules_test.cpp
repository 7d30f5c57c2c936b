#include <vector>

#include "attend/core/random.hpp"
#include "attend/optim/adam.hpp"
#include "attend/optim/sgd.hpp"
#include "catch.hpp"

using namespace attend;

namespace {

template <class T>
std::vector<T> normals(std::uint64_t stream, index_t n) {
  std::vector<T> x;
  for (index_t i = 0; i < n; ++i) x.push_back(static_cast<T>(Generator::Stream{3, stream}.normal(static_cast<std::uint64_t>(i))));
  return x;
}

}  // namespace

TEMPLATE_TEST_CASE("optimizer steps: an element's bits do not depend on where it stands", "[optimizer]", float, double) {
  using T = TestType;
  const index_t n = 77;
  const std::vector<T> gradient = normals<T>(0, n);
  // Two moments or one, and the value, from element `first` on: what stood within a vector before now stands elsewhere in one.
  const auto stepped = [&](index_t first, int kind) {
    std::vector<T> value = normals<T>(1, n), moment = normals<T>(2, n), second = normals<T>(3, n);
    for (T& v : second) v *= v;
    const index_t count = n - first;
    const T* g = gradient.data() + first;
    const UpdateRecord record{.gradient_scale = 0.7, .steps = 3, .taken = true};
    T* const none = nullptr;
    T *const p = value.data() + first, *const m = moment.data() + first, *const v = second.data() + first;
    if (kind == 0) {
      const optim::AdamRule adam{.learning_rate = 0.004, .l2 = 0.01, .shrink = 0.999, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-9};
      update_by(Cpu{}, count, adam, &record, g, p, none, m, v);
    } else if (kind == 1) {
      update_by(Cpu{}, count, optim::DescentRule{0.013, 0.01}, &record, g, p, none);
    } else {
      update_by(Cpu{}, count, optim::MomentumRule{0.013, 0.01, 0.9, kind == 3}, &record, g, p, none, m);
    }
    return std::vector<std::vector<T>>{value, moment, second};
  };
  for (int kind = 0; kind < 4; ++kind) {
    const auto all = stepped(0, kind);
    for (index_t first = 1; first < 40; ++first) {
      const auto some = stepped(first, kind);
      for (std::size_t a = 0; a < all.size(); ++a)
        for (index_t i = first; i < n; ++i) {
          INFO("kind " << kind << ", array " << a << ", element " << i << ", from " << first);
          REQUIRE(some[a][static_cast<std::size_t>(i)] == all[a][static_cast<std::size_t>(i)]);
        }
    }
  }
}
