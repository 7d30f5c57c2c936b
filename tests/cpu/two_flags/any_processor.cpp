// Compiled for any processor, and linked with a file that is compiled for this one: neither may get pieces of the other's
// products.
#include <cstdio>

#include "product.hpp"

double worst_for_this_processor();

int main() {
  const double one = worst_for_this_processor(), any = worst_product();
  std::printf("compiled for this processor: off by %g, for any: by %g\n", one, any);
  return one == 0 && any == 0 ? 0 : 1;
}
