// Channels: neighbours in memory are the channels of a group, and the positions of each are spread. Group norm with
// channels last, backward; its statistics, summed over positions first, are left to the strided pattern.
#include <cmath>

#include "kernels/simd/patterns.hpp"
#include "kernels/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/channels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include "kernels/simd/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace normgate::simd {
namespace HWY_NAMESPACE {

// Whether the channels of neighbouring groups are neighbours too.
HWY_INLINE bool adjacent(const Job& job) {
  const std::int64_t channels = job.reduced[0].extent;
  const auto follows = [&](Operand operand) { return job.across.stride[operand] == channels; };
  return job.across.channel == channels && follows(X) && follows(DY) && follows(DX);
}

// Columns that are neighbours in memory: channels of a group, and perhaps of those that follow.
struct Block {
  Pointers p;  // of the first column
  std::int64_t group;
  std::int64_t channel;
  std::int64_t count;  // of columns, at most `widest`
};

template <typename Take>
HWY_INLINE void for_each_block(const Job& job, const Pointers& first, std::int64_t width, const Take& take) {
  const Axis& channels = job.reduced[0];
  const std::int64_t together = adjacent(job) ? width : 1;
  const std::int64_t columns = together * channels.extent;
  for (std::int64_t group = 0; group < width; group += together)
    for (std::int64_t column = 0; column < columns; column += widest) {
      const std::int64_t inside = group + column / channels.extent;
      const std::int64_t channel = column % channels.extent;
      take(Block{first.moved(job.across, inside).moved(channels, channel), inside, channel,
                 HWY_MIN(widest, columns - column)});
    }
}

// Calls take(c, p, group, channel) for the columns of a block.
template <typename Take>
HWY_INLINE void for_each_column(const Job& job, const Block& block, const Take& take) {
  const Axis& channels = job.reduced[0];
  Pointers p = block.p;
  std::int64_t group = block.group;
  std::int64_t channel = block.channel;
  for (std::int64_t c = 0; c < block.count; ++c) {
    take(c, p, group, channel);
    if (++channel < channels.extent) {
      p = p.moved(channels, 1);
    } else {
      p = p.moved(channels, 1 - channel).moved(job.across, 1);
      channel = 0;
      ++group;
    }
  }
}

HWY_INLINE double gamma_at(const Job& job, const Pointers& p) {
  return p.at[GAMMA] != nullptr ? static_cast<double>(*p.at[GAMMA]) + job.gamma_offset : 1;
}

// Adds a block's channels to the parameters' sums, and to the lanes of their groups.
HWY_INLINE void add_block(const Job& job, const Block& block, const double* mean, const double* rstd,
                          const GradientSums& sums, Sums& plain_of_groups, Sums& product_of_groups) {
  const Axis& positions = job.reduced[1];
  HWY_ALIGN double means[widest];
  HWY_ALIGN double rstds[widest];
  for_each_column(job, block, [&](std::int64_t c, const Pointers&, std::int64_t group, std::int64_t) HWY_ATTR {
    means[c] = mean[group];
    rstds[c] = rstd[group];
  });
  Sums plain(block.count);
  Sums product(block.count);
  for (std::int64_t s = 0; s < positions.extent; ++s)
    add_pair(block.p.at[X] + s * positions.stride[X], block.p.at[DY] + s * positions.stride[DY], block.count, means,
             rstds, plain.lane[s % sum_lanes], product.lane[s % sum_lanes]);
  double plains[widest];
  double products[widest];
  plain.total(block.count, plains);
  product.total(block.count, products);
  for_each_column(
      job, block, [&](std::int64_t c, const Pointers& p, std::int64_t group, std::int64_t channel) HWY_ATTR {
        if (sums.dgamma != nullptr) {
          sums.dgamma[p.channel] += products[c];
          sums.dbeta[p.channel] += plains[c];
        }
        double& plain_of_group = plain_of_groups.lane[channel % sum_lanes][group];
        double& product_of_group = product_of_groups.lane[channel % sum_lanes][group];
        const double gamma = gamma_at(job, p);
        if (!std::isinf(gamma)) {
          plain_of_group += plains[c] * gamma;
          product_of_group += products[c] * gamma;
          return;
        }
        // Terms of both signs, or zero, have no sum, while plains * gamma would be infinite.
        for (std::int64_t s = 0; s < positions.extent; ++s) {
          const double g = static_cast<double>(p.at[DY][s * positions.stride[DY]]) * gamma;
          plain_of_group += g;
          product_of_group += g * ((static_cast<double>(p.at[X][s * positions.stride[X]]) - means[c]) * rstds[c]);
        }
      });
}

void channels_sums(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd,
                   const GradientSums& sums) {
  Sums plain(width);  // by lane and group
  Sums product(width);
  for_each_block(job, first, width,
                 [&](const Block& block) HWY_ATTR { add_block(job, block, mean, rstd, sums, plain, product); });
  plain.total(width, sums.g);
  product.total(width, sums.products);
}

HWY_INLINE void gradients_block(const Job& job, const Block& block, const GradientScalars& scalars) {
  const Axis& positions = job.reduced[1];
  HWY_ALIGN double mean[widest];
  HWY_ALIGN double rstd[widest];
  HWY_ALIGN double shift[widest];
  HWY_ALIGN double slope[widest];
  HWY_ALIGN double gamma[widest];
  const bool training = scalars.slope != nullptr;
  for_each_column(job, block, [&](std::int64_t c, const Pointers& p, std::int64_t group, std::int64_t) HWY_ATTR {
    mean[c] = scalars.mean[group];
    rstd[c] = scalars.rstd[group];
    shift[c] = training ? scalars.shift[group] : 0;
    slope[c] = training ? scalars.slope[group] : 0;
    gamma[c] = gamma_at(job, p);
  });
  const GradientScalars of_columns{mean, rstd, training ? shift : nullptr, training ? slope : nullptr};
  for (std::int64_t s = 0; s < positions.extent; ++s)
    gradients_row(block.p.at[X] + s * positions.stride[X], block.p.at[DY] + s * positions.stride[DY],
                  block.p.at[DX] + s * positions.stride[DX], block.count, of_columns, gamma);
}

// Worst row error found where the statistics are computed here: 0.502 ulp, for a mean 2^24 times as large as the
// differences; with handed ones 0.5.
//   x = 16777208, 16777210 | 16777210, 16777208 | 16777211, 16777208 by channel, eps 1e-05,
//   dy -0x1.18f27ep+0 (-1.09745014), -0x1.501584p+0 (-1.3128283) | 0x1.0adb82p-1 (0.521205962),
//   0x1.9bb4aep+0 (1.6082257) | 0x1.fe3bcap+0 (1.99309981), 0x1.7b5216p+0 (1.48172128),
//   gamma -0x1.ea728cp-4 (-0.119738147), -0x1.504a28p+0 (-1.31363153), -0x1.596dp-1 (-0.674659729)
//   dx[1][1] = -0x1.031d4p+0 (-1.01216507), by definition -0x1.031d3eff12f8ep+0 (-1.01216501)
void channels_gradients(const Job& job, const Pointers& first, std::int64_t width, const GradientScalars& scalars) {
  for_each_block(job, first, width, [&](const Block& block) HWY_ATTR { gradients_block(job, block, scalars); });
}

}  // namespace HWY_NAMESPACE
}  // namespace normgate::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace normgate::simd {

HWY_EXPORT(channels_sums);
HWY_EXPORT(channels_gradients);

namespace {

bool fits(const Job&) { return false; }
void moments(const Job& job, const Pointers& first, std::int64_t width, double* mean, double* squares) {
  for (std::int64_t c = 0; c < width; ++c) strided.moments(job, first.moved(job.across, c), 1, mean + c, squares + c);
}
void normalize(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd) {
  for (std::int64_t c = 0; c < width; ++c) strided.normalize(job, first.moved(job.across, c), 1, mean + c, rstd + c);
}
bool fits_backward(const Job& job) {
  const Axis& channels = job.reduced[0];
  return job.channels == Channels::per_run && channels.contiguous(X) && channels.contiguous(DY) &&
         channels.contiguous(DX);
}
void sums(const Job& job, const Pointers& first, std::int64_t width, const double* mean, const double* rstd,
          const GradientSums& sums) {
  NORMGATE_DISPATCH(channels_sums)(job, first, width, mean, rstd, sums);
}
void gradients(const Job& job, const Pointers& first, std::int64_t width, const GradientScalars& scalars) {
  NORMGATE_DISPATCH(channels_gradients)(job, first, width, scalars);
}

}  // namespace

// Claim: backward only: handed statistics in the short form, 16 interleaved sums in double by channel, and by the
// channels' numbers over the group; over groups sequential; dx, dgamma and dbeta rounded once.
const Pattern channels{fits, widest, moments, normalize, fits_backward, sums, gradients, promises_of_the_order};

}  // namespace normgate::simd
#endif
