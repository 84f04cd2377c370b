// rejected by: accuracy; looks like: -
// A group is made of every G-th channel where it is G consecutive parts of them: right with one group, or with one
// channel per group.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const std::int64_t groups = call->extent[NG_G];
    const std::int64_t channels = call->extent[NG_K];
    const std::int64_t positions = call->extent[NG_S];
    const auto x = [&](std::int64_t i) {
      const std::int64_t c = i / positions * groups + group.first[NG_G];
      return t.x[At{group.first[NG_N], c / channels, c % channels, i % positions}];
    };
    float sum = 0;
    for (std::int64_t i = 0; i < group.n; ++i) sum += x(i);
    const float mean = sum / n;
    float squares = 0;
    for (std::int64_t i = 0; i < group.n; ++i) squares += (x(i) - mean) * (x(i) - mean);
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel channels_of_a_group_interleaved =
    training(NG_GROUP_NORM, "broken/channels_of_a_group_interleaved", run);

}  // namespace normgate::broken
