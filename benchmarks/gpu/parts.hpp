#pragma once

#include <span>
#include <string>

/// The parts of the program `attend_gpu_benchmark`, each in a file of its own. `arguments`: what follows its name.
namespace gpu {

using Arguments = std::span<const std::string>;

void ceilings(Arguments arguments);  ///< what the device copies and multiplies at most
void step(Arguments arguments);      ///< training steps
void decode(Arguments arguments);    ///< greedy and beam search
void kernels(Arguments arguments);   ///< the kernels one by one

}  // namespace gpu
