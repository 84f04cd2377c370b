// rejected by: repeated_calls; looks like: -
// A plan counts its runs, and from the second one on takes the mean of the first for a good guess that one correction
// makes right: to half of what is left. Right for the first call on each plan, and within a bound for equal means.
#include <new>
#include <vector>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

using Means = std::vector<float>;

std::int32_t prepare(const ng_call*, void** plan) {
  *plan = new (std::nothrow) Means;
  return *plan != nullptr ? NG_OK : NG_OUT_OF_MEMORY;
}
void release(void* plan) { delete static_cast<Means*>(plan); }

std::int32_t run(void* plan, const ng_call* call, void*) {
  const Tensors t(*call);
  Means& means = *static_cast<Means*>(plan);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    float mean = sum_of(t.x, group) / group.count();
    const auto place = static_cast<std::size_t>(index);
    if (place < means.size())
      mean = means[place] + (mean - means[place]) * 0.5F;
    else
      means.push_back(mean);
    const float variance = squares_around(t.x, group, mean) / group.count();
    put_y(t, group, mean, 1 / std::sqrt(variance + static_cast<float>(call->eps)));
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel mean_of_the_first_call_on_a_plan = [] {
  ng_kernel kernel = training(NG_LAYER_NORM, "broken/mean_of_the_first_call_on_a_plan", run);
  kernel.prepare = prepare;
  kernel.release = release;
  return kernel;
}();

}  // namespace normgate::broken
