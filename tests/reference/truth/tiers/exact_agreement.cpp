// The exact tier against the definition at 100 digits, on random problems of every phase, row, use and convention: on
// which side of a number each element lies, wherever 100 digits tell. And correct rounding against the rounding of 100
// digits. The two share no arithmetic.
#include <limits>

#include "problems.hpp"
#include "reference/truth/tiers/correctly_rounded.hpp"
#include "reference/truth/tiers/exact.hpp"
#include "reference/truth/tiers/scalars.hpp"

namespace normgate {
namespace {

using tiers::ExactValues;
using tiers::Format;

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Drawn {
  Problem problem;
  Inputs inputs;
  SavedUse use = SavedUse::undeclared;
  [[nodiscard]] Truth definition() const { return definition_truth(problem, inputs, use); }
  [[nodiscard]] std::string text() const { return print(problem) + " use " + std::to_string(static_cast<int>(use)); }
};

Drawn draw(Draw& random, Phase phase, bool special) {
  Drawn drawn;
  drawn.problem = draw_problem(random, phase);
  if (special) drawn.problem.profile = Profile::special;
  if (drawn.problem.from_output) {
    drawn.use = SavedUse::from_output;
  } else if (phase == Phase::backward_training) {
    drawn.use = any<SavedUse>(random, 4);
  }
  EXPECT_EQ(check(drawn.problem), "") << print(drawn.problem);
  drawn.inputs = make_inputs(drawn.problem);
  spoil_some(random, drawn.inputs);
  return drawn;
}

// The sign of truth - boundary where the enclosure tells it, or 2.
int side_of(const Exact& truth, double boundary) {
  const tiers::Two difference = tiers::two_sum(truth.hi, -boundary);
  const tiers::Two rest = tiers::two_sum(difference.lo, truth.lo);
  const double value = difference.hi + rest.hi;
  const double doubt = truth.bound * 1.01 + std::fabs(rest.lo) * 2 + std::fabs(value) * 0x1p-50;
  if (!(std::fabs(value) > doubt)) return 2;
  return value < 0 ? -1 : 1;
}

class OfPhase : public ::testing::TestWithParam<Phase> {};
INSTANTIATE_TEST_SUITE_P(Exact, OfPhase, ::testing::ValuesIn(normalizing_phases),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(OfPhase, SidesAreThoseOfAHundredDigits) {
  Draw random(0xE7AC7 + static_cast<std::uint64_t>(GetParam()));
  std::int64_t told = 0;
  std::int64_t close = 0;  // against the nearest double
  for (int i = 0; i < 400; ++i) {
    const Drawn drawn = draw(random, GetParam(), i % 8 == 7);
    const Truth truth = drawn.definition();
    ExactValues exact(drawn.problem, drawn.inputs, drawn.use);
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      const std::size_t size = truth.out[role].size();
      const std::size_t step = 1 + size / 24;
      for (std::size_t at = random.below(static_cast<std::uint32_t>(step)); at < size; at += step) {
        const Exact& value = truth.out[role][at];
        if (!value.finite()) continue;
        const float narrow = static_cast<float>(value.hi);
        for (const double boundary : {value.hi, std::nextafter(value.hi, infinity), std::nextafter(value.hi, -infinity),
                                      0.0, std::isfinite(narrow) ? static_cast<double>(narrow) : 0.0}) {
          const int side = side_of(value, boundary);
          if (side == 2) continue;
          ++told;
          close += boundary == value.hi ? 1 : 0;
          ASSERT_EQ(exact.compare(role, at, boundary).sign, side)
              << drawn.text() << "\n"
              << name_of(role) << " at " << at << ": " << hexfloat(value.hi) << " + " << hexfloat(value.lo)
              << " against " << hexfloat(boundary);
        }
      }
    }
  }
  EXPECT_GT(told, 5000);
  EXPECT_GT(close, 1000);
}

TEST_P(OfPhase, RoundingIsThatOfAHundredDigits) {
  Draw random(0x2071D + static_cast<std::uint64_t>(GetParam()));
  tiers::TierCounts counts;
  std::int64_t undecided = 0;
  for (int i = 0; i < 400; ++i) {
    const Drawn drawn = draw(random, GetParam(), i % 6 == 5);
    const Truth truth = drawn.definition();
    const auto format = any<Format>(random, 3);
    const tiers::Rounded rounded = tiers::correctly_rounded(drawn.problem, drawn.inputs, drawn.use, format);
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      ASSERT_EQ(rounded.out[role].size(), truth.out[role].size()) << drawn.text() << "\n" << name_of(role);
      for (std::size_t at = 0; at < truth.out[role].size(); ++at) {
        const double got = rounded.out[role][at];
        const auto wanted = tiers::round(truth.out[role][at], format);
        if (!wanted) {
          // 100 digits leave it to the exact tier; within their enclosure all the same.
          const tiers::RoundedEnds ends = tiers::rounded_ends(truth.out[role][at], format);
          ++undecided;
          ASSERT_TRUE(ends.low <= got && got <= ends.high) << drawn.text() << "\n" << name_of(role) << " at " << at;
          continue;
        }
        ASSERT_TRUE(got == *wanted || (std::isnan(got) && std::isnan(*wanted)))
            << drawn.text() << "\n"
            << name_of(role) << " at " << at << ": " << got << ", right is " << *wanted;
      }
    }
    counts.special += rounded.counts.special;
    counts.fast += rounded.counts.fast;
    counts.definition += rounded.counts.definition;
    counts.intervals += rounded.counts.intervals;
    counts.exact += rounded.counts.exact;
  }
  EXPECT_GT(counts.special, 0);
  EXPECT_GT(counts.fast, 0);
  EXPECT_GT(counts.exact, 0);
  RecordProperty("decided", std::to_string(counts.fast) + " fast, " + std::to_string(counts.definition) +
                                " definition, " + std::to_string(counts.intervals) + " intervals, " +
                                std::to_string(counts.exact) + " exact");
  RecordProperty("undecided_by_a_hundred_digits", std::to_string(undecided));
}

}  // namespace
}  // namespace normgate
