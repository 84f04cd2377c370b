#include "gate/proof/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "reference/truth/backward.hpp"
#include "reference/truth/forward.hpp"
#include "reference/truth/tiers/exact.hpp"
#include "reference/truth/tiers/fast.hpp"
#include "reference/truth/tiers/rounded_floats.hpp"
#include "reference/truth/tiers/scalars.hpp"

namespace normgate::proof {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
// Elements of a role that the exact tier is asked about although 100 digits suffice.
constexpr std::size_t sample = 3;

constexpr std::array<std::pair<tiers::Format, std::string_view>, 3> format_names{
    {{tiers::Format::float32, "float32"}, {tiers::Format::bfloat16, "bfloat16"}, {tiers::Format::float16, "float16"}}};
constexpr std::array<std::pair<SavedUse, std::string_view>, 5> use_names{{{SavedUse::undeclared, "undeclared"},
                                                                          {SavedUse::short_form, "short_form"},
                                                                          {SavedUse::textbook, "textbook"},
                                                                          {SavedUse::recomputes, "recomputes"},
                                                                          {SavedUse::from_output, "from_output"}}};

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::string text(const Exact& value) {
  return fmt::format("{} + {} within {}", hexfloat(value.hi), hexfloat(value.lo), hexfloat(value.bound));
}

class Comparison {
 public:
  Comparison(const Trial& trial, const Inputs& inputs)
      : trial_(trial), inputs_(inputs), exact_(trial.problem, inputs, trial.use) {
    result_.tightness = infinity;
  }

  Agreement run() {
    const Problem& problem = trial_.problem;
    const Truth definition = definition_truth(problem, inputs_, trial_.use);
    const std::optional<Truth> fast = tiers::fast_truth(problem, inputs_, trial_.use);
    result_.covered = fast.has_value();
    if (fast) enclosures(*fast, definition);
    const tiers::Rounded rounded = tiers::correctly_rounded(problem, inputs_, trial_.use, trial_.format);
    result_.counts = rounded.counts;
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (rounded.out[role].size() != definition.out[role].size()) {
        disagree(std::string(normgate::name_of(role)),
                 fmt::format("{} values are rounded, the definition has {}", rounded.out[role].size(),
                             definition.out[role].size()));
        continue;
      }
      roundings(role, rounded.out[role], definition.out[role], fast ? &fast->out[role] : nullptr);
    }
    if (trial_.format == tiers::Format::float32) floats(rounded);
    if (trial_.known) construction(*trial_.known, rounded);
    return std::move(result_);
  }

 private:
  void disagree(const std::string& where, const std::string& what) {
    result_.disagreements.push_back(where + ": " + what);
  }
  static std::string place(Role role, std::size_t at) { return fmt::format("{}[{}]", normgate::name_of(role), at); }

  void enclosures(const Truth& fast, const Truth& definition) {
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      const std::vector<Exact>& values = fast.out[role];
      if (values.size() != definition.out[role].size()) {
        disagree(std::string(normgate::name_of(role)), fmt::format("the fast tier has {} values, the definition {}",
                                                                   values.size(), definition.out[role].size()));
        continue;
      }
      for (std::size_t at = 0; at < values.size(); ++at)
        enclosure([&] { return place(role, at); }, values[at], definition.out[role][at]);
    }
    for (std::size_t q = 0; q < fast.groups.size(); ++q) {
      const GroupTruth& a = fast.groups[q];
      const GroupTruth& b = definition.groups[q];
      const auto statistic = [&](const char* name, const Exact& got, const Exact& wanted) {
        enclosure([&] { return fmt::format("{} of group {}", name, q); }, got, wanted);
      };
      statistic("mean", a.mean, b.mean);
      statistic("variance", a.variance, b.variance);
      statistic("rstd", a.rstd, b.rstd);
    }
  }

  // The intervals of two proofs overlap, or one of the proofs is wrong.
  template <typename Where>
  void enclosure(Where where, const Exact& fast, const Exact& definition) {
    ++result_.enclosed;
    const bool special = !definition.finite();
    const bool sound = special ? same(fast.hi, definition.hi) && fast.lo == 0 && fast.bound == 0
                               : fast.finite() && std::isfinite(fast.bound) && fast.bound >= 0 &&
                                     std::fabs(fast.lo) <= 0x1p-53 * std::fabs(fast.hi);
    if (!sound) {
      disagree(where(), fmt::format("the fast tier says {}, the definition {}", text(fast), text(definition)));
      return;
    }
    if (special) return;
    // Four roundings of at most 2^-53 of the difference of the hi's, which is exact if they are near each other and
    // else of the size of the result.
    const tiers::Two hi = tiers::two_sum(fast.hi, -definition.hi);
    const double difference = std::fabs(hi.hi + (hi.lo + (fast.lo - definition.lo)));
    if (difference * (1 - 0x1p-48) > fast.bound + definition.bound) {
      disagree(where(), fmt::format("the fast tier says {}, the definition {}", text(fast), text(definition)));
    } else if (difference > definition.bound * 16) {
      // The error is then known to a sixteenth.
      if (const double ratio = fast.bound / difference; ratio < result_.tightness) {
        result_.tightness = ratio;
        result_.tightest = where();
      }
    }
  }

  void roundings(Role role, const std::vector<double>& rounded, const std::vector<Exact>& definition,
                 const std::vector<Exact>* fast) {
    const std::size_t step = 1 + rounded.size() / sample;
    const std::size_t first = static_cast<std::size_t>(trial_.problem.key % step);
    for (std::size_t at = 0; at < rounded.size(); ++at) {
      const double value = rounded[at];
      const Exact& truth = definition[at];
      if (!truth.finite()) {
        if (!same(value, truth.hi))
          disagree(place(role, at), fmt::format("rounded to {}, the definition says {}", value, truth.hi));
        continue;
      }
      if (std::isnan(value) ||
          (std::isfinite(value) && tiers::value_at(tiers::ordinal_of(value, trial_.format), trial_.format) != value)) {
        result_.undecided.push_back(
            fmt::format("{} is no value of {}: {}", place(role, at), name_of(trial_.format), hexfloat(value)));
        continue;
      }
      const std::optional<double> by_digits = tiers::round(truth, trial_.format);
      if (by_digits && *by_digits != value) {
        disagree(place(role, at), fmt::format("rounded to {}, by 100 digits it is {}: {}", hexfloat(value),
                                              hexfloat(*by_digits), text(truth)));
        continue;
      }
      if (by_digits && at % step != first) continue;
      between_midpoints(role, at, value);
      for (const Exact& enclosure : {truth, fast != nullptr ? (*fast)[at] : truth}) side_of_high(role, at, enclosure);
    }
  }

  // The rounding by its definition, in comparisons of the exact tier.
  void between_midpoints(Role role, std::size_t at, double value) {
    const std::int64_t k = tiers::ordinal_of(value, trial_.format);
    // From infinity on there is no midpoint above.
    const bool infinite = std::isinf(value);
    if (!infinite || value < 0) at_most(role, at, k, 1);
    if (!infinite || value > 0) at_most(role, at, k, -1);
  }
  // |direction| is 1: no further than the midpoint in that direction, and not on it unless k is even.
  void at_most(Role role, std::size_t at, std::int64_t k, int direction) {
    const double midpoint = tiers::midpoint_above(direction > 0 ? k : k - 1, trial_.format);
    const int sign = side(role, at, midpoint) * direction;
    if (sign > 0 || (sign == 0 && k % 2 != 0))
      disagree(place(role, at), fmt::format("rounded to {}, but by the exact tier it is {} {}",
                                            hexfloat(tiers::value_at(k, trial_.format)),
                                            sign == 0       ? "on"
                                            : direction > 0 ? "above"
                                                            : "below",
                                            hexfloat(midpoint)));
  }

  // Where lo is larger than its bound, the side of hi is known.
  void side_of_high(Role role, std::size_t at, const Exact& truth) {
    if (!(std::fabs(truth.lo) > truth.bound)) return;
    const int wanted = truth.lo > 0 ? 1 : -1;
    if (const int sign = side(role, at, truth.hi); sign != wanted)
      disagree(place(role, at), fmt::format("the exact tier has sign {} against {}, other tiers {}", sign,
                                            hexfloat(truth.hi), text(truth)));
  }

  int side(Role role, std::size_t at, double number) {
    ++result_.sides;
    return exact_.compare(role, at, number).sign;
  }

  // The roundings that are made where values are computed.
  void floats(const tiers::Rounded& rounded) {
    tiers::RoundedFloats direct;
    tiers::correctly_rounded_floats(trial_.problem, inputs_, trial_.use, direct);
    if (direct.counts != rounded.counts) disagree("counts", "the rounding sink has other counts of tiers");
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      const std::vector<float>& got = direct.out[role];
      const std::vector<double>& wanted = rounded.out[role];
      if (got.size() != wanted.size()) {
        disagree(std::string(normgate::name_of(role)),
                 fmt::format("the rounding sink has {} values, right is {}", got.size(), wanted.size()));
        continue;
      }
      for (std::size_t at = 0; at < got.size(); ++at)
        if (!same(static_cast<double>(got[at]), wanted[at]))
          disagree(place(role, at), fmt::format("the rounding sink says {}, right is {}",
                                                hexfloat(static_cast<double>(got[at])), hexfloat(wanted[at])));
    }
  }

  void construction(const Known& known, const tiers::Rounded& rounded) {
    if (known.at >= rounded.out[known.role].size()) {
      disagree(place(known.role, known.at), "is no output of the problem");
      return;
    }
    if (const int sign = side(known.role, known.at, known.boundary); sign != known.side)
      disagree(place(known.role, known.at), fmt::format("built to have sign {} against {}, the exact tier says {}",
                                                        known.side, hexfloat(known.boundary), sign));
    if (const double got = rounded.out[known.role][known.at]; got != known.rounded)
      disagree(place(known.role, known.at),
               fmt::format("built to round to {}, got {}", hexfloat(known.rounded), hexfloat(got)));
  }

  const Trial& trial_;
  const Inputs& inputs_;
  tiers::ExactValues exact_;
  Agreement result_;
};

}  // namespace

std::string print(const Trial& trial) {
  std::string line = fmt::format("--problem '{}'", normgate::print(trial.problem));
  if (trial.use != SavedUse::undeclared) line += fmt::format(" --use {}", name_of(trial.use));
  if (trial.format != tiers::Format::float32) line += fmt::format(" --format {}", name_of(trial.format));
  return line;
}

std::string_view name_of(tiers::Format format) { return format_names[static_cast<std::size_t>(format)].second; }
std::optional<tiers::Format> format_named(std::string_view name) {
  for (const auto& [format, text] : format_names)
    if (text == name) return format;
  return std::nullopt;
}
std::string_view name_of(SavedUse use) { return use_names[static_cast<std::size_t>(use)].second; }
std::optional<SavedUse> use_named(std::string_view name) {
  for (const auto& [use, text] : use_names)
    if (text == name) return use;
  return std::nullopt;
}

Agreement agreement_of(const Trial& trial, const Inputs& inputs) { return Comparison(trial, inputs).run(); }

}  // namespace normgate::proof
