// rejected by: threads; looks like: -
// Two threads share a row and run their passes without a barrier in between: the first half of y is written before the
// second thread has read the row for its statistics. Wrong only in place and on several threads; here the threads run
// one after the other, which is one of the orders that may happen.
// ikawrakow/ik_llama.cpp PR#916 (the allocator aliased outputs with inputs).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

void normalize_part(const ng_call& call, const Tensors& t, const Group& group, std::int64_t begin, std::int64_t end) {
  const float mean = sum_of(t.x, group) / group.count();
  const float variance = squares_around(t.x, group, mean) / group.count();
  const float rstd = 1 / std::sqrt(variance + static_cast<float>(call.eps));
  for (std::int64_t i = begin; i < end; ++i) {
    const At at = group.at(i);
    t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
  }
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const std::int64_t half = call->threads > 1 ? group.n / 2 : group.n;
    normalize_part(*call, t, group, 0, half);
    if (half < group.n) normalize_part(*call, t, group, half, group.n);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel in_place_across_threads = [] {
  ng_kernel kernel = training(NG_LAYER_NORM, "broken/in_place_across_threads", run);
  kernel.supported_roles[NG_FORWARD_TRAINING] = affine_roles;
  kernel.in_place = NG_IN_PLACE_Y;
  kernel.max_threads = 4;
  return kernel;
}();

}  // namespace normgate::broken
