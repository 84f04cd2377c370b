// The data of a problem. Each profile is a function that fills x; what surrounds x (gamma, beta, given and running
// statistics) follows below them. To add a profile: a name in problem.hpp and line.cpp, a line in data.hpp's table, a
// case in make_x, and one in centre_of if its groups are centred elsewhere than `conditioned`'s.
//
// All arithmetic is in double and exact or a single correctly rounded operation, then rounded to float once.
#include "reference/problem/data.hpp"

#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "reference/problem/groups.hpp"

namespace normgate {

namespace {

template <unsigned rounds>
Words philox(std::uint64_t key, std::uint64_t stream, std::uint64_t index) {
  using Philox = r123::Philox4x32_R<rounds>;
  const auto low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32U); };
  const typename Philox::ctr_type counter{{low(index), high(index), low(stream), high(stream)}};
  const typename Philox::key_type philox_key{{low(key), high(key)}};
  const typename Philox::ctr_type out = Philox()(counter, philox_key);
  return {{out[0], out[1], out[2], out[3]}};
}

}  // namespace

Words random_words(std::uint64_t key, std::uint64_t stream, std::uint64_t index) {
  return philox<10>(key, stream, index);
}

std::optional<double> exact_eps(const Convention& convention, std::int32_t level) {
  // Under n-1 the variance is level²·m/(m-1), which no eps of ours completes for every m.
  if (convention.normalizing != NormalizingDivisor::n || level < 1 || level > 1024) return std::nullopt;
  const std::int64_t square = std::int64_t{level} * level;
  std::int64_t power = 1;
  switch (convention.eps) {
    case EpsPlacement::inside:
      while (power <= square) power *= 4;
      return static_cast<double>(power - square);
    case EpsPlacement::outside:
      while (power <= level) power *= 2;
      return static_cast<double>(power - level);
    case EpsPlacement::floor:
      if (!std::has_single_bit(static_cast<std::uint32_t>(level))) return std::nullopt;
      return static_cast<double>(square) / 4;
  }
  return std::nullopt;
}

namespace {

// ---- draws --------------------------------------------------------------------------------------------------------

// What a stream is drawn for, besides the elements of a role. A stream is (purpose << 32) | role.
enum class Purpose : std::uint64_t {
  element = 0,
  centre = 1,
  pair = 2,
  place = 3,
  channel = 4,
  sprinkle = 5,
  whole = 6
};

std::uint64_t stream_of(Purpose purpose, Role role) {
  return (static_cast<std::uint64_t>(purpose) << 32U) | static_cast<std::uint64_t>(index_of(role));
}

// 2^exponent, for exponents of normal doubles.
double power_of_two(std::int32_t exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52U);
}

// From [0, 1), a multiple of 2^-24.
double fraction(std::uint32_t word) { return static_cast<double>(word >> 8U) * 0x1p-24; }
double sign(std::uint32_t word) { return (word & 1U) != 0 ? -1.0 : 1.0; }

// A normal-like number: eight uniform 16-bit integers, centred, times sqrt(3/2), rounded to an integer, over 2^16. Mean
// 0, variance 1 within 2^-31, |z| < 4.9; a multiple of 2^-16, so that there is room for exact shifts below a float32.
// Almost every element is one, so each is one block of Philox of seven rounds, the fewest that pass BigCrush (Salmon,
// Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011).
double normal_like(std::uint64_t key, std::uint64_t stream, std::uint64_t index) {
  std::uint32_t sum = 0;
  for (const std::uint32_t word : philox<7>(key, stream, index).w) sum += (word & 0xFFFFU) + (word >> 16U);
  constexpr double sqrt_3_over_2 = 0x1.3988e1409212ep+0;
  constexpr double to_integer = 0x1.8p52;
  return ((static_cast<double>(sum) - 8 * 32767.5) * sqrt_3_over_2 + to_integer - to_integer) * 0x1p-16;
}

// ---- groups -------------------------------------------------------------------------------------------------------

constexpr AxisSet channel_axes{Axis::g, Axis::k};

// What the profiles need to know of a problem.
struct Setting {
  const Problem& problem;
  const VariantRow& row;
  std::uint64_t key;
  std::int64_t m;          // elements of a group
  std::int64_t groups;     // their number
  std::int64_t channels;   // g·k
  AxisSet centre_axes;     // the axes that tell centres apart
  std::int64_t centres;    // their number
  double unit;             // 2^scale
  std::int64_t amplitude;  // exact_sum: a pair is c ± 1..amplitude …
  std::int64_t offset;     // … with |c| at most this
};

std::int64_t extent_of(const Problem& problem, AxisSet axes) { return element_count(restricted(problem.shape, axes)); }

Setting setting_of(const Problem& problem) {
  const VariantRow& row = row_of(problem.variant);
  // Where running statistics are given, the data lie around them, so one centre per channel serves all samples.
  const AxisSet centre_axes = problem.given == Given::running ? row.running : row.reduced.complement();
  Setting setting{problem,
                  row,
                  problem.key,
                  group_size(problem),
                  group_count(problem),
                  extent_of(problem, channel_axes),
                  centre_axes,
                  extent_of(problem, centre_axes),
                  power_of_two(problem.scale),
                  1,
                  0};
  // exact_sum: m·A² <= 2^23 (or A = 1, and then at most 2^22 pairs differ from the centre, see exact_sum_element), and
  // Σ|x| <= m·(|c|+A) < 2^24 by the choice of the largest |c|.
  const std::int64_t m = std::max<std::int64_t>(setting.m, 1);
  while (setting.amplitude < 1 + std::int64_t{problem.level} &&
         (setting.amplitude + 1) * (setting.amplitude + 1) <= (std::int64_t{1} << 23U) / m)
    ++setting.amplitude;
  if (row.centred)
    setting.offset = std::clamp<std::int64_t>(((std::int64_t{1} << 24U) - 1) / m - setting.amplitude, 0, 4);
  return setting;
}

// Whether a channel is one of outlier_channels': one in 16, and one in any case.
bool is_outlier(const Setting& setting, std::int64_t channel) {
  if (setting.channels == 0) return false;
  const std::uint64_t stream = stream_of(Purpose::channel, Role::x);
  const std::uint64_t chosen = random_words(setting.key, stream_of(Purpose::whole, Role::x), 0).w[0] %
                               static_cast<std::uint64_t>(setting.channels);
  return static_cast<std::uint64_t>(channel) == chosen ||
         random_words(setting.key, stream, static_cast<std::uint64_t>(channel)).w[0] % 16 == 0;
}
constexpr double outlier_factor = 64;

// The centre of group q, before the scale is applied for profiles around a real number; the data are drawn around it,
// and given statistics near it. The key and q decide it.
double centre_of(const Setting& setting, std::int64_t q) {
  const Words words = random_words(setting.key, stream_of(Purpose::centre, Role::x), static_cast<std::uint64_t>(q));
  const double kappa = setting.problem.kappa;
  switch (setting.problem.profile) {
    case Profile::conditioned:
    case Profile::outlier_channels:
    case Profile::parameter_rounding:
    case Profile::special:
    case Profile::drift:
      return sign(words.w[0]) * kappa * (1 + fraction(words.w[1]) / 8);
    case Profile::needle:
      return 0;
    case Profile::near_constant:
      return sign(words.w[0]) * std::max(kappa, 1.0) * (1 + fraction(words.w[1]));
    case Profile::constant:
      return sign(words.w[0]) * kappa * 1234.567 * (1 + fraction(words.w[1]));
    case Profile::exact:
      return setting.row.centred ? static_cast<double>(words.w[0] % 17) - 8 : 0;
    case Profile::exact_sum: {
      const auto offset = static_cast<std::uint32_t>(setting.offset);
      return static_cast<double>(words.w[0] % (2 * offset + 1)) - static_cast<double>(offset);
    }
  }
  return 0;
}

bool is_integer_profile(const Setting& setting) {
  return setting.problem.profile == Profile::exact || setting.problem.profile == Profile::exact_sum;
}

// ---- x ------------------------------------------------------------------------------------------------------------

// The element's place: its dense index, its group, its position in the group, its channel.
struct Place {
  std::uint64_t index;
  std::int64_t group;
  std::int64_t position;
  std::int64_t channel;
  double centre;
};

// Calls element(place) for every element of x in row-major order and stores what it returns.
template <typename Element>
std::vector<float> fill(const Setting& setting, Element element) {
  const Shape& shape = setting.problem.shape;
  std::vector<double> centres(static_cast<std::size_t>(setting.centres));
  for (std::size_t q = 0; q < centres.size(); ++q) centres[q] = centre_of(setting, static_cast<std::int64_t>(q));
  std::vector<float> x;
  x.reserve(static_cast<std::size_t>(element_count(shape)));
  const AxisSet group_axes = setting.row.reduced.complement();
  const std::int64_t group_step = group_axes.has(Axis::s) ? 1 : 0;
  const std::int64_t position_step = 1 - group_step;
  const std::int64_t centre_step = setting.centre_axes.has(Axis::s) ? 1 : 0;
  std::uint64_t index = 0;
  Shape at{};
  for (at[0] = 0; at[0] < shape[0]; ++at[0])
    for (at[1] = 0; at[1] < shape[1]; ++at[1])
      for (at[2] = 0; at[2] < shape[2]; ++at[2]) {
        Place place{index, dense_index(shape, group_axes, at), dense_index(shape, setting.row.reduced, at),
                    dense_index(shape, channel_axes, at), 0};
        std::int64_t centre = dense_index(shape, setting.centre_axes, at);
        for (std::int64_t s = 0; s < shape[3]; ++s) {
          place.centre = centres[static_cast<std::size_t>(centre)];
          x.push_back(element(std::as_const(place)));
          ++place.index;
          place.group += group_step;
          place.position += position_step;
          centre += centre_step;
        }
        index = place.index;
      }
  return x;
}

constexpr std::uint64_t x_stream = static_cast<std::uint64_t>(Role::x);

std::vector<float> make_conditioned(const Setting& setting) {
  return fill(setting, [&](const Place& place) {
    return static_cast<float>((place.centre + normal_like(setting.key, x_stream, place.index)) * setting.unit);
  });
}

// A ramp through the group, so that the means of its parts differ: what a merge of partial statistics must account for.
std::vector<float> make_drift(const Setting& setting) {
  const double m = static_cast<double>(setting.m);
  return fill(setting, [&](const Place& place) {
    const double ramp = 6 * (2 * static_cast<double>(place.position) + 1 - m) / m;
    return static_cast<float>((place.centre + ramp + normal_like(setting.key, x_stream, place.index)) * setting.unit);
  });
}

std::vector<float> make_outlier_channels(const Setting& setting) {
  std::vector<double> factor(static_cast<std::size_t>(setting.channels));
  for (std::size_t c = 0; c < factor.size(); ++c)
    factor[c] = setting.unit * (is_outlier(setting, static_cast<std::int64_t>(c)) ? outlier_factor : 1);
  return fill(setting, [&](const Place& place) {
    const double value = place.centre + normal_like(setting.key, x_stream, place.index);
    return static_cast<float>(value * factor[static_cast<std::size_t>(place.channel)]);
  });
}

std::vector<float> make_near_constant(const Setting& setting) {
  return fill(setting, [&](const Place& place) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(place.centre * setting.unit));
    return std::bit_cast<float>(bits + (random_words(setting.key, x_stream, place.index).w[0] & 3U));
  });
}

std::vector<float> make_constant(const Setting& setting) {
  return fill(setting, [&](const Place& place) { return static_cast<float>(place.centre * setting.unit); });
}

// A position where tails and unrolled loops go wrong: one of three ends, next to a multiple of 4, 8 or 16, or anywhere.
std::int64_t end_or_boundary(const Words& words, std::int64_t m, const std::array<std::int64_t, 3>& ends) {
  const std::uint32_t choice = words.w[0] % 8;
  std::int64_t position = static_cast<std::int64_t>(words.w[1]) % m;
  if (choice < 3) {
    position = ends[choice];
  } else if (choice < 6) {
    const std::int64_t width = std::int64_t{4} << (choice - 3);
    position = position / width * width + static_cast<std::int64_t>((words.w[0] >> 3U) % 3) - 1;
  }
  return std::clamp<std::int64_t>(position, 0, m - 1);
}

std::vector<float> make_needle(const Setting& setting) {
  struct Needle {
    std::int64_t position;
    double value;
  };
  const std::int64_t m = setting.m;
  std::vector<Needle> needles(static_cast<std::size_t>(m > 0 ? setting.groups : 0));
  for (std::size_t q = 0; q < needles.size(); ++q) {
    const Words words = random_words(setting.key, stream_of(Purpose::place, Role::x), q);
    const std::array<std::int64_t, 3> ends{0, m - 1, m - 2};
    const std::int64_t position = end_or_boundary(words, m, ends);
    const double value = sign(words.w[2]) * std::max(setting.problem.kappa, 8.0) * (1 + fraction(words.w[3]));
    needles[q] = {position, value};
  }
  return fill(setting, [&](const Place& place) {
    const Needle& needle = needles[static_cast<std::size_t>(place.group)];
    const double value =
        place.position == needle.position ? needle.value : normal_like(setting.key, x_stream, place.index) * 0x1p-6;
    return static_cast<float>(value * setting.unit);
  });
}

float special_value(std::uint32_t word) {
  switch (word % 4) {
    case 0:
      return std::numeric_limits<float>::infinity();
    case 1:
      return -std::numeric_limits<float>::infinity();
    default:
      return std::numeric_limits<float>::quiet_NaN();
  }
}

// About half of the groups hold one to three NaN or infinities: at least one group, and not all of several. The others
// hold zeros of both signs and subnormals here and there.
std::vector<float> make_special(const Setting& setting) {
  struct Spot {
    std::int64_t position;
    float value;
  };
  struct Spots {
    std::uint32_t count;
    std::array<Spot, 3> spot;
  };
  const std::int64_t m = setting.m;
  std::vector<Spots> spots(static_cast<std::size_t>(m > 0 ? setting.groups : 0));
  const std::uint64_t forced =
      spots.empty() ? 0 : random_words(setting.key, stream_of(Purpose::whole, Role::x), 1).w[0] % spots.size();
  for (std::size_t q = 0; q < spots.size(); ++q) {
    const Words words = random_words(setting.key, stream_of(Purpose::place, Role::x), 2 * q);
    const Words values = random_words(setting.key, stream_of(Purpose::place, Role::x), 2 * q + 1);
    const bool spared = spots.size() > 1 && q == (forced + 1) % spots.size();
    if (q != forced && (spared || (words.w[3] & 1U) == 0)) continue;
    spots[q].count = 1 + values.w[3] % 3;
    for (std::size_t i = 0; i < 3; ++i)
      spots[q].spot[i] = {static_cast<std::int64_t>(words.w[i]) % m, special_value(values.w[i])};
  }
  return fill(setting, [&](const Place& place) {
    const Spots& here = spots[static_cast<std::size_t>(place.group)];
    for (std::size_t i = 0; i < here.count; ++i)
      if (here.spot[i].position == place.position) return here.spot[i].value;
    if (here.count == 0) {
      const Words words = random_words(setting.key, stream_of(Purpose::sprinkle, Role::x), place.index);
      const std::uint32_t sign_bit = words.w[1] & 0x80000000U;
      if (words.w[0] % 16 == 0) return std::bit_cast<float>(sign_bit);
      if (words.w[0] % 16 == 1) return std::bit_cast<float>(sign_bit | (1U + (words.w[2] % 0x7FFFFFU)));
    }
    return static_cast<float>((place.centre + normal_like(setting.key, x_stream, place.index)) * setting.unit);
  });
}

// The random word of the pair that position p = 2j or 2j+1 of group q belongs to.
std::uint32_t pair_word(const Setting& setting, const Place& place) {
  const std::int64_t pairs = (setting.m + 1) / 2;
  const auto index = static_cast<std::uint64_t>(place.group * pairs + place.position / 2);
  return random_words(setting.key, stream_of(Purpose::pair, Role::x), index).w[0];
}
bool is_unpaired(const Setting& setting, const Place& place) {
  return setting.m % 2 != 0 && place.position == setting.m - 1;
}
// +1 and -1 within a pair, in the order that the word says.
double pair_sign(std::uint32_t word, std::int64_t position) {
  return sign(word ^ static_cast<std::uint32_t>(position & 1));
}

std::vector<float> make_exact(const Setting& setting) {
  return fill(setting, [&](const Place& place) {
    if (is_unpaired(setting, place)) return static_cast<float>(place.centre);
    return static_cast<float>(place.centre +
                              setting.problem.level * pair_sign(pair_word(setting, place), place.position));
  });
}

// Pairs c ± a in either of two orders, as the key says: neighbours with random signs, or all c + a in the first half of
// the group and all c - a in the second, so that its parts have other means than the whole. An odd group has its
// unpaired c at a drawn place: a kernel that loses the last element must not lose a deviation of 0.
std::vector<float> make_exact_sum(const Setting& setting) {
  constexpr std::int64_t most_pairs = std::int64_t{1} << 22U;
  const Words whole = random_words(setting.key, stream_of(Purpose::whole, Role::x), 2);
  const bool halves = (whole.w[0] & 1U) != 0;
  const bool odd = setting.m % 2 != 0;
  const std::int64_t unpaired = odd ? static_cast<std::int64_t>(whole.w[1]) % setting.m : setting.m;
  const std::int64_t pairs = setting.m / 2;
  return fill(setting, [&](const Place& place) {
    if (place.position == unpaired) return static_cast<float>(place.centre);
    const std::int64_t position = place.position - (place.position > unpaired ? 1 : 0);
    const std::int64_t pair = halves ? position % pairs : position / 2;
    if (pair >= most_pairs) return static_cast<float>(place.centre);
    const auto index = static_cast<std::uint64_t>(place.group * pairs + pair);
    const std::uint32_t word = random_words(setting.key, stream_of(Purpose::pair, Role::x), index).w[0];
    const std::uint32_t size = 1 + (word >> 1U) % static_cast<std::uint32_t>(setting.amplitude);
    const double direction = halves ? (position < pairs ? 1 : -1) : pair_sign(word, position);
    return static_cast<float>(place.centre + size * direction);
  });
}

std::vector<float> make_x(const Setting& setting) {
  switch (setting.problem.profile) {
    case Profile::conditioned:
    case Profile::parameter_rounding:
      return make_conditioned(setting);
    case Profile::drift:
      return make_drift(setting);
    case Profile::outlier_channels:
      return make_outlier_channels(setting);
    case Profile::near_constant:
      return make_near_constant(setting);
    case Profile::constant:
      return make_constant(setting);
    case Profile::needle:
      return make_needle(setting);
    case Profile::special:
      return make_special(setting);
    case Profile::exact:
      return make_exact(setting);
    case Profile::exact_sum:
      return make_exact_sum(setting);
  }
  return {};
}

// ---- what surrounds x ---------------------------------------------------------------------------------------------

std::vector<float> make_affine(const Setting& setting, Role role) {
  const bool is_gamma = role == Role::gamma;
  const auto stream = stream_of(Purpose::element, role);
  std::vector<float> result(static_cast<std::size_t>(extent_of(setting.problem, setting.row.affine)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Words words = random_words(setting.key, stream, i);
    double size = 0;
    switch (setting.problem.profile) {
      case Profile::exact:
        size = 2 + words.w[1] % 8;
        break;
      case Profile::exact_sum:
        size = power_of_two(static_cast<std::int32_t>(words.w[1] % 5) - 1);
        // 1+w must not be 0 where x̂ is (y - beta)/gamma.
        if (is_gamma && setting.problem.from_output && size == 1) size = 2;
        break;
      default:
        size = is_gamma ? 1.25 + 2.75 * fraction(words.w[1]) : 0.5 + 7.5 * fraction(words.w[1]);
        if (is_gamma && result.size() > 8 && words.w[2] % 16 == 0)
          size = (words.w[3] & 1U) != 0 && !setting.problem.from_output ? 0 : 0x1p-20;
        break;
    }
    result[i] = static_cast<float>(sign(words.w[0]) * size);
  }
  // One special problem in eight has a NaN among gamma or beta too, in the role that the key says.
  if (setting.problem.profile == Profile::special && !result.empty()) {
    const Words words = random_words(setting.key, stream_of(Purpose::whole, Role::gamma), 0);
    if (words.w[0] % 8 == 0 && ((words.w[1] & 1U) != 0) == is_gamma)
      result[words.w[2] % result.size()] = std::numeric_limits<float>::quiet_NaN();
  }
  return result;
}

// The smallest power of two above the level: D under exact_eps, in every placement but the floor, where it is safe too.
double exact_denominator(const Setting& setting) {
  double power = 1;
  while (power <= setting.problem.level) power *= 2;
  return power;
}

// In exact profiles the weight is a power of two, so that inference's divisions by it are exact.
double weight_of(const Setting& setting) {
  const Words words = random_words(setting.key, stream_of(Purpose::element, Role::running_weight), 0);
  if (is_integer_profile(setting)) return power_of_two(static_cast<std::int32_t>(words.w[0] % 5));
  return static_cast<double>(static_cast<float>(1 + 19 * fraction(words.w[0])));
}

// In the special profile one given or old statistic in eight is NaN or infinite, one in sixteen zero.
std::optional<float> special_statistic(const Setting& setting, Role role, std::size_t index) {
  if (setting.problem.profile != Profile::special) return std::nullopt;
  const Words words = random_words(setting.key, stream_of(Purpose::sprinkle, role), index);
  if (words.w[0] % 16 < 2) return special_value(words.w[1]);
  if (words.w[0] % 16 == 2) return 0.0F;
  return std::nullopt;
}

// A mean that inference is given (near the data) or the old state of training (away from them).
std::vector<float> make_mean(const Setting& setting, Role role) {
  const AxisSet axes = axes_of(role, setting.row);
  const bool old_state = role == Role::running_mean && setting.problem.phase == Phase::forward_training;
  const bool weighed = role == Role::running_mean && !old_state &&
                       setting.problem.convention.momentum == MomentumForm::accumulated_weight;
  const double weight = weighed ? weight_of(setting) : 1;
  const auto stream = stream_of(Purpose::element, role);
  std::vector<float> result(static_cast<std::size_t>(extent_of(setting.problem, axes)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Words words = random_words(setting.key, stream_of(Purpose::channel, role), i);
    double value = 0;
    if (old_state) {
      value = is_integer_profile(setting) ? sign(words.w[0]) * (2 + words.w[1] % 7)
                                          : sign(words.w[0]) * (2 + 6 * fraction(words.w[1])) * setting.unit *
                                                std::max(setting.problem.kappa, 1.0);
    } else {
      // The axes of a given mean are those that tell centres apart, so i counts centres.
      value = centre_of(setting, static_cast<std::int64_t>(i));
      if (!is_integer_profile(setting)) {
        value = (value + normal_like(setting.key, stream, i) / 4) * setting.unit;
        if (setting.problem.profile == Profile::outlier_channels && axes == channel_axes &&
            is_outlier(setting, static_cast<std::int64_t>(i)))
          value *= outlier_factor;
      }
    }
    result[i] = static_cast<float>(value * weight);
    if (const auto special = special_statistic(setting, role, i)) result[i] = *special;
  }
  return result;
}

// A variance or, where `reciprocal`, a reciprocal standard deviation.
std::vector<float> make_spread(const Setting& setting, Role role) {
  const AxisSet axes = axes_of(role, setting.row);
  const bool reciprocal = role == Role::stat && setting.problem.convention.saved == SavedStatistic::rstd;
  const bool old_state = role == Role::running_var && setting.problem.phase == Phase::forward_training;
  const bool weighed = role == Role::running_var && !old_state &&
                       setting.problem.convention.momentum == MomentumForm::accumulated_weight;
  const double weight = weighed ? weight_of(setting) : 1;
  const auto stream = stream_of(Purpose::element, role);
  std::vector<float> result(static_cast<std::size_t>(extent_of(setting.problem, axes)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Words words = random_words(setting.key, stream, i);
    double value = 0;
    if (is_integer_profile(setting)) {
      const double level = setting.problem.level;
      value = old_state ? 1 + words.w[0] % 9 : reciprocal ? 1 / exact_denominator(setting) : level * level;
    } else {
      value = reciprocal ? (0.3 + 2.7 * fraction(words.w[0])) / setting.unit
                         : (0.25 + 7.75 * fraction(words.w[0])) * setting.unit * setting.unit;
    }
    result[i] = static_cast<float>(value * weight);
    if (const auto special = special_statistic(setting, role, i)) result[i] = *special;
  }
  return result;
}

// ---- what a backward phase is handed ------------------------------------------------------------------------------

// A sum in double that keeps what its additions round off, so that the float32 nearest to it is the one nearest to the
// true sum but in rare ties. Infinities and NaN stay what they are.
struct KeptSum {
  double sum = 0;
  double low = 0;
  void add(double term) {
    const double next = sum + term;
    const double part = next - sum;
    low += (sum - (next - part)) + (term - part);
    sum = next;
  }
  [[nodiscard]] double value() const { return std::isfinite(sum) ? sum + low : sum; }
};

// The statistics of one group in double: handed values are roundings of them (the truth computes its own).
struct Spread {
  double mean = 0;
  double variance = 0;
  double rstd = 0;
};

double reciprocal(const Convention& convention, double variance, double eps) {
  switch (convention.eps) {
    case EpsPlacement::outside:
      return 1 / (std::sqrt(variance) + eps);
    case EpsPlacement::floor:
      return 1 / std::sqrt(std::max(variance, eps));
    case EpsPlacement::inside:
      break;
  }
  return 1 / std::sqrt(variance + eps);
}

Spread computed(const Setting& setting, const Groups& groups, std::int64_t q, const std::vector<float>& x) {
  const Convention& convention = setting.problem.convention;
  const auto n = static_cast<double>(setting.m);
  const auto value = [&](std::int64_t i) { return static_cast<double>(x[static_cast<std::size_t>(i)]); };
  Spread result;
  if (setting.row.centred) {
    KeptSum sum;
    groups.for_each(q, [&](std::int64_t i, const Shape&) { sum.add(value(i)); });
    result.mean = sum.value() / n;
  }
  KeptSum deviations;
  groups.for_each(q, [&](std::int64_t i, const Shape&) {
    const double d = value(i) - result.mean;
    deviations.add(d * d);
  });
  const double squares = deviations.value();
  const bool n_minus_1 = setting.row.centred && convention.normalizing == NormalizingDivisor::n_minus_1;
  const bool stated_zero = n_minus_1 && setting.m == 1 && convention.single != SingleCount::nan;
  result.variance = stated_zero ? 0 : squares / (n_minus_1 ? n - 1 : n);
  result.rstd = reciprocal(convention, result.variance, setting.problem.eps);
  return result;
}

// The statistics that an inference phase is given, as one group sees them.
Spread given(const Setting& setting, const Groups& groups, std::int64_t q, const Inputs& inputs) {
  const Problem& problem = setting.problem;
  const Convention& convention = problem.convention;
  const auto value = [&](Role role, std::int64_t i) {
    return inputs[role].empty() ? 0.0 : static_cast<double>(inputs[role][static_cast<std::size_t>(i)]);
  };
  Spread result;
  if (problem.given == Given::running) {
    const std::int64_t c = dense_index(problem.shape, setting.row.running, groups.origin(q));
    const double weight = convention.momentum == MomentumForm::accumulated_weight ? value(Role::running_weight, 0) : 1;
    result.mean = value(Role::running_mean, c) / weight;
    result.variance = value(Role::running_var, c) / weight;
    result.rstd = reciprocal(convention, result.variance, problem.eps);
  } else {
    result.mean = value(Role::mean, q);
    result.rstd = convention.saved == SavedStatistic::rstd ? value(Role::stat, q)
                                                           : reciprocal(convention, value(Role::stat, q), problem.eps);
  }
  return result;
}

// Moved by some percent of sigma, or of itself; the key and q decide it.
void shift(const Setting& setting, std::int64_t q, Spread& spread) {
  const Words words = random_words(setting.key, stream_of(Purpose::centre, Role::stat), static_cast<std::uint64_t>(q));
  const double sigma = spread.variance > 0 ? std::sqrt(spread.variance) : 0;
  spread.mean += sign(words.w[0]) * sigma * (0.02 + 0.08 * fraction(words.w[1]));
  const double factor = 1 + sign(words.w[2]) * (0.02 + 0.08 * fraction(words.w[3]));
  spread.variance *= factor;
  spread.rstd *= factor;
}

// backward_training: mean and stat, and y where the kernel has it in place of x.
void hand_over(const Setting& setting, const std::vector<float>& x, Inputs& inputs) {
  const Problem& problem = setting.problem;
  const Groups groups(problem.shape, setting.row);
  const auto prepare = [&](Role role) {
    const bool wanted = use_of(problem, role).read && problem.values[role].empty();
    if (wanted) inputs[role].resize(static_cast<std::size_t>(extent_of(problem, axes_of(role, setting.row))));
    return wanted;
  };
  const bool mean = prepare(Role::mean);
  const bool stat = prepare(Role::stat);
  const bool output = prepare(Role::y);
  if (!mean && !stat && !output) return;
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    Spread spread = computed(setting, groups, q, x);
    const Spread own = spread;
    if (problem.handed == Handed::shifted) shift(setting, q, spread);
    if (mean) inputs[Role::mean][static_cast<std::size_t>(q)] = static_cast<float>(spread.mean);
    if (stat)
      inputs[Role::stat][static_cast<std::size_t>(q)] =
          static_cast<float>(problem.convention.saved == SavedStatistic::rstd ? spread.rstd : spread.variance);
    if (!output) continue;
    groups.for_each(q, [&](std::int64_t i, const Shape& at) {
      const auto c = static_cast<std::size_t>(dense_index(problem.shape, setting.row.affine, at));
      const double plus = problem.convention.gamma == GammaOffset::plus_one ? 1 : 0;
      const double gamma = problem.gamma ? static_cast<double>(inputs[Role::gamma][c]) + plus : 1;
      const double beta = problem.beta ? static_cast<double>(inputs[Role::beta][c]) : 0;
      const double normalized = (static_cast<double>(x[static_cast<std::size_t>(i)]) - own.mean) * own.rstd;
      inputs[Role::y][static_cast<std::size_t>(i)] = static_cast<float>(gamma * normalized + beta);
    });
  }
}

// ---- upstream gradients -------------------------------------------------------------------------------------------

// The element of a group that a unit cotangent stands at, or none: about half of the groups have one, the first in any
// case.
// Ends and vector boundaries, where tails and unrolled loops go wrong.
std::int64_t unit_place(const Setting& setting, std::int64_t q) {
  const Words words = random_words(setting.key, stream_of(Purpose::place, Role::dy), static_cast<std::uint64_t>(q));
  if (q > 0 && (words.w[3] & 1U) != 0) return -1;
  const std::int64_t m = setting.m;
  return end_or_boundary(words, m, {m - 1, m - 1, 0});
}

std::vector<float> make_cotangent(const Setting& setting, const std::vector<float>& x, const Inputs& inputs) {
  const Problem& problem = setting.problem;
  const Groups groups(problem.shape, setting.row);
  const auto stream = stream_of(Purpose::element, Role::dy);
  const bool integers = is_integer_profile(setting);
  std::vector<float> dy(static_cast<std::size_t>(element_count(problem.shape)));
  for (std::int64_t q = 0; q < (setting.m > 0 ? groups.count() : 0); ++q) {
    const bool normalized = problem.cotangent == Cotangent::normalized || problem.cotangent == Cotangent::mixed;
    Spread spread;
    if (normalized && !x.empty())
      spread = has_own_statistics(problem.phase) ? computed(setting, groups, q, x) : given(setting, groups, q, inputs);
    const Words words = random_words(setting.key, stream_of(Purpose::centre, Role::dy), static_cast<std::uint64_t>(q));
    const double centre = centre_of(setting, q);
    std::int64_t position = 0;
    const std::int64_t unit = problem.cotangent == Cotangent::unit ? unit_place(setting, q) : -1;
    groups.for_each(q, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::uint64_t>(i);
      const double xi = x.empty() ? 0.0 : static_cast<double>(x[static_cast<std::size_t>(i)]);
      double hat = normalized ? (xi - spread.mean) * spread.rstd : 0;
      if (!(std::fabs(hat) <= 0x1p100)) hat = 1;  // NaN too: explicit values may be anything
      double value = 1;
      switch (problem.cotangent) {
        case Cotangent::ones:
          break;
        case Cotangent::pooled: {
          Shape pooled = at;
          pooled[3] = 0;
          const auto place =
              static_cast<std::uint64_t>(dense_index(problem.shape, AxisSet{Axis::n, Axis::g, Axis::k}, pooled));
          value = integers ? static_cast<double>(random_words(setting.key, stream, place).w[0] % 4) - 1
                           : normal_like(setting.key, stream, place);
          break;
        }
        case Cotangent::normalized:
          value = hat;
          break;
        case Cotangent::mixed:
          value = sign(words.w[0]) * (1 + 3 * fraction(words.w[1])) +
                  sign(words.w[2]) * (1 + 3 * fraction(words.w[3])) * hat +
                  normal_like(setting.key, stream, index) * 0x1p-6;
          break;
        case Cotangent::unit:
          value = position == unit ? 1 : 0;
          break;
        case Cotangent::random:
          if (integers) {
            const double side = xi > centre ? 1 : xi < centre ? -1 : 0;
            value = static_cast<double>(random_words(setting.key, stream, index).w[0] % 4) - 1 +
                    static_cast<double>(words.w[0] % 3) * side;
          } else {
            value = normal_like(setting.key, stream, index);
          }
          break;
      }
      dy[static_cast<std::size_t>(i)] = static_cast<float>(value);
      ++position;
    });
    // In a special problem one group in four has a NaN or an infinity in dy, whatever its x is.
    if (problem.profile == Profile::special) {
      const Words place =
          random_words(setting.key, stream_of(Purpose::sprinkle, Role::dy), static_cast<std::uint64_t>(q));
      if (place.w[0] % 4 == 0) {
        const std::int64_t chosen = static_cast<std::int64_t>(place.w[1]) % setting.m;
        std::int64_t p = 0;
        groups.for_each(q, [&](std::int64_t i, const Shape&) {
          if (p++ == chosen) dy[static_cast<std::size_t>(i)] = special_value(place.w[2]);
        });
      }
    }
  }
  return dy;
}

// What gradients are added to where they accumulate: ±(2 … 8), far from sums that are small.
std::vector<float> make_old_gradient(const Setting& setting, Role role) {
  std::vector<float> result(static_cast<std::size_t>(extent_of(setting.problem, axes_of(role, setting.row))));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Words words = random_words(setting.key, stream_of(Purpose::element, role), i);
    const double size = is_integer_profile(setting) ? 2 + words.w[1] % 7 : 2 + 6 * fraction(words.w[1]);
    result[i] = static_cast<float>(sign(words.w[0]) * size);
  }
  return result;
}

// ---- parts --------------------------------------------------------------------------------------------------------

std::vector<float> make_part_count(const Setting& setting) {
  std::vector<float> result(static_cast<std::size_t>(setting.m));
  const std::uint64_t stream = stream_of(Purpose::element, Role::part_count);
  const Words whole = random_words(setting.key, stream_of(Purpose::whole, Role::part_count), 0);
  const std::uint32_t largest_exponent = whole.w[0] % 4 == 0 ? 22 : 8;
  for (std::size_t p = 0; p < result.size(); ++p) {
    const Words words = random_words(setting.key, stream, p);
    const std::uint32_t most = std::uint32_t{1} << (1 + words.w[1] % largest_exponent);
    const std::uint32_t count = words.w[0] % 8 == 0 ? 0 : words.w[0] % 8 == 1 ? 1 : 1 + words.w[2] % most;
    result[p] = static_cast<float>(count);
  }
  if (!result.empty()) {
    float& sure = result[whole.w[1] % result.size()];
    if (sure == 0) sure = 3;
  }
  return result;
}

// Variances, consistent with the counts.
std::vector<float> make_part_stat(const Setting& setting, const std::vector<float>& count) {
  std::vector<float> result(static_cast<std::size_t>(element_count(setting.problem.shape)));
  const Groups groups(setting.problem.shape, setting.row);
  const std::uint64_t stream = stream_of(Purpose::element, Role::part_stat);
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    std::size_t part = 0;
    groups.for_each(q, [&](std::int64_t i, const Shape&) {
      const Words words = random_words(setting.key, stream, static_cast<std::uint64_t>(i));
      const bool constant = words.w[1] % 6 == 0 || (setting.row.centred && count[part] == 1);
      const double value = constant ? 0 : (0.25 + 7.75 * fraction(words.w[0])) * setting.unit * setting.unit;
      result[static_cast<std::size_t>(i)] = static_cast<float>(value);
      ++part;
    });
  }
  return result;
}

// What stands where nothing was counted.
void empty_parts(const Setting& setting, Role role, const std::vector<float>& count, std::vector<float>& values) {
  const Groups groups(setting.problem.shape, setting.row);
  const std::uint64_t stream = stream_of(Purpose::sprinkle, role);
  for (std::int64_t q = 0; q < groups.count(); ++q) {
    std::size_t part = 0;
    groups.for_each(q, [&](std::int64_t i, const Shape&) {
      if (count[part++] != 0) return;
      const Words words = random_words(setting.key, stream, static_cast<std::uint64_t>(i));
      values[static_cast<std::size_t>(i)] = words.w[0] % 4 == 0 ? 0x1p100F : special_value(words.w[1]);
    });
  }
}

Inputs make_parts(const Setting& setting) {
  const Problem& problem = setting.problem;
  Inputs inputs;
  const auto given = [&](Role role) { return !problem.values[role].empty(); };
  inputs[Role::part_count] = given(Role::part_count) ? problem.values[Role::part_count] : make_part_count(setting);
  const std::vector<float>& count = inputs[Role::part_count];
  for (const Role role : {Role::part_mean, Role::part_stat}) {
    if (!use_of(problem, role).read) continue;
    if (given(role)) {
      inputs[role] = problem.values[role];
      continue;
    }
    inputs[role] = role == Role::part_mean ? make_x(setting) : make_part_stat(setting, count);
    empty_parts(setting, role, count, inputs[role]);
  }
  return inputs;
}

// What the second order weighs the first with: z, or integers from -2 to 3.
std::vector<float> make_second_cotangent(const Setting& setting, Role role) {
  std::vector<float> result(static_cast<std::size_t>(extent_of(setting.problem, axes_of(role, setting.row))));
  const std::uint64_t stream = stream_of(Purpose::element, role);
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<float>(is_integer_profile(setting)
                                       ? static_cast<double>(random_words(setting.key, stream, i).w[0] % 6) - 2
                                       : normal_like(setting.key, stream, i));
  return result;
}

std::vector<float> make_role(const Setting& setting, Role role) {
  switch (role) {
    case Role::x:
      return make_x(setting);
    case Role::gamma:
    case Role::beta:
      return make_affine(setting, role);
    case Role::mean:
    case Role::running_mean:
      return make_mean(setting, role);
    case Role::stat:
    case Role::running_var:
      return make_spread(setting, role);
    case Role::running_weight:
      return {static_cast<float>(weight_of(setting))};
    case Role::dgamma:
    case Role::dbeta:
      return make_old_gradient(setting, role);
    case Role::ddx:
    case Role::ddgamma:
    case Role::ddbeta:
      return make_second_cotangent(setting, role);
    default:
      return {};
  }
}

}  // namespace

Inputs make_inputs(const Problem& problem) {
  const Setting setting = setting_of(problem);
  if (problem.phase == Phase::merge_statistics) return make_parts(setting);
  const bool gradients = problem.phase == Phase::backward_training;
  Inputs inputs;
  for (std::size_t i = 0; i < role_count; ++i) {
    const Role role = static_cast<Role>(i);
    if (!use_of(problem, role).read) continue;
    const bool later = role == Role::dy || (gradients && (role == Role::mean || role == Role::stat || role == Role::y));
    if (!problem.values[role].empty()) {
      inputs[role] = problem.values[role];
    } else if (!later) {
      inputs[role] = make_role(setting, role);
    }
  }
  if (has_cotangent(problem.phase)) {
    // What the kernel is not handed decides what it is handed.
    const std::vector<float> hidden = inputs[Role::x].empty() ? make_x(setting) : std::vector<float>();
    const std::vector<float>& x = inputs[Role::x].empty() ? hidden : inputs[Role::x];
    if (gradients) hand_over(setting, x, inputs);
    if (inputs[Role::dy].empty()) inputs[Role::dy] = make_cotangent(setting, x, inputs);
  }
  for (std::size_t i = 0; i < role_count; ++i) {
    const Role role = static_cast<Role>(i);
    assert(!use_of(problem, role).read ||
           static_cast<std::int64_t>(inputs[role].size()) == extent_of(problem, axes_of(role, setting.row)));
  }
  return inputs;
}

}  // namespace normgate
