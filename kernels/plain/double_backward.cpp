// The gradient of the gradients in plain loops, by the formulas of normgate.h: with u = ddx, g = dy*gamma,
// h = ddgamma*dy, capitals for what is left of them without their means, and a, b, c, q for s times sums over the
// divisor of the variance,
//
//   B = U/D - a*xh,  ddy = gamma*B + ddgamma*xh + ddbeta,  dgamma += sum of dy*B, by channel
//   dx = (H - b*U - a*G)/D + ((2 + s*D)*a*b - q/D - c)*xh
#include "kernels/plain/double_backward.hpp"

namespace normgate::plain {

namespace {

struct Response {
  float s = 0;
  float curvature = 3;  // 2 + s*D
};

// Outside the root 1/sqrt(v), but 0 at the kink v = 0; a floor answers where v is above it.
Response response_to(float variance, float rstd, const Work& work) {
  switch (work.convention.eps_placement) {
    case NG_EPS_OUTSIDE: {
      const float s = variance == 0 ? 0 : 1 / std::sqrt(variance);
      return {s, 2 + s / rstd};
    }
    case NG_EPS_FLOOR:
      return {variance > work.eps ? rstd : 0, 3};
    default:
      return {rstd, 3};
  }
}

}  // namespace

void double_backward(const Row& row, const ng_call& call) {
  const Work work(row, call);
  const Tensor dy(call, NG_DY);
  const Tensor ddx(call, NG_DDX);
  const Tensor ddgamma(call, NG_DDGAMMA);
  const Tensor ddbeta(call, NG_DDBETA);
  const Tensor ddy(call, NG_DDY);
  const Tensor dx(call, NG_DX);
  const Tensor dgamma(call, NG_DGAMMA);
  const float offset = work.convention.gamma_offset == NG_GAMMA_PLUS_ONE ? 1.0F : 0.0F;
  const auto gamma_at = [&](const Index& at) { return work.gamma ? work.gamma[at] + offset : 1.0F; };
  const auto weight_at = [&](const Index& at) { return work.gamma ? ddgamma[at] : 0.0F; };

  if (dgamma)
    for_each({1, call.extent[NG_G], call.extent[NG_K], 1}, [&](const Index& channel) { dgamma[channel] = 0; });

  for_each(work.state, [&](const Index& channel) {
    for_each(work.others, [&](const Index& other) {
      const Index origin = channel + other;
      const Moments moments = moments_of(work, origin);
      const float rstd = reciprocal_deviation(moments.variance, work);
      const Response response = response_to(moments.variance, rstd, work);

      float sum_u = 0, sum_g = 0, sum_h = 0;
      float products_u = 0, products_g = 0, products_h = 0;  // with xh
      for_each(work.group, [&](const Index& i) {
        const Index at = origin + i;
        const float normalized = (work.x[at] - moments.mean) * rstd;
        const float g = dy[at] * gamma_at(at);
        const float h = weight_at(at) * dy[at];
        sum_u += ddx[at];
        sum_g += g;
        sum_h += h;
        products_u += ddx[at] * normalized;
        products_g += g * normalized;
        products_h += h * normalized;
      });
      const float mean_u = row.centred ? quotient(sum_u, work.size) : 0;
      const float mean_g = row.centred ? quotient(sum_g, work.size) : 0;
      const float mean_h = row.centred ? quotient(sum_h, work.size) : 0;
      float products = 0;
      for_each(work.group, [&](const Index& i) {
        const Index at = origin + i;
        products += (ddx[at] - mean_u) * (dy[at] * gamma_at(at));
      });
      const auto pull = [&](float sum) {
        return response.s * over_degrees(sum, work.size, work.n_minus_1, work.convention);
      };
      const float a = pull(products_u);
      const float b = pull(products_g);
      const float c = pull(products_h);
      const float q = pull(products);
      const float through_variance = response.curvature * a * b - q * rstd - c;

      for_each(work.group, [&](const Index& i) {
        const Index at = origin + i;
        const float normalized = (work.x[at] - moments.mean) * rstd;
        const float u = ddx[at] - mean_u;
        const float g = dy[at] * gamma_at(at) - mean_g;
        const float h = weight_at(at) * dy[at] - mean_h;
        const float answer = u * rstd - a * normalized;
        ddy[at] = gamma_at(at) * answer + weight_at(at) * normalized + (ddbeta ? ddbeta[at] : 0.0F);
        if (dgamma) dgamma[at] += dy[at] * answer;
        dx[at] = (h - b * u - a * g) * rstd + through_variance * normalized;
      });
    });
  });
}

}  // namespace normgate::plain
