// A sound forward beside each piece that is about gradients, so that the differences of a kernel's own forward have
// something to be taken of. In double, which is within the bound of any claim, and by the piece's own convention.
#pragma once

#include <xmmintrin.h>

#include <utility>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {

struct ForwardStatistics {
  double mean = 0;
  double variance = 0;
  double rstd = 0;
};

inline double reciprocal_deviation(double variance, double eps, std::int32_t placement) {
  if (placement == NG_EPS_OUTSIDE) return 1 / (std::sqrt(variance) + eps);
  if (placement == NG_EPS_FLOOR) return 1 / std::sqrt(variance < eps ? eps : variance);
  return 1 / std::sqrt(variance + eps);
}

inline ForwardStatistics statistics_of_group(const ng_call& call, const Tensors& t, const Group& group) {
  const ng_convention& convention = *call.convention;
  const auto n = static_cast<double>(group.n);
  ForwardStatistics s;
  if (call.phase == NG_FORWARD_INFERENCE) {
    if (t.running_var.present()) {
      const double weight = t.running_weight.present() ? static_cast<double>(t.running_weight[At{}]) : 1;
      s.mean = weight == 0 ? 0 : static_cast<double>(t.running_mean.value(group.first, 0)) / weight;
      s.variance = weight == 0 ? 0 : static_cast<double>(t.running_var[group.first]) / weight;
    } else {
      s.mean = static_cast<double>(t.mean.value(group.first, 0));
      s.variance = static_cast<double>(t.stat[group.first]);
    }
    const bool reciprocal = !t.running_var.present() && convention.saved_statistic == NG_SAVED_RSTD;
    s.rstd = reciprocal ? s.variance : reciprocal_deviation(s.variance, call.eps, convention.eps_placement);
    return s;
  }
  if (centred(call)) {
    for (std::int64_t i = 0; i < group.n; ++i) s.mean += static_cast<double>(t.x[group.at(i)]);
    s.mean /= n;
  }
  double squares = 0;
  for (std::int64_t i = 0; i < group.n; ++i) {
    const double d = static_cast<double>(t.x[group.at(i)]) - s.mean;
    squares += d * d;
  }
  const bool n_minus_1 = centred(call) && convention.normalizing_divisor == NG_NORMALIZE_N_MINUS_1;
  const bool stated = n_minus_1 && group.n == 1 && convention.single_count != NG_SINGLE_NAN;
  s.variance = stated ? 0 : squares / (n_minus_1 ? n - 1 : n);
  s.rstd = reciprocal_deviation(s.variance, call.eps, convention.eps_placement);
  return s;
}

inline std::int32_t sound_forward(const ng_call& call) {
  const unsigned state = _mm_getcsr();
  _mm_setcsr(0x1F80);  // whatever the caller has set, as a piece may promise
  const Tensors t(call);
  const ng_convention& convention = *call.convention;
  const double plus = convention.gamma_offset == NG_GAMMA_PLUS_ONE ? 1 : 0;
  for (std::int64_t index = 0; index < group_count(call); ++index) {
    const Group group(call, index);
    if (group.n == 0) continue;
    const ForwardStatistics s = statistics_of_group(call, t, group);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const double gamma = t.gamma.present() ? static_cast<double>(t.gamma[at]) + plus : 1;
      const double hat = (static_cast<double>(t.x[at]) - s.mean) * s.rstd;
      t.y[at] = static_cast<float>(hat * gamma + static_cast<double>(t.beta.value(at, 0)));
    }
    if (call.phase == NG_FORWARD_INFERENCE) continue;
    t.mean.put(group.first, static_cast<float>(s.mean));
    t.stat.put(group.first, static_cast<float>(convention.saved_statistic == NG_SAVED_VARIANCE ? s.variance : s.rstd));
  }
  _mm_setcsr(state);
  return NG_OK;
}

inline constexpr std::uint32_t forwards = 1U << NG_FORWARD_TRAINING | 1U << NG_FORWARD_INFERENCE;
inline bool is_forward(const ng_call* call) { return ((forwards >> call->phase) & 1U) != 0; }

// Piece number `index` of a list, with a forward if it has gradients and none of its own.
template <const ng_kernel* const* pieces, std::size_t index>
ng_kernel with_own_forward() {
  const ng_kernel& piece = *pieces[index];
  ng_kernel kernel = piece;
  const std::uint32_t backwards = piece.phases & (1U << NG_BACKWARD_TRAINING | 1U << NG_BACKWARD_INFERENCE);
  if (backwards == 0 || (piece.phases & forwards) != 0) return kernel;
  if ((backwards & 1U << NG_BACKWARD_TRAINING) != 0) {
    kernel.phases |= 1U << NG_FORWARD_TRAINING;
    kernel.supported_roles[NG_FORWARD_TRAINING] = affine_roles | NG_ROLE_BIT(NG_STAT);
    if (piece.variant != NG_RMS_NORM) kernel.supported_roles[NG_FORWARD_TRAINING] |= NG_ROLE_BIT(NG_MEAN);
  }
  if ((backwards & 1U << NG_BACKWARD_INFERENCE) != 0) kernel.phases |= 1U << NG_FORWARD_INFERENCE;
  if (piece.supports != nullptr)
    kernel.supports = [](const ng_call* call) { return is_forward(call) ? 1 : pieces[index]->supports(call); };
  if (piece.prepare != nullptr)
    kernel.prepare = [](const ng_call* call, void** plan) -> std::int32_t {
      if (!is_forward(call)) return pieces[index]->prepare(call, plan);
      *plan = nullptr;
      return NG_OK;
    };
  if (piece.workspace != nullptr)
    kernel.workspace = [](void* plan, const ng_call* call, std::size_t* bytes, std::size_t* alignment) -> std::int32_t {
      return is_forward(call) ? NG_OK : pieces[index]->workspace(plan, call, bytes, alignment);
    };
  if (piece.release != nullptr)
    kernel.release = [](void* plan) {
      if (plan != nullptr) pieces[index]->release(plan);
    };
  kernel.run = [](void* plan, const ng_call* call, void* workspace) -> std::int32_t {
    return is_forward(call) ? sound_forward(*call) : pieces[index]->run(plan, call, workspace);
  };
  return kernel;
}

}  // namespace normgate::broken
