// Compiled for this processor alone.
#include "product.hpp"

double worst_for_this_processor() { return worst_product(); }
