// Forward normalization in plain loops: float32 throughout, every sum in logical order, one rounding per operation as
// it is written. Nothing here is clever; it is what the other kernels are compared with when they disagree.
//
// To add a variant: a line of `rows`. To add a convention: a case where the convention is asked for.
#include "kernels/plain/forward.hpp"

#include <array>
#include <cmath>
#include <limits>

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

using Index = std::array<std::int64_t, NG_AXES>;

// Calls f(index) for every index below `extent`, in row-major order.
template <typename F>
void for_each(const Index& extent, F f) {
  Index i;
  for (i[NG_N] = 0; i[NG_N] < extent[NG_N]; ++i[NG_N])
    for (i[NG_G] = 0; i[NG_G] < extent[NG_G]; ++i[NG_G])
      for (i[NG_K] = 0; i[NG_K] < extent[NG_K]; ++i[NG_K])
        for (i[NG_S] = 0; i[NG_S] < extent[NG_S]; ++i[NG_S]) f(i);
}

Index operator+(const Index& a, const Index& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]}; }

// A tensor that may be absent. Axes that it does not have carry stride 0, so any index finds its element.
class Tensor {
 public:
  Tensor(const ng_call& call, ng_role role) : tensor_(call.tensor[role]) {}
  explicit operator bool() const { return tensor_ != nullptr; }
  float& operator[](const Index& i) const {
    const std::int64_t* stride = tensor_->stride;
    return static_cast<float*>(
        tensor_->data)[i[0] * stride[0] + i[1] * stride[1] + i[2] * stride[2] + i[3] * stride[3]];
  }

 private:
  const ng_tensor* tensor_;
};

// sum / n, rounded once: in double, since n may exceed the integers that a float holds.
float quotient(float sum, std::int64_t n) { return static_cast<float>(sum / static_cast<double>(n)); }

// Under n-1 a single value has 0/0, or 0 where the convention says so.
float variance_of(float squares, std::int64_t n, bool n_minus_1, const ng_convention& convention) {
  if (n_minus_1 && n == 1 && convention.single_count != NG_SINGLE_NAN) return 0;
  return quotient(squares, n_minus_1 ? n - 1 : n);
}

float reciprocal_deviation(float variance, float eps, const ng_convention& convention) {
  switch (convention.eps_placement) {
    case NG_EPS_OUTSIDE:
      return 1 / (std::sqrt(variance) + eps);
    case NG_EPS_FLOOR:
      return 1 / std::sqrt(variance < eps ? eps : variance);  // in this order: NaN stays NaN
    default:
      return 1 / std::sqrt(variance + eps);
  }
}

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

// A call, with the axes sorted by what is done along them.
struct Work {
  Work(const Row& row, const ng_call& call_)
      : call(call_),
        convention(*call_.convention),
        x(call_, NG_X),
        y(call_, NG_Y),
        gamma(call_, NG_GAMMA),
        beta(call_, NG_BETA),
        mean(call_, NG_MEAN),
        stat(call_, NG_STAT),
        running_mean(call_, NG_RUNNING_MEAN),
        running_var(call_, NG_RUNNING_VAR),
        running_weight(call_, NG_RUNNING_WEIGHT) {
    for (std::size_t a = 0; a < NG_AXES; ++a) {
      const std::int64_t extent = call_.extent[a];
      group[a] = row.reduced[a] ? extent : 1;
      state[a] = row.running[a] ? extent : 1;
      others[a] = row.reduced[a] || row.running[a] ? 1 : extent;
      size *= group[a];
      samples *= others[a];
      channels *= state[a];
    }
  }

  const ng_call& call;
  const ng_convention& convention;
  Index group{};   // the elements of one group
  Index state{};   // what has a running statistic of its own
  Index others{};  // the groups that share it: the samples, for instance_norm
  std::int64_t size = 1;
  std::int64_t samples = 1;
  std::int64_t channels = 1;
  Tensor x, y, gamma, beta, mean, stat, running_mean, running_var, running_weight;
};

// Worst error found in training: all of it, since the float32 sum of three equal values is not three times the value:
//   x = 16777210, 16777210, 16777210, eps 1e-05
//   gamma -0x1.ece558p+0 (-1.92537451), beta -0x1.8257aep-5 (-0.0471609496)
//   y = 0x1.e0d1f8p+0 (1.87820387), by definition beta
void normalize(const Work& work, const Index& origin, float mean, float rstd) {
  const float offset = work.convention.gamma_offset == NG_GAMMA_PLUS_ONE ? 1.0F : 0.0F;
  for_each(work.group, [&](const Index& i) {
    const Index at = origin + i;
    const float gamma = work.gamma ? work.gamma[at] + offset : 1.0F;
    const float beta = work.beta ? work.beta[at] : 0.0F;
    work.y[at] = (work.x[at] - mean) * rstd * gamma + beta;
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
  const auto eps = static_cast<float>(call.eps);
  for_each(work.state, [&](const Index& channel) {
    float sum_of_means = 0;
    float sum_of_variances = 0;
    for_each(work.others, [&](const Index& other) {
      const Index origin = channel + other;
      float mean = 0;
      if (row.centred) {
        float sum = 0;
        for_each(work.group, [&](const Index& i) { sum += work.x[origin + i]; });
        mean = quotient(sum, work.size);  // NaN for no elements
      }
      float squares = 0;
      for_each(work.group, [&](const Index& i) {
        const float d = work.x[origin + i] - mean;
        squares += d * d;
      });
      const bool n_minus_1 = row.centred && convention.normalizing_divisor == NG_NORMALIZE_N_MINUS_1;
      const float variance = work.size == 0 ? std::numeric_limits<float>::quiet_NaN()
                                            : variance_of(squares, work.size, n_minus_1, convention);
      const float rstd = reciprocal_deviation(variance, eps, convention);
      normalize(work, origin, mean, rstd);
      if (work.mean) work.mean[origin] = mean;
      if (work.stat) work.stat[origin] = convention.saved_statistic == NG_SAVED_VARIANCE ? variance : rstd;
      sum_of_means += mean;
      sum_of_variances += variance_of(squares, work.size, convention.stored_divisor == NG_STORE_N_MINUS_1, convention);
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
  const ng_convention& convention = work.convention;
  const auto eps = static_cast<float>(call.eps);
  const bool accumulated = convention.momentum_form == NG_MOMENTUM_ACCUMULATED;
  for_each(work.state, [&](const Index& channel) {
    for_each(work.others, [&](const Index& other) {
      const Index origin = channel + other;
      float mean = 0;
      float rstd = 0;
      if (work.running_mean) {
        mean = work.running_mean[origin];
        float variance = work.running_var[origin];
        if (accumulated) {
          const float weight = work.running_weight[Index{}];
          mean = weight == 0 ? 0 : mean / weight;  // nothing accumulated yet counts as statistics of 0
          variance = weight == 0 ? 0 : variance / weight;
        }
        rstd = reciprocal_deviation(variance, eps, convention);
      } else {
        if (row.centred) mean = work.mean[origin];
        const float stat = work.stat[origin];
        rstd = convention.saved_statistic == NG_SAVED_VARIANCE ? reciprocal_deviation(stat, eps, convention) : stat;
      }
      normalize(work, origin, mean, rstd);
    });
  });
}

}  // namespace normgate::plain
