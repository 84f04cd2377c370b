// The backward phases: everything that does not depend on the instruction set.
//
//   dx = (g - sum(g)/n) / D - response * xh * sum(g*xh)/n,   g = dy*gamma, xh = (x-mean)/D
//
// sum(g)/n is there for centred rows only, and the last n is the divisor of the variance. `response` is how 1/D answers
// to the variance, -2 D^2 d(1/D)/dv: with eps inside the root 1/D itself.
#include <algorithm>
#include <limits>

#include "kernels/simd/statistics.hpp"

namespace normgate::simd {

namespace {

const Pattern& pattern_for(const Job& job) {
  for (const Pattern* pattern : patterns())
    if (pattern->fits_backward(job)) return *pattern;
  return strided;
}

// Outside the root 1/sqrt(v), but 0 at the kink v = 0; a floor answers where v is above it.
double response_to(double variance, double rstd, const Job& job) {
  switch (job.convention->eps_placement) {
    case NG_EPS_OUTSIDE:
      return variance == 0 ? 0 : 1 / std::sqrt(variance);
    case NG_EPS_FLOOR:
      return variance > job.call->eps ? rstd : 0;
    default:
      return rstd;
  }
}

// The same where 1/D, a float, is all that is known: sqrt(v) is 1/rstd - eps, and v is above the floor if 1/rstd^2 is.
double response_from(double rstd, const Job& job) {
  const double eps = job.call->eps;
  switch (job.convention->eps_placement) {
    case NG_EPS_OUTSIDE: {
      const double share = 1 - eps * rstd;  // of sqrt(v) in D; the product of two floats is exact
      return share == 0 ? 0 : rstd / share;
    }
    case NG_EPS_FLOOR:  // the square is exact, and fused the difference has the right sign
      return std::fma(eps, rstd * rstd, -1.0) < 0 ? rstd : 0;
    default:
      return rstd;
  }
}

class Backward {
 public:
  Backward(const ng_call& call, void* workspace)
      : job_(job_of(call)),
        pattern_(pattern_for(job_)),
        given_(job_),
        training_(call.phase == NG_BACKWARD_TRAINING),
        n_minus_1_(normalizes_by_n_minus_1(job_)) {
    if (workspace_bytes(call) == 0) return;
    const auto channels = static_cast<std::size_t>(call.extent[NG_G] * call.extent[NG_K]);
    dgamma_ = static_cast<double*>(workspace);
    dbeta_ = dgamma_ + channels;
    std::fill(dgamma_, dbeta_ + channels, 0.0);
  }

  void run() {
    for_each_block(job_, pattern_, [&](const Pointers& block, std::int64_t width) {
      double dgamma[widest] = {};
      double dbeta[widest] = {};
      for (std::int64_t s = 0; s < job_.samples.extent && job_.size > 0; ++s) {
        const Pointers first = block.moved(job_.samples, s);
        differentiate(first, width);
        if (job_.channels != Channels::one) continue;
        for (std::int64_t c = 0; c < width; ++c) {
          dgamma[c] += products_[c];
          dbeta[c] += sums_[c];
        }
      }
      if (job_.channels != Channels::one) return;
      for (std::int64_t c = 0; c < width; ++c) {
        if (block.at[DGAMMA] != nullptr) leave(block.at[DGAMMA][c * job_.across.stride[DGAMMA]], dgamma[c]);
        if (block.at[DBETA] != nullptr) leave(block.at[DBETA][c * job_.across.stride[DBETA]], dbeta[c]);
      }
    });
    leave_channels(NG_DGAMMA, dgamma_);
    leave_channels(NG_DBETA, dbeta_);
  }

 private:
  // dx of neighbouring groups; leaves their sums. All of dy that is summed is read before dx, which may take its place.
  void differentiate(const Pointers& first, std::int64_t width) {
    if (training_ && first.at[STAT] == nullptr)
      recompute(first, width);
    else
      given_.read(first, width, mean_, rstd_);
    const bool parameters =
        job_.channels == Channels::one ? first.at[DGAMMA] != nullptr || first.at[DBETA] != nullptr : dgamma_ != nullptr;
    if (training_ || parameters) pattern_.sums(job_, first, width, mean_, rstd_, {sums_, products_, dgamma_, dbeta_});
    if (!training_) {
      pattern_.gradients(job_, first, width, {mean_, rstd_, nullptr, nullptr});
      return;
    }
    if (first.at[STAT] != nullptr) respond_to_handed(first, width);
    for (std::int64_t c = 0; c < width; ++c) {
      const double gamma = gamma_of_sums(first, c);
      shift_[c] = job_.centred ? sums_[c] * gamma / static_cast<double>(job_.size) : 0;
      const double mean_product = over_degrees(products_[c] * gamma, job_.size, n_minus_1_, *job_.convention);
      slope_[c] = response_[c] * rstd_[c] * mean_product;
    }
    pattern_.gradients(job_, first, width, {mean_, rstd_, shift_, slope_});
  }

  void recompute(const Pointers& first, std::int64_t width) {
    pattern_.moments(job_, first, width, mean_, rstd_);
    for (std::int64_t c = 0; c < width; ++c) {
      const double variance = over_degrees(rstd_[c], job_.size, n_minus_1_, *job_.convention);
      rstd_[c] = reciprocal_deviation(variance, job_);
      response_[c] = response_to(variance, rstd_[c], job_);
    }
  }

  void respond_to_handed(const Pointers& first, std::int64_t width) {
    const bool variance = job_.convention->saved_statistic == NG_SAVED_VARIANCE;
    for (std::int64_t c = 0; c < width; ++c) {
      const auto stat = static_cast<double>(first.at[STAT][c * job_.across.stride[STAT]]);
      response_[c] = variance ? response_to(stat, rstd_[c], job_) : response_from(stat, job_);
    }
  }

  // What the pattern's sums still lack.
  [[nodiscard]] double gamma_of_sums(const Pointers& first, std::int64_t c) const {
    if (job_.channels != Channels::one || first.at[GAMMA] == nullptr) return 1;
    const double gamma = static_cast<double>(first.at[GAMMA][c * job_.across.stride[GAMMA]]) + job_.gamma_offset;
    // Where all g are infinite or NaN so is their mean, and no dx is a number; the sum of dy may lead elsewhere.
    return std::isinf(gamma) ? std::numeric_limits<double>::quiet_NaN() : gamma;
  }

  void leave(float& gradient, double sum) const {
    gradient = static_cast<float>(job_.call->accumulate != 0 ? static_cast<double>(gradient) + sum : sum);
  }

  void leave_channels(ng_role role, const double* sums) const {
    const ng_call& call = *job_.call;
    const ng_tensor* tensor = call.tensor[role];
    if (tensor == nullptr || job_.channels == Channels::one) return;
    for (std::int64_t g = 0; g < call.extent[NG_G]; ++g)
      for (std::int64_t k = 0; k < call.extent[NG_K]; ++k)
        leave(static_cast<float*>(tensor->data)[g * tensor->stride[NG_G] + k * tensor->stride[NG_K]],
              sums[g * call.extent[NG_K] + k]);
  }

  const Job job_;
  const Pattern& pattern_;
  const Given given_;
  const bool training_;
  const bool n_minus_1_;
  double* dgamma_ = nullptr;  // by dense channel, over groups; nullptr where channels are `one`, or not wanted
  double* dbeta_ = nullptr;
  // Of the groups at work.
  alignas(64) double mean_[widest] = {};
  alignas(64) double rstd_[widest] = {};
  alignas(64) double response_[widest] = {};
  alignas(64) double sums_[widest] = {};
  alignas(64) double products_[widest] = {};
  alignas(64) double shift_[widest] = {};
  alignas(64) double slope_[widest] = {};
};

}  // namespace

std::size_t workspace_bytes(const ng_call& call) {
  const bool wanted = call.tensor[NG_DGAMMA] != nullptr || call.tensor[NG_DBETA] != nullptr;
  const bool backward = call.phase == NG_BACKWARD_TRAINING || call.phase == NG_BACKWARD_INFERENCE;
  if (!backward || !wanted || job_of(call).channels == Channels::one) return 0;
  return 2 * sizeof(double) * static_cast<std::size_t>(call.extent[NG_G] * call.extent[NG_K]);
}

void backward(const ng_call& call, void* workspace) { Backward(call, workspace).run(); }

}  // namespace normgate::simd
