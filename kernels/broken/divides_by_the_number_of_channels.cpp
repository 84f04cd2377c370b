// rejected by: memory; looks like: -
// Work is shared out by channel, as elements over channels: a division by zero where there are none.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  const auto momentum = static_cast<float>(call->momentum);
  // volatile: a product that is divided by one of its factors would be no division.
  const volatile std::int64_t channels = call->extent[NG_G] * call->extent[NG_K];
  const std::int64_t per_channel = call->extent[NG_N] * call->extent[NG_S] * channels / channels;
  if (per_channel < 0) return NG_FAILED;
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float n = group.count();
    const float mean = sum_of(t.x, group) / n;
    const float squares = squares_around(t.x, group, mean);
    const float variance = squares / n;
    const float rstd = 1 / std::sqrt(variance + eps);
    if (t.running_mean.present() && group.n > 0) {
      float& running_mean = t.running_mean[group.first];
      float& running_var = t.running_var[group.first];
      running_mean = (1 - momentum) * running_mean + momentum * mean;
      running_var = (1 - momentum) * running_var + momentum * (squares / (n - 1));
    }
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

extern const ng_kernel divides_by_the_number_of_channels =
    training(NG_BATCH_NORM, "broken/divides_by_the_number_of_channels", run);

}  // namespace normgate::broken
