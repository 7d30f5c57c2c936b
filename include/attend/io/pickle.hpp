#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attend/io/pickled_tensor.hpp"

/// The pickles that torch.save makes of state dicts. A pickle is a program for a small stack machine, which in Python may call
/// anything. Here nothing is called: the machine knows the few instructions that torch.save writes, and of functions and classes
/// the names that a dict of tensors needs.

namespace attend::io {

/// The tensors of a pickled dict, as they stand in it. Each lies within its storage and has no more elements than that.
/// Nothing is executed: of functions and classes a pickle may name collections.OrderedDict, torch._utils._rebuild_tensor_v2 and
/// _rebuild_parameter, and torch's typed storages. Throws FormatError, which begins with `where`, for all else.
std::vector<PickledTensor> parse_pickle(std::string_view bytes, const std::string& where);

}  // namespace attend::io

#ifndef ATTEND_COMPILED
#include "attend/io/pickle_machine.hpp"
#endif
