// The gradient of the gradients in plain loops: one definition for all rows of the variant table.
#pragma once

#include "kernels/plain/loops.hpp"

namespace normgate::plain {

// Wants a call that `supports` said yes to; cannot fail.
void double_backward(const Row& row, const ng_call& call);

}  // namespace normgate::plain
