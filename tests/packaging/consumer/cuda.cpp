// Not to be compiled: what a compiler without CUDA says of it is tested.
#include "attend/cuda.hpp"
