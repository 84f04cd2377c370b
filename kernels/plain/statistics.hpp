// Statistics alone, of a part and of the union of parts, in plain loops.
#pragma once

#include "kernels/plain/loops.hpp"

namespace normgate::plain {

// Both want a call that `supports` said yes to; they cannot fail.
void statistics(const Row& row, const ng_call& call);
void merge_statistics(const Row& row, const ng_call& call);

}  // namespace normgate::plain
