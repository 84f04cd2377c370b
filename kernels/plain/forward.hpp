// Forward normalization in plain loops: one definition for all rows of the variant table.
#pragma once

#include <cstdint>

#include "kernels/abi/normgate.h"

namespace normgate::plain {

// What tells the five variants apart: a column each, by axis N G K S.
struct Row {
  ng_variant variant;
  bool reduced[NG_AXES];  // one mean and one variance are taken over these
  bool running[NG_AXES];  // running statistics have these; none: no running statistics
  bool centred;           // the mean is subtracted; else the "variance" is the mean square
};

// nullptr: not one of the five.
const Row* row_of(std::int32_t variant);

// Both want a call that `supports` said yes to; they cannot fail.
void forward_training(const Row& row, const ng_call& call);
void forward_inference(const Row& row, const ng_call& call);

}  // namespace normgate::plain
