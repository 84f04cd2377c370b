// The gradients of normalization in plain loops. With g = dy*gamma and xh = (x-mean)/D, over a group of n elements:
//
//   dgamma += sum of dy*xh, dbeta += sum of dy, by channel
//   inference, where the statistics are constants: dx = g/D
//   training: dx = (g - sum(g)/n) / D - response * xh * sum(g*xh)/n
//
// sum(g)/n is there for centred rows only, and the last n is the divisor of the variance. `response` is how 1/D answers
// to the variance, -2 D^2 d(1/D)/dv: with eps inside the root 1/D itself.
#include "kernels/plain/backward.hpp"

namespace normgate::plain {

namespace {

struct Statistics {
  float mean = 0;
  float rstd = 0;
  float response = 0;
};

// Outside the root 1/sqrt(v), but 0 at the kink v = 0; a floor answers where v is above it.
float response_to(float variance, float rstd, const Work& work) {
  switch (work.convention.eps_placement) {
    case NG_EPS_OUTSIDE:
      return variance == 0 ? 0 : 1 / std::sqrt(variance);
    case NG_EPS_FLOOR:
      return variance > work.eps ? rstd : 0;
    default:
      return rstd;
  }
}

// The same where 1/D is all that is known: sqrt(v) is 1/rstd - eps, and v is above the floor if 1/rstd^2 is. Fused, so
// that small differences have the right sign and size.
float response_from(float rstd, const Work& work) {
  switch (work.convention.eps_placement) {
    case NG_EPS_OUTSIDE: {
      const float share = std::fma(-work.eps, rstd, 1.0F);  // of sqrt(v) in D
      return share == 0 ? 0 : rstd / share;
    }
    case NG_EPS_FLOOR: {
      const double square = static_cast<double>(rstd) * static_cast<double>(rstd);  // exact
      return std::fma(static_cast<double>(work.eps), square, -1.0) < 0 ? rstd : 0;
    }
    default:
      return rstd;
  }
}

// As the forward computed them, or as it is handed what that saved.
Statistics trained(const Work& work, const Index& origin) {
  if (!work.stat) {
    const Moments moments = moments_of(work, origin);
    const float rstd = reciprocal_deviation(moments.variance, work);
    return {moments.mean, rstd, response_to(moments.variance, rstd, work)};
  }
  const Given given = given_statistics(work, origin);
  const bool variance = work.convention.saved_statistic == NG_SAVED_VARIANCE;
  return {given.mean, given.rstd,
          variance ? response_to(work.stat[origin], given.rstd, work) : response_from(given.rstd, work)};
}

}  // namespace

// Worst error found in training: all of it, since the float32 sum of three equal values is not three times the value:
//   x = 16777210, 16777210, 16777210, eps 1e-05, dy 1, -2, 4
//   dx = -0x1.fffe08p-1 (-0.99998498), -0x1.ffff04p+1 (-3.99996996), 2,
//   by definition 0, -0x1.da5776b403394p+9 (-948.68331), 0x1.da5776b403394p+9 (948.68331)
void backward(const Row& row, const ng_call& call) {
  const Work work(row, call);
  const bool training = call.phase == NG_BACKWARD_TRAINING;
  const Tensor dy(call, NG_DY);
  const Tensor dx(call, NG_DX);
  const Tensor dgamma(call, NG_DGAMMA);
  const Tensor dbeta(call, NG_DBETA);
  const float offset = work.convention.gamma_offset == NG_GAMMA_PLUS_ONE ? 1.0F : 0.0F;
  const auto gamma_at = [&](const Index& at) { return work.gamma ? work.gamma[at] + offset : 1.0F; };

  if (call.accumulate == 0)
    for_each({1, call.extent[NG_G], call.extent[NG_K], 1}, [&](const Index& channel) {
      if (dgamma) dgamma[channel] = 0;
      if (dbeta) dbeta[channel] = 0;
    });

  for_each(work.state, [&](const Index& channel) {
    for_each(work.others, [&](const Index& other) {
      const Index origin = channel + other;
      Statistics s;
      if (training) {
        s = trained(work, origin);
      } else {
        const Given given = given_statistics(work, origin);
        s = {given.mean, given.rstd, 0};
      }
      // All sums before the first dx, which may take the place of dy.
      float sum = 0;       // of g
      float products = 0;  // of g*xh
      for_each(work.group, [&](const Index& i) {
        const Index at = origin + i;
        const float normalized = (work.x[at] - s.mean) * s.rstd;
        const float product = dy[at] * normalized;
        if (dgamma) dgamma[at] += product;
        if (dbeta) dbeta[at] += dy[at];
        sum += dy[at] * gamma_at(at);
        products += product * gamma_at(at);
      });
      if (!training) {
        for_each(work.group, [&](const Index& i) { dx[origin + i] = dy[origin + i] * gamma_at(origin + i) * s.rstd; });
        return;
      }
      const float mean = row.centred ? quotient(sum, work.size) : 0;
      const float slope = s.response * over_degrees(products, work.size, work.n_minus_1, work.convention);
      for_each(work.group, [&](const Index& i) {
        const Index at = origin + i;
        const float normalized = (work.x[at] - s.mean) * s.rstd;
        dx[at] = (dy[at] * gamma_at(at) - mean) * s.rstd - slope * normalized;
      });
    });
  });
}

}  // namespace normgate::plain
