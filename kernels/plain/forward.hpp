// Forward normalization in plain loops: one definition for all rows of the variant table.
#pragma once

#include "kernels/plain/loops.hpp"

namespace normgate::plain {

// Both want a call that `supports` said yes to; they cannot fail.
void forward_training(const Row& row, const ng_call& call);
void forward_inference(const Row& row, const ng_call& call);

}  // namespace normgate::plain
