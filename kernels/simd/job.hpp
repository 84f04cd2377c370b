// A call as the kernels see it: what is computed, with the axes sorted by what is done along them, and merged where the
// strides of all tensors allow it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/abi/normgate.h"

namespace normgate::simd {

// Tensors that are walked through.
enum Operand : std::size_t {
  X,
  Y,
  GAMMA,
  BETA,
  MEAN,
  STAT,
  RUNNING_MEAN,
  RUNNING_VAR,
  DY,
  DX,
  DGAMMA,
  DBETA,
  OPERANDS
};

struct Axis {
  std::int64_t extent = 1;
  std::int64_t stride[OPERANDS] = {};  // 0 for absent tensors, and if the extent is 1
  std::int64_t channel = 0;            // stride of the dense row-major index of G and K; backward only
  // Whether neighbours on the axis are neighbours in memory.
  [[nodiscard]] bool contiguous(Operand operand) const { return extent == 1 || stride[operand] == 1; }
  // Whether the axis is a run of memory or the operand does not change along it.
  [[nodiscard]] bool contiguous_or_fixed(Operand operand) const { return contiguous(operand) || stride[operand] == 0; }
};

// Where each operand stands; nullptr: absent.
struct Pointers {
  float* at[OPERANDS] = {};
  std::int64_t channel = 0;
  [[nodiscard]] Pointers moved(const Axis& axis, std::int64_t steps) const {
    Pointers result = *this;
    for (std::size_t o = 0; o < OPERANDS; ++o)
      if (result.at[o] != nullptr) result.at[o] += axis.stride[o] * steps;
    result.channel += axis.channel * steps;
    return result;
  }
};

// How the elements of a group are spread over channels, which have a gamma, dgamma and dbeta each.
enum class Channels {
  one,          // they share one channel
  per_element,  // each has its own
  per_run       // one for each step on the outer reduced axis
};

struct Job {
  const ng_call* call = nullptr;
  const ng_convention* convention = nullptr;
  bool centred = true;
  Channels channels = Channels::one;
  std::int64_t size = 1;    // elements of a group
  double gamma_offset = 0;  // added to a gamma that is present
  // Groups: `outer` and `across`, each with all `samples` (which share a channel, and running statistics). Where groups
  // share channels otherwise, `outer` and `across` keep the order N G K S.
  Axis outer;
  Axis across;  // a pattern may take several neighbours on it at once
  Axis samples;
  // Elements of a group, in row-major order; reduced[1] is the inner axis.
  Axis reduced[2];
  Pointers base;
};

// Wants a call without refusal (kernels/built_in/manifest.hpp).
Job job_of(const ng_call& call);

// The phases. They want a call without refusal; they cannot fail.
void forward(const ng_call& call);
// `workspace` has workspace_bytes(call) bytes, aligned for double; it may be nullptr if that is 0.
void backward(const ng_call& call, void* workspace);
std::size_t workspace_bytes(const ng_call& call);
void statistics(const ng_call& call);
void merge_statistics(const ng_call& call);

// Which axes a variant reduces.
struct ReducedAxes {
  bool has[NG_AXES];
};
ReducedAxes reduced_axes(std::int32_t variant);

}  // namespace normgate::simd
