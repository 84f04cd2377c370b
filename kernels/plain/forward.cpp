// Forward normalization in plain loops. Nothing here is clever; it is what the other kernels are compared with when
// they disagree.
#include "kernels/plain/forward.hpp"

namespace normgate::plain {

namespace {

constexpr Row rows[] = {
    // variant             N      G      K      S         running: N    G     K     S       centred
    {NG_BATCH_NORM, {true, false, false, true}, {false, true, true, false}, true},
    {NG_LAYER_NORM, {false, true, true, false}, {false, false, false, false}, true},
    {NG_GROUP_NORM, {false, false, true, true}, {false, false, false, false}, true},
    {NG_INSTANCE_NORM, {false, false, false, true}, {false, true, true, false}, true},
    {NG_RMS_NORM, {false, true, true, false}, {false, false, false, false}, false},
};

// One step of a running statistic.
float updated(float old, float batch, const ng_call& call) {
  const auto m = static_cast<float>(call.momentum);
  switch (call.convention->momentum_form) {
    case NG_MOMENTUM_OLD:
      return m * old + (1 - m) * batch;
    case NG_MOMENTUM_CUMULATIVE:
      return old + quotient(batch - old, call.step);
    case NG_MOMENTUM_ACCUMULATED:
      return m * old + batch;
    default:
      return (1 - m) * old + m * batch;
  }
}

// Worst error found in training: all of it, since the float32 sum of three equal values is not three times the value:
//   x = 16777210, 16777210, 16777210, eps 1e-05
//   gamma -0x1.ece558p+0 (-1.92537451), beta -0x1.8257aep-5 (-0.0471609496)
//   y = 0x1.e0d1f8p+0 (1.87820387), by definition beta
void normalize(const Work& work, const Index& origin, float mean, float rstd) {
  const Tensor y(work.call, NG_Y);
  const Tensor betas(work.call, NG_BETA);
  const float offset = work.convention.gamma_offset == NG_GAMMA_PLUS_ONE ? 1.0F : 0.0F;
  for_each(work.group, [&](const Index& i) {
    const Index at = origin + i;
    const float gamma = work.gamma ? work.gamma[at] + offset : 1.0F;
    const float beta = betas ? betas[at] : 0.0F;
    y[at] = (work.x[at] - mean) * rstd * gamma + beta;
  });
}

}  // namespace

const Row* row_of(std::int32_t variant) {
  for (const Row& row : rows)
    if (row.variant == variant) return &row;
  return nullptr;
}

void forward_training(const Row& row, const ng_call& call) {
  const Work work(row, call);
  const ng_convention& convention = work.convention;
  for_each(work.state, [&](const Index& channel) {
    float sum_of_means = 0;
    float sum_of_variances = 0;
    for_each(work.others, [&](const Index& other) {
      const Index origin = channel + other;
      const Moments moments = moments_of(work, origin);
      const float rstd = reciprocal_deviation(moments.variance, work);
      normalize(work, origin, moments.mean, rstd);
      if (work.mean) work.mean[origin] = moments.mean;
      if (work.stat) work.stat[origin] = convention.saved_statistic == NG_SAVED_VARIANCE ? moments.variance : rstd;
      sum_of_means += moments.mean;
      sum_of_variances +=
          over_degrees(moments.squares, work.size, convention.stored_divisor == NG_STORE_N_MINUS_1, convention);
    });
    // An empty batch leaves the state as it is.
    if (!work.running_mean || work.size == 0 || work.samples == 0) return;
    float& running_mean = work.running_mean[channel];
    running_mean = updated(running_mean, quotient(sum_of_means, work.samples), call);
    const bool kept = work.size == 1 && convention.stored_divisor == NG_STORE_N_MINUS_1 &&
                      convention.single_count == NG_SINGLE_UNCHANGED;
    float& running_var = work.running_var[channel];
    if (!kept) running_var = updated(running_var, quotient(sum_of_variances, work.samples), call);
  });
  const bool any = work.size != 0 && work.samples != 0 && work.channels != 0;
  if (work.running_weight && any) {
    float& weight = work.running_weight[Index{}];
    weight = static_cast<float>(call.momentum) * weight + 1;
  }
}

void forward_inference(const Row& row, const ng_call& call) {
  const Work work(row, call);
  for_each(work.state, [&](const Index& channel) {
    for_each(work.others, [&](const Index& other) {
      const Index origin = channel + other;
      const Given given = given_statistics(work, origin);
      normalize(work, origin, given.mean, given.rstd);
    });
  });
}

}  // namespace normgate::plain
