// The data of a problem, from its key alone: an element's value depends on key, role and logical index, never on
// layout, kernel, target, order or shard. Integers, exact scaling and correctly rounded + - * / sqrt only, never libm:
// a replay line must mean the same data everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reference/problem/problem.hpp"

namespace normgate {

// The profiles. c is a group's centre, z a normal-like number of variance 1; key and logical index decide them.
//
//   conditioned         x = 2^scale·(c + z), c = ±kappa·(1 … 1.125)
//   parameter_rounding  the same; the problem carries an eps or momentum that is no float32
//   drift               conditioned, plus a ramp from -6 to 6 through the group
//   outlier_channels    the same, times 64 in one of 16 channels (g,k), and in one at least
//   near_constant       a float of ±2^scale·max(kappa,1)·(1 … 2), plus 0 to 3 of its ulps
//   constant            the float of ±2^scale·kappa·1234.567·(1 … 2) in the whole group
//   needle              2^scale·z/64, but one element of ±2^scale·max(kappa,8)·(1 … 2) in each group: the first, the
//                       last or the last but one, at a multiple of 4, 8 or 16 ± 1, or anywhere
//   special             conditioned; about half of the groups (one at least, and not all of several) hold one to three
//                       NaN, +Inf or -Inf, the others ±0 and subnormals; one problem in eight a NaN in gamma or beta;
//                       one given or old statistic in eight NaN or infinite, one in sixteen 0
//   exact               c ± level, c an integer in ±8 (0 where the row is not centred): mean c and variance level² to
//                       the bit where m is even; the last element of an odd group is c. scale and kappa do not count
//   exact_sum           pairs c ± a, |c| <= 4, a from 1 to at most 1+level, so small that Σ|x| and Σ(x-c)² are below
//                       2^24, neighbours or in opposite halves of the group; the unpaired element of an odd group is c,
//                       at a drawn place. scale and kappa do not count
//
// gamma is ±(1.25 … 4), one in 16 of more than eight channels zero or 2^-20; beta is ±(0.5 … 8). In exact both are
// integers of ±(2 … 9), in exact_sum powers of two. The old state of a training is away from the data: a mean of
// ±(2 … 8)·2^scale·max(kappa,1), a variance of (0.25 … 8)·4^scale, a weight of 1 … 20. Given statistics are near the
// data: c + z/4, and a variance as above or a reciprocal standard deviation of (0.3 … 3)/2^scale. In exact and
// exact_sum the old state is of small integers, a given mean is c, a variance level², a reciprocal standard deviation
// and a weight powers of two.
//
// Upstream gradients dy, by the problem's cotangent; a group's own statistics are those of its x in backward_training
// and the given ones in backward_inference:
//
//   random              z; in exact and exact_sum integers from -1 to 2, plus 0 to 2 times the side of c that x is on
//   ones                1
//   pooled              z, the same for all positions S; in exact and exact_sum integers from -1 to 2
//   normalized          x̂ = (x - mean)/D, 1 where that is NaN or above 2^100; in exact, where eps is exact_eps,
//                       ±level over a power of two
//   mixed               a + b·x̂ + z/64, a and b of ±(1 … 4) per group
//   unit                1 at one element of the group (in about half of the groups, the first in any case), else 0:
//                       the last, the first, at a multiple of 4, 8 or 16 ± 1, or anywhere
//
// In special one group in four has a NaN or an infinity in dy, whatever the cotangent. What gradients are added to is
// ±(2 … 8), an integer in exact and exact_sum.
//
// double_backward's ddx, ddgamma and ddbeta are z; in exact and exact_sum integers from -2 to 3.
//
// backward_training is handed the float32 nearest to mean and stat of x, computed in double (handed=shifted: the mean
// moved by 2 to 10 % of sigma, stat by 2 to 10 %), or y in place of x and mean, gamma·x̂ + beta rounded once; gamma has
// no zeros then, also when 1 is added.
//
// The parts of merge_statistics: part_mean is x as the profile draws it, part_stat is 4^scale·(0.25 … 8), one in six 0,
// and for rows with a mean 0 in a part of one element. One part in eight is empty, one has a single element, the others
// have up to 2^1 … 2^8, in one problem of four up to 2^22; one part has some in any case. An empty part's mean and
// variance are NaN, infinite or 2^100.
//
// What an element depends on: z on the dense row-major index, and the numbers of groups and channels are such indices
// too. So in the first three profiles, near_constant and constant an element stays as it is when n grows, and no
// profile looks at the layout. More is not promised: pairs and needles depend on the size of the group, special's
// choice on the number of groups, outlier_channels' one sure channel on the number of channels, and what
// backward_training is handed and the cotangents normalized, mixed and unit on all of the group.

// Every tensor that the problem reads, dense and row-major over the axes of its role; absent tensors are empty.
using Inputs = PerRole<std::vector<float>>;

// The problem must pass check().
[[nodiscard]] Inputs make_inputs(const Problem& problem);

// Philox4x32-10 words of (key, stream, index).
struct Words {
  std::uint32_t w[4];
};
[[nodiscard]] Words random_words(std::uint64_t key, std::uint64_t stream, std::uint64_t index);

// The eps that makes 1/D a power of two for profile exact: x = mean ± level in each group, so the variance is level².
// inside: 4^j - level² > 0; outside: 2^j - level > 0, the smallest each; floor: level²/4, below the variance, where
// level is a power of two. nullopt if there is none, as where n-1 normalizes.
[[nodiscard]] std::optional<double> exact_eps(const Convention& convention, std::int32_t level);

}  // namespace normgate
