// rejected by: running_statistics; looks like: stored divisor n; declared n-1
// The running variance of an instance norm takes in the divisor S: 4/3 too small at four positions, invisible at 4096
// (kakaobrain/trident PR#125).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  const auto momentum = static_cast<float>(call->momentum);
  const std::int64_t samples = call->extent[NG_N];
  const std::int64_t channels = call->extent[NG_G] * call->extent[NG_K];
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    At state{};
    float sum_of_means = 0;
    float sum_of_variances = 0;
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      const Group group(*call, sample * channels + channel);
      state = group.first;
      const float n = group.count();
      const float mean = sum_of(t.x, group) / n;
      const float squares = squares_around(t.x, group, mean);
      const float rstd = 1 / std::sqrt(squares / n + eps);
      sum_of_means += mean;
      sum_of_variances += squares / n;
      for (std::int64_t i = 0; i < group.n; ++i) {
        const At at = group.at(i);
        t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
      }
      t.mean.put(group.first, mean);
      t.stat.put(group.first, rstd);
    }
    if (!t.running_mean.present() || samples == 0 || call->extent[NG_S] == 0) continue;
    state[NG_N] = 0;
    const auto count = static_cast<float>(samples);
    float& running_mean = t.running_mean[state];
    float& running_var = t.running_var[state];
    running_mean = (1 - momentum) * running_mean + momentum * (sum_of_means / count);
    running_var = (1 - momentum) * running_var + momentum * (sum_of_variances / count);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel instance_running_var_biased = [] {
  ng_kernel kernel = training(NG_INSTANCE_NORM, "broken/instance_running_var_biased", run);
  kernel.supported_roles[NG_FORWARD_TRAINING] |= running_roles;
  return kernel;
}();

}  // namespace normgate::broken
