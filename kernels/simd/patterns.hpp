// Access patterns: the ways in which a group's elements can stand in memory. Each computes the same numbers in the same
// order, so that a choice among them changes no bit:
//
//   Element i of a group, in row-major order of its reduced axes, is added to partial sum i mod 16; the partial sums
//   are added as a binary tree, i with i+8, i+4, i+2, i+1. All arithmetic is in double, without fused operations.
//   y is ((x - mean) * rstd) * gamma + beta in double, rounded to float32 once.
//
//   Backward, with xh = (x - mean) * rstd: terms are dy and dy * xh. Those of one channel in a group are added as
//   above, by their position in the channel; times gamma they are the terms of the group's two sums, added as above by
//   the number of the channel in the group, or, where the group is one channel, those sums themselves. A channel's sums
//   over groups are taken one after the other. dx is (dy * gamma - shift) * rstd - (x - mean) * slope, without
//   subtractions in inference, rounded once.
//
// To add a pattern: a file that defines its Pattern and its claim, and an entry in patterns.cpp.
#pragma once

#include <span>

#include "kernels/simd/job.hpp"

namespace normgate::simd {

inline constexpr std::int64_t sum_lanes = 16;
inline constexpr std::int64_t widest = 64;  // groups that a pattern may take at once

// Of neighbouring groups on job.across.
struct GradientSums {
  double* g;  // sums of g = dy * gamma, and of g * xh; of dy and dy * xh where channels are `one`
  double* products;
  // Running sums of dy * xh and dy by dense channel; nullptr: not wanted. Not used where channels are `one`.
  double* dgamma;
  double* dbeta;  // not nullptr where dgamma is not
};
// What dx is made of, by group; `shift` and `slope` are nullptr in inference.
struct GradientScalars {
  const double* mean;
  const double* rstd;
  const double* shift;
  const double* slope;
};

struct Pattern {
  bool (*fits)(const Job& job);
  // Groups taken at once, neighbours on job.across; at most `widest`.
  std::int64_t width;
  // Mean, and sum of the squares of x - mean, of `width` groups; `first` points at the first one. Mean 0 if not
  // centred.
  void (*moments)(const Job& job, const Pointers& first, std::int64_t width, double* mean, double* squares);
  void (*normalize)(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd);
  // The same for the backward phases.
  bool (*fits_backward)(const Job& job);
  void (*sums)(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd,
               const GradientSums& sums);
  void (*gradients)(const Job& job, const Pointers& first, std::int64_t width, const GradientScalars& scalars);
  // What it claims, as ng_promise bits; a kernel claims what all patterns do.
  std::uint64_t promises;
};

extern const Pattern rows;
extern const Pattern planes;
extern const Pattern columns;
extern const Pattern channels;
extern const Pattern strided;

// Whether x, dy, dx, and gamma where each element has its own, are runs of memory on the inner reduced axis.
inline bool runs_backward(const Job& job) {
  const Axis& run = job.reduced[1];
  const bool fixed = job.channels != Channels::per_element || job.base.at[GAMMA] == nullptr;
  return run.contiguous(X) && run.contiguous(DY) && run.contiguous(DX) && (fixed || run.contiguous(GAMMA));
}

// All, in the order in which they are tried; the last one fits everything.
std::span<const Pattern* const> patterns();

// What holds for any pattern that keeps to the order above:
//  - divides_by_n; row_independent and batch_invariant: a group's sums read nothing of other groups, and their order
//    knows neither how many there are nor how they are stored; hence layout_invariant.
//  - scale_covariant: + - * / and sqrt in double, whose range (2^-1074 to 2^1024) is not left by squares of float32
//    differences (2^-298 to 2^258), their sums, or r (2^-129 to 2^149); without range guards each operation scales
//    exactly by powers of two. Backward: terms dy * gamma * xh are from 2^-576 to 2^535, slopes r * r times their mean
//    from 2^-834 to 2^862 (with eps outside the root, r / sqrt(v) for r * r).
//  - ieee_specials: as no finite operand overflows in double, infinities and NaN arise exactly where the definition,
//  read
//    in extended reals and evaluated in this order, has them.
//  - constant_exact, for centred rows: partial sums of n equal float32 values are m*c with m <= n < 2^29, 53 bits,
//    exact; the quotient n*c/n is c; so x - mean = 0 and y = 0*r*gamma + beta = beta.
inline constexpr std::uint64_t promises_of_the_order = NG_DIVIDES_BY_N | NG_ROW_INDEPENDENT | NG_BATCH_INVARIANT |
                                                       NG_LAYOUT_INVARIANT | NG_SCALE_COVARIANT | NG_IEEE_SPECIALS |
                                                       NG_CONSTANT_EXACT;

}  // namespace normgate::simd
