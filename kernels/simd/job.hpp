// A call as the kernels see it: what is computed, with the axes sorted by what is done along them, and merged where the
// strides of all tensors allow it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/abi/normgate.h"

namespace normgate::simd {

// Tensors that are walked through.
enum Operand : std::size_t { X, Y, GAMMA, BETA, MEAN, STAT, RUNNING_MEAN, RUNNING_VAR, OPERANDS };

struct Axis {
  std::int64_t extent = 1;
  std::int64_t stride[OPERANDS] = {};  // 0 for absent tensors, and if the extent is 1
  // Whether neighbours on the axis are neighbours in memory.
  [[nodiscard]] bool contiguous(Operand operand) const { return extent == 1 || stride[operand] == 1; }
  // Whether the axis is a run of memory or the operand does not change along it.
  [[nodiscard]] bool contiguous_or_fixed(Operand operand) const { return contiguous(operand) || stride[operand] == 0; }
};

// Where each operand stands; nullptr: absent.
struct Pointers {
  float* at[OPERANDS] = {};
  [[nodiscard]] Pointers moved(const Axis& axis, std::int64_t steps) const {
    Pointers result = *this;
    for (std::size_t o = 0; o < OPERANDS; ++o)
      if (result.at[o] != nullptr) result.at[o] += axis.stride[o] * steps;
    return result;
  }
};

struct Job {
  const ng_call* call = nullptr;
  const ng_convention* convention = nullptr;
  bool centred = true;
  std::int64_t size = 1;    // elements of a group
  double gamma_offset = 0;  // added to a gamma that is present
  // Groups: `outer` and `across` in any order, each with all `samples` (which share running statistics).
  Axis outer;
  Axis across;  // a pattern may take several neighbours on it at once
  Axis samples;
  // Elements of a group, in row-major order; reduced[1] is the inner axis.
  Axis reduced[2];
  Pointers base;
};

// "" or the reason why the call cannot be served.
const char* refusal(const ng_call& call);

// Wants a call without refusal; cannot fail.
void forward(const ng_call& call);

}  // namespace normgate::simd
