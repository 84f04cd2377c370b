// The second order of the five normalizations, for any scalar type T with + - * / sqrt: the gradient of
// L = <u, dx> + <ddgamma, dgamma> + <ddbeta, dbeta> with the dx, dgamma and dbeta of gradient-inl.h in training. To be
// included by .cpp files of reference/truth only.
//
// In one group, with d = x - mean, g = dy gamma, h = ddgamma dy, P the projection that takes the mean away (nothing,
// where rows are not centred), A = P u, G = P g, H = P h, r = 1/D(v), v = sum d² / N_v:
//
//   L = r sum(A g) + 2 r' sum(u d) sum(g d) / N_v + r sum(h d) + sum(ddbeta dy).
//
// d is P x, so that d(sum(u d))/dx_j = A_j and the like, and dv/dx_j = 2 d_j / N_v. With s = -2 r'/r², and
// 4 r''/r³ = s² (2 + s/r), which all three places of eps have in common (inside s = r and r'' = 3 r⁵/4; outside
// s = 1/sqrt(v) and r'' = r³/(2v) + r²/(4 v^(3/2)); as a floor as inside, or 0):
//
//   a = s sum(u x^)/N_v,  b = s sum(g x^)/N_v,  c = s sum(h x^)/N_v,  q = s sum(A g)/N_v
//   B_i = r A_i - a x^_i                                          dx of gradient-inl.h with u in place of g
//   ddy_i = gamma B_i + ddgamma x^_i + ddbeta,   dgamma = sum of dy_i B_i over the channel
//   dx_j = r (H_j - b A_j - a G_j) + x^_j ((2 + s/r) a b - r q - c).
//
// At the kinks of gradient-inl.h s is 0, and all that has it.
#pragma once

#include "reference/truth/gradient-inl.h"

namespace normgate {

// What all elements of a group share.
template <typename T>
struct SecondOrderScalars {
  T rstd = T(0);
  T curvature = T(0);                       // 2 + s/r
  T of_u = T(0), of_g = T(0), of_h = T(0);  // a, b, c
  T of_products = T(0);                     // q
};

// B of one element.
template <typename T>
T second_order_response(const T& u, const T& normalized, const SecondOrderScalars<T>& group) {
  return group.rstd * u - group.of_u * normalized;
}

// dx of one element, from A, G and H.
template <typename T>
T second_order_input(const T& u, const T& g, const T& h, const T& normalized, const SecondOrderScalars<T>& group) {
  const T linear = group.rstd * (h - group.of_g * u - group.of_u * g);
  const T through_variance = group.curvature * group.of_u * group.of_g - group.rstd * group.of_products - group.of_h;
  return linear + through_variance * normalized;
}

}  // namespace normgate
