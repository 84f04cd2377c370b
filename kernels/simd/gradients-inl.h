// What all patterns' backward halves are made of, for one instruction set. patterns.hpp states the order of operations
// that every function here keeps to.
#if defined(NORMGATE_KERNELS_SIMD_GRADIENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NORMGATE_KERNELS_SIMD_GRADIENTS_INL_H
#undef NORMGATE_KERNELS_SIMD_GRADIENTS_INL_H
#else
#define NORMGATE_KERNELS_SIMD_GRADIENTS_INL_H
#endif

#include <cmath>

#include "kernels/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace normgate::simd {
namespace HWY_NAMESPACE {

// Neighbours of one group, in memory or in a buffer.
struct Piece {
  const float* x = nullptr;
  const float* dy = nullptr;
  const float* gamma = nullptr;  // where it changes with each element; else nullptr
  std::int64_t count = 0;
  std::int64_t index = 0;  // of the first one in its group or run
};

// Calls take(piece) for all elements on two axes in order, with counts that are multiples of 16 but for the last one.
// `direct`: on the inner axis x, dy and, if `with_gamma`, gamma are runs of memory. Long runs are then taken where they
// stand; everything else is packed into a buffer, so that element i meets lane i mod 16 wherever it is.
template <bool direct, bool with_gamma, typename Take>
HWY_INLINE void for_each_piece(const Axis& outer, const Axis& inner, const Pointers& first, const Take& take) {
  if (direct && outer.extent == 1) {
    take(Piece{first.at[X], first.at[DY], with_gamma ? first.at[GAMMA] : nullptr, inner.extent, 0});
    return;
  }
  constexpr std::int64_t room = 16 * sum_lanes;
  float x[room];
  float dy[room];
  float gamma[room];
  Piece packed{x, dy, with_gamma ? gamma : nullptr, 0, 0};
  const auto flush = [&]() HWY_ATTR {
    take(packed);
    packed.index += packed.count;
    packed.count = 0;
  };
  const auto pack = [&](const float* from, std::int64_t stride, std::int64_t count, float* to) HWY_ATTR {
    for (std::int64_t i = 0; i < count; ++i) to[packed.count + i] = from[i * stride];
  };
  for (std::int64_t o = 0; o < outer.extent; ++o) {
    Pointers p = first.moved(outer, o);
    for (std::int64_t left = inner.extent; left > 0;) {
      std::int64_t count = 0;
      if (direct && packed.count == 0 && left >= room) {
        count = left - left % sum_lanes;
        take(Piece{p.at[X], p.at[DY], with_gamma ? p.at[GAMMA] : nullptr, count, packed.index});
        packed.index += count;
      } else {
        count = HWY_MIN(left, room - packed.count);
        pack(p.at[X], inner.stride[X], count, x);
        pack(p.at[DY], inner.stride[DY], count, dy);
        if (with_gamma) pack(p.at[GAMMA], inner.stride[GAMMA], count, gamma);
        packed.count += count;
        if (packed.count == room) flush();
      }
      p = p.moved(inner, count);
      left -= count;
    }
  }
  if (packed.count > 0) flush();
}

// Two sums in 16 lanes: of dy and dy * xh, or of g and g * xh.
struct PairSum {
  HWY_ALIGN double plain[sum_lanes] = {};
  HWY_ALIGN double product[sum_lanes] = {};

  // Elements of one channel.
  HWY_INLINE void add(const Piece& piece, double mean, double rstd) {
    const Vector m = hn::Set(Doubles(), mean);
    const Vector r = hn::Set(Doubles(), rstd);
    Vector plains[vectors];
    Vector products[vectors];
    for (std::int64_t v = 0; v < vectors; ++v) {
      plains[v] = hn::Load(Doubles(), plain + v * lanes);
      products[v] = hn::Load(Doubles(), product + v * lanes);
    }
    std::int64_t i = 0;
    for (; i + sum_lanes <= piece.count; i += sum_lanes)
      for (std::int64_t v = 0; v < vectors; ++v) {
        const Vector dy = load(piece.dy + i + v * lanes);
        const Vector normalized = hn::Mul(hn::Sub(load(piece.x + i + v * lanes), m), r);
        plains[v] = hn::Add(plains[v], dy);
        products[v] = hn::Add(products[v], hn::Mul(dy, normalized));
      }
    for (std::int64_t v = 0; v < vectors; ++v) {
      hn::Store(plains[v], Doubles(), plain + v * lanes);
      hn::Store(products[v], Doubles(), product + v * lanes);
    }
    for (std::int64_t j = 0; i + j < piece.count; ++j) {
      const auto dy = static_cast<double>(piece.dy[i + j]);
      plain[j] += dy;
      product[j] += dy * ((static_cast<double>(piece.x[i + j]) - mean) * rstd);
    }
  }

  // Elements of a channel each: also adds dy * xh to dgamma and dy to dbeta, at the piece's index.
  template <bool with_gamma, bool with_parameters>
  HWY_INLINE void add_each(const Piece& piece, double mean, double rstd, double offset, double* dgamma, double* dbeta) {
    const Vector m = hn::Set(Doubles(), mean);
    const Vector r = hn::Set(Doubles(), rstd);
    const Vector added = hn::Set(Doubles(), offset);
    if (with_parameters) {
      dgamma += piece.index;
      dbeta += piece.index;
    }
    Vector plains[vectors];
    Vector products[vectors];
    for (std::int64_t v = 0; v < vectors; ++v) {
      plains[v] = hn::Load(Doubles(), plain + v * lanes);
      products[v] = hn::Load(Doubles(), product + v * lanes);
    }
    std::int64_t i = 0;
    for (; i + sum_lanes <= piece.count; i += sum_lanes)
      for (std::int64_t v = 0; v < vectors; ++v) {
        const std::int64_t at = i + v * lanes;
        Vector term = load(piece.dy + at);
        Vector scaled = hn::Mul(term, hn::Mul(hn::Sub(load(piece.x + at), m), r));
        if (with_parameters) {
          hn::StoreU(hn::Add(hn::LoadU(Doubles(), dbeta + at), term), Doubles(), dbeta + at);
          hn::StoreU(hn::Add(hn::LoadU(Doubles(), dgamma + at), scaled), Doubles(), dgamma + at);
        }
        if (with_gamma) {
          const Vector gamma = hn::Add(load(piece.gamma + at), added);
          term = hn::Mul(term, gamma);
          scaled = hn::Mul(scaled, gamma);
        }
        plains[v] = hn::Add(plains[v], term);
        products[v] = hn::Add(products[v], scaled);
      }
    for (std::int64_t v = 0; v < vectors; ++v) {
      hn::Store(plains[v], Doubles(), plain + v * lanes);
      hn::Store(products[v], Doubles(), product + v * lanes);
    }
    for (std::int64_t j = 0; i + j < piece.count; ++j) {
      const std::int64_t at = i + j;
      const auto dy = static_cast<double>(piece.dy[at]);
      const double scaled = dy * ((static_cast<double>(piece.x[at]) - mean) * rstd);
      if (with_parameters) {
        dbeta[at] += dy;
        dgamma[at] += scaled;
      }
      const double gamma = with_gamma ? static_cast<double>(piece.gamma[at]) + offset : 1;
      plain[j] += dy * gamma;
      product[j] += scaled * gamma;
    }
  }
};

// The sums of one group. Not inlined: a pattern calls one of few.
template <bool direct>
HWY_INLINE void sums_of_one_channel(const Job& job, const Pointers& first, double mean, double rstd,
                                    const GradientSums& sums) {
  PairSum pair;
  for_each_piece<direct, false>(job.reduced[0], job.reduced[1], first,
                                [&](const Piece& piece) HWY_ATTR { pair.add(piece, mean, rstd); });
  *sums.g = total(pair.plain);
  *sums.products = total(pair.product);
}

template <bool direct, bool with_gamma, bool with_parameters>
HWY_INLINE void sums_of_channels(const Job& job, const Pointers& first, double mean, double rstd,
                                 const GradientSums& sums) {
  PairSum pair;
  double* dgamma = with_parameters ? sums.dgamma + first.channel : nullptr;
  double* dbeta = with_parameters ? sums.dbeta + first.channel : nullptr;
  for_each_piece<direct, with_gamma>(job.reduced[0], job.reduced[1], first, [&](const Piece& piece) HWY_ATTR {
    pair.add_each<with_gamma, with_parameters>(piece, mean, rstd, job.gamma_offset, dgamma, dbeta);
  });
  *sums.g = total(pair.plain);
  *sums.products = total(pair.product);
}

template <bool direct>
HWY_INLINE void sums_of_runs(const Job& job, const Pointers& first, double mean, double rstd,
                             const GradientSums& sums) {
  PairSum group;
  for (std::int64_t k = 0; k < job.reduced[0].extent; ++k) {
    const Pointers p = first.moved(job.reduced[0], k);
    PairSum pair;
    for_each_piece<direct, false>(Axis{}, job.reduced[1], p,
                                  [&](const Piece& piece) HWY_ATTR { pair.add(piece, mean, rstd); });
    const double plain = total(pair.plain);
    const double product = total(pair.product);
    if (sums.dgamma != nullptr) {
      sums.dgamma[p.channel] += product;
      sums.dbeta[p.channel] += plain;
    }
    const double gamma = p.at[GAMMA] != nullptr ? static_cast<double>(*p.at[GAMMA]) + job.gamma_offset : 1;
    if (std::isinf(gamma)) {
      // Terms of both signs, or zero, have no sum, while plain * gamma would be infinite.
      for_each_piece<direct, false>(Axis{}, job.reduced[1], p, [&](const Piece& piece) HWY_ATTR {
        for (std::int64_t i = 0; i < piece.count; ++i) {
          const double g = static_cast<double>(piece.dy[i]) * gamma;
          group.plain[0] += g;
          group.product[0] += g * ((static_cast<double>(piece.x[i]) - mean) * rstd);
        }
      });
      continue;
    }
    group.plain[k % sum_lanes] += plain * gamma;
    group.product[k % sum_lanes] += product * gamma;
  }
  *sums.g = total(group.plain);
  *sums.products = total(group.product);
}

template <bool direct>
HWY_INLINE void sums_of_group(const Job& job, const Pointers& first, double mean, double rstd,
                              const GradientSums& sums) {
  const bool with_gamma = first.at[GAMMA] != nullptr;
  const bool with_parameters = sums.dgamma != nullptr;
  switch (job.channels) {
    case Channels::one:
      sums_of_one_channel<direct>(job, first, mean, rstd, sums);
      break;
    case Channels::per_run:
      sums_of_runs<direct>(job, first, mean, rstd, sums);
      break;
    case Channels::per_element:
      if (with_gamma && with_parameters)
        sums_of_channels<direct, true, true>(job, first, mean, rstd, sums);
      else if (with_gamma)
        sums_of_channels<direct, true, false>(job, first, mean, rstd, sums);
      else if (with_parameters)
        sums_of_channels<direct, false, true>(job, first, mean, rstd, sums);
      else
        sums_of_channels<direct, false, false>(job, first, mean, rstd, sums);
      break;
  }
}

// dx of `count` neighbours of one group; dx may be dy.
template <bool gamma_varies, bool training>
HWY_INLINE void gradients_as(const float* x, const float* dy, float* dx, std::int64_t count,
                             const GradientScalars& scalars, const Along& gamma) {
  const double mean = *scalars.mean;
  const double rstd = *scalars.rstd;
  const double shift = training ? *scalars.shift : 0;
  const double slope = training ? *scalars.slope : 0;
  const Vector r = hn::Set(Doubles(), rstd);
  const Vector m = hn::Set(Doubles(), mean);
  const Vector subtracted = hn::Set(Doubles(), shift);
  const Vector s = hn::Set(Doubles(), slope);
  const Vector fixed_gamma = hn::Set(Doubles(), gamma.value);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    Vector g = hn::Mul(load(dy + i), gamma_varies ? gamma.vector(i) : fixed_gamma);
    if (training)
      g = hn::Sub(hn::Mul(hn::Sub(g, subtracted), r), hn::Mul(hn::Sub(load(x + i), m), s));
    else
      g = hn::Mul(g, r);
    store(g, dx + i);
  }
  for (; i < count; ++i) {
    const double g = static_cast<double>(dy[i]) * gamma.scalar(i);
    dx[i] = static_cast<float>(training ? (g - shift) * rstd - (static_cast<double>(x[i]) - mean) * slope : g * rstd);
  }
}

HWY_INLINE void gradients_of_run(const float* x, const float* dy, float* dx, std::int64_t count,
                                 const GradientScalars& scalars, const Along& gamma) {
  if (scalars.slope != nullptr) {
    if (gamma.values != nullptr)
      gradients_as<true, true>(x, dy, dx, count, scalars, gamma);
    else
      gradients_as<false, true>(x, dy, dx, count, scalars, gamma);
  } else {
    if (gamma.values != nullptr)
      gradients_as<true, false>(x, dy, dx, count, scalars, gamma);
    else
      gradients_as<false, false>(x, dy, dx, count, scalars, gamma);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::simd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
