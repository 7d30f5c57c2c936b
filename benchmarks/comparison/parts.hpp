#pragma once

#include <span>
#include <string>

/// The parts of the program `attend_compare`, each in a file of its own. `arguments`: what follows its name.
namespace compare {

using Arguments = std::span<const std::string>;

void ceiling(Arguments arguments);    ///< the machine's rate of fused multiply-adds
void weights(Arguments arguments);    ///< initial weights of a network, for both sides
void step(Arguments arguments);       ///< training steps
void translate(Arguments arguments);  ///< greedy and beam search
void products(Arguments arguments);   ///< matrix products of attend, Eigen and OpenBLAS

}  // namespace compare
