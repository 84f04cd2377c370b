// Columns: neighbours in memory belong to different groups, so vectors run across groups. Batch and instance norm with
// channels last, or without positions; layer norm over channels of N C H W tensors.
#include "kernels/simd/patterns.hpp"
#include "kernels/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/columns.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include "kernels/simd/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace normgate::simd {
namespace HWY_NAMESPACE {

HWY_INLINE void add(const float* x, std::int64_t width, double* HWY_RESTRICT sum) {
  std::int64_t c = 0;
  for (; c + lanes <= width; c += lanes)
    hn::Store(hn::Add(hn::Load(Doubles(), sum + c), load(x + c)), Doubles(), sum + c);
  for (; c < width; ++c) sum[c] += static_cast<double>(x[c]);
}

HWY_INLINE void add_squares(const float* x, std::int64_t width, const double* mean, double* HWY_RESTRICT sum) {
  std::int64_t c = 0;
  for (; c + lanes <= width; c += lanes) {
    const Vector d = hn::Sub(load(x + c), hn::Load(Doubles(), mean + c));
    hn::Store(hn::Add(hn::Load(Doubles(), sum + c), hn::Mul(d, d)), Doubles(), sum + c);
  }
  for (; c < width; ++c) {
    const double d = static_cast<double>(x[c]) - mean[c];
    sum[c] += d * d;
  }
}

void columns_moments(const Job& job, const Pointers& first, std::int64_t width, double* mean, double* squares) {
  const Axis& outer = job.reduced[0];
  const Axis& inner = job.reduced[1];
  for (std::int64_t c = 0; c < width; ++c) mean[c] = 0;
  if (job.centred) {
    Sums sums(width);
    std::int64_t element = 0;
    for (std::int64_t o = 0; o < outer.extent; ++o)
      for (std::int64_t i = 0; i < inner.extent; ++i, ++element)
        add(first.at[X] + o * outer.stride[X] + i * inner.stride[X], width, sums.lane[element % sum_lanes]);
    sums.total(width, mean);
    for (std::int64_t c = 0; c < width; ++c) mean[c] /= static_cast<double>(job.size);
  }
  Sums sums(width);
  std::int64_t element = 0;
  for (std::int64_t o = 0; o < outer.extent; ++o)
    for (std::int64_t i = 0; i < inner.extent; ++i, ++element)
      add_squares(first.at[X] + o * outer.stride[X] + i * inner.stride[X], width, mean, sums.lane[element % sum_lanes]);
  sums.total(width, squares);
}

HWY_INLINE void normalize_row(const float* x, float* y, std::int64_t width, const double* mean, const double* rstd,
                              const double* gamma, const double* beta) {
  std::int64_t c = 0;
  for (; c + lanes <= width; c += lanes) {
    const Vector d = hn::Sub(load(x + c), hn::Load(Doubles(), mean + c));
    const Vector scaled = hn::Mul(hn::Mul(d, hn::Load(Doubles(), rstd + c)), hn::Load(Doubles(), gamma + c));
    store(hn::Add(scaled, hn::Load(Doubles(), beta + c)), y + c);
  }
  for (; c < width; ++c)
    y[c] = static_cast<float>((static_cast<double>(x[c]) - mean[c]) * rstd[c] * gamma[c] + beta[c]);
}

// Worst row error found: 0.514 ulp, where the mean is 2^24 times as large as the differences and needs rounding in
// double:
//   x = 16777211, 16777210, 16777210 in the first of two columns, eps 1e-05,
//   gamma -0x1.501574p+0 (-1.31282735), beta 0x1.2afbccp-4 (0.0729940385)
//   y[1] = 0x1.00540ap+0 (1.00128233), by definition 0x1.005408f8a6ebfp+0 (1.00128227)
void columns_normalize(const Job& job, const Pointers& first, std::int64_t width, const double* mean,
                       const double* rstd) {
  const Axis& outer = job.reduced[0];
  const Axis& inner = job.reduced[1];
  HWY_ALIGN double gamma[widest];
  HWY_ALIGN double beta[widest];
  for (std::int64_t c = 0; c < width; ++c) {
    gamma[c] = 1;
    beta[c] = 0;
  }
  const bool along = outer.stride[GAMMA] != 0 || inner.stride[GAMMA] != 0 || outer.stride[BETA] != 0 ||
                     inner.stride[BETA] != 0;  // the parameters change within a group
  bool ready = false;
  for (std::int64_t o = 0; o < outer.extent; ++o)
    for (std::int64_t i = 0; i < inner.extent; ++i) {
      const Pointers p = first.moved(outer, o).moved(inner, i);
      if (along || !ready) {
        if (p.at[GAMMA] != nullptr)
          for (std::int64_t c = 0; c < width; ++c)
            gamma[c] = static_cast<double>(p.at[GAMMA][c * job.across.stride[GAMMA]]) + job.gamma_offset;
        if (p.at[BETA] != nullptr)
          for (std::int64_t c = 0; c < width; ++c)
            beta[c] = static_cast<double>(p.at[BETA][c * job.across.stride[BETA]]);
        ready = true;
      }
      normalize_row(p.at[X], p.at[Y], width, mean, rstd, gamma, beta);
    }
}

// As add_pair, but times gamma, with the terms left in `terms` and `scaled`.
HWY_INLINE void add_pair_of_channel(const float* x, const float* dy, double gamma, std::int64_t width,
                                    const double* mean, const double* rstd, double* HWY_RESTRICT plain,
                                    double* HWY_RESTRICT product, double* HWY_RESTRICT terms,
                                    double* HWY_RESTRICT scaled) {
  const Vector weight = hn::Set(Doubles(), gamma);
  std::int64_t c = 0;
  for (; c + lanes <= width; c += lanes) {
    const Vector d = hn::Sub(load(x + c), hn::Load(Doubles(), mean + c));
    const Vector term = load(dy + c);
    const Vector by_normalized = hn::Mul(term, hn::Mul(d, hn::Load(Doubles(), rstd + c)));
    hn::Store(term, Doubles(), terms + c);
    hn::Store(by_normalized, Doubles(), scaled + c);
    hn::Store(hn::Add(hn::Load(Doubles(), plain + c), hn::Mul(term, weight)), Doubles(), plain + c);
    hn::Store(hn::Add(hn::Load(Doubles(), product + c), hn::Mul(by_normalized, weight)), Doubles(), product + c);
  }
  for (; c < width; ++c) {
    terms[c] = static_cast<double>(dy[c]);
    scaled[c] = terms[c] * ((static_cast<double>(x[c]) - mean[c]) * rstd[c]);
    plain[c] += terms[c] * gamma;
    product[c] += scaled[c] * gamma;
  }
}

// Adds the columns of each row in order to the row's sum. A row is a chain of additions that wait for each other; eight
// chains at a time keep the adders busy.
constexpr std::int64_t chains = 8;
HWY_INLINE void add_rows(const double (*row)[widest], std::int64_t rows, std::int64_t width, double* HWY_RESTRICT sum) {
  if (rows < chains) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < width; ++c) sum[r] += row[r][c];
    return;
  }
  double chain[chains];
  for (std::int64_t r = 0; r < chains; ++r) chain[r] = sum[r];
  for (std::int64_t c = 0; c < width; ++c)
    for (std::int64_t r = 0; r < chains; ++r) chain[r] += row[r][c];
  for (std::int64_t r = 0; r < chains; ++r) sum[r] = chain[r];
}

void columns_sums(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd,
                  const GradientSums& sums) {
  const Axis& outer = job.reduced[0];
  const Axis& inner = job.reduced[1];
  Sums plain(width);
  Sums product(width);
  HWY_ALIGN double terms[chains][widest];
  HWY_ALIGN double scaled[chains][widest];
  std::int64_t held = 0;  // rows of `terms` and `scaled`
  const auto add_held = [&](std::int64_t next) HWY_ATTR {
    if (sums.dgamma != nullptr) {
      add_rows(scaled, held, width, sums.dgamma + first.channel + next - held);
      add_rows(terms, held, width, sums.dbeta + first.channel + next - held);
    }
    held = 0;
  };
  std::int64_t element = 0;
  for (std::int64_t o = 0; o < outer.extent; ++o)
    for (std::int64_t i = 0; i < inner.extent; ++i, ++element) {
      const Pointers p = first.moved(outer, o).moved(inner, i);
      double* plain_lane = plain.lane[element % sum_lanes];
      double* product_lane = product.lane[element % sum_lanes];
      if (job.channels == Channels::one) {
        add_pair(p.at[X], p.at[DY], width, mean, rstd, plain_lane, product_lane);
        continue;
      }
      const double gamma = p.at[GAMMA] != nullptr ? static_cast<double>(*p.at[GAMMA]) + job.gamma_offset : 1;
      add_pair_of_channel(p.at[X], p.at[DY], gamma, width, mean, rstd, plain_lane, product_lane, terms[held],
                          scaled[held]);
      if (++held == chains) add_held(element + 1);
    }
  if (held > 0) add_held(element);
  plain.total(width, sums.g);
  product.total(width, sums.products);
}

// Worst row error found where the statistics are computed here: 0.502 ulp, for a mean 2^24 times as large as the
// differences; with handed ones 0.5.
//   x = 16777208, 16777208, 16777209 in the first of two columns, eps 1e-05,
//   dy 0x1.28ccc8p-1 (0.579687357), -0x1.d7ecd6p-1 (-0.92172879), -0x1.d70416p-11 (-0.000898391649),
//   gamma -0x1.a7dfccp+0 (-1.65575862)
//   dx[0] = -0x1.517fdep+1 (-2.6367147), by definition -0x1.517fdcff39275p+1 (-2.63671458)
void columns_gradients(const Job& job, const Pointers& first, std::int64_t width, const GradientScalars& scalars) {
  const Axis& outer = job.reduced[0];
  const Axis& inner = job.reduced[1];
  HWY_ALIGN double gamma[widest];
  const auto read_gamma = [&](const Pointers& p) HWY_ATTR {
    for (std::int64_t c = 0; c < width; ++c)
      gamma[c] = p.at[GAMMA] == nullptr
                     ? 1
                     : static_cast<double>(p.at[GAMMA][c * job.across.stride[GAMMA]]) + job.gamma_offset;
  };
  read_gamma(first);
  const bool along = first.at[GAMMA] != nullptr && job.channels == Channels::per_element;
  for (std::int64_t o = 0; o < outer.extent; ++o)
    for (std::int64_t i = 0; i < inner.extent; ++i) {
      const Pointers p = first.moved(outer, o).moved(inner, i);
      if (along) read_gamma(p);
      gradients_row(p.at[X], p.at[DY], p.at[DX], width, scalars, gamma);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace normgate::simd {

HWY_EXPORT(columns_moments);
HWY_EXPORT(columns_normalize);
HWY_EXPORT(columns_sums);
HWY_EXPORT(columns_gradients);

namespace {

bool fits(const Job& job) { return job.across.extent > 1 && job.across.contiguous(X) && job.across.contiguous(Y); }
void moments(const Job& job, const Pointers& first, std::int64_t width, double* mean, double* squares) {
  NORMGATE_DISPATCH(columns_moments)(job, first, width, mean, squares);
}
void normalize(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd) {
  NORMGATE_DISPATCH(columns_normalize)(job, first, width, mean, rstd);
}
// Channels that change along both axes are left to others.
bool fits_backward(const Job& job) {
  const Axis& across = job.across;
  const bool alike = job.channels == Channels::one || (job.channels == Channels::per_element && across.channel == 0);
  return alike && across.extent > 1 && across.contiguous(X) && across.contiguous(DY) && across.contiguous(DX);
}
void sums(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd,
          const GradientSums& sums) {
  NORMGATE_DISPATCH(columns_sums)(job, first, width, mean, rstd, sums);
}
void gradients(const Job& job, const Pointers& first, std::int64_t width, const GradientScalars& scalars) {
  NORMGATE_DISPATCH(columns_gradients)(job, first, width, scalars);
}

}  // namespace

// Claim: two passes in double, 16 interleaved sums, centred, 1/sqrt by square root and division; y rounded once.
// Backward: handed statistics in the short form, the same sums, over groups sequential; dx, dgamma and dbeta rounded
// once.
const Pattern columns{fits, widest, moments, normalize, fits_backward, sums, gradients, promises_of_the_order};

}  // namespace normgate::simd
#endif
