// Values that stand exactly on a boundary of a format, or so close to one that no enclosure of a hundred digits tells,
// built backwards from the boundary: random problems never hit one. gate/proof has them; here are what the definition
// says beside special values, and one long group.
#include <limits>

#include "gate/proof/boundaries.hpp"
#include "reference/truth/tiers/correctly_rounded.hpp"
#include "reference/truth/tiers/exact.hpp"
#include "tests/reference/truth/support.hpp"

namespace normgate {
namespace {

using proof::known_cases;
using proof::Trial;
using tiers::Format;

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Data {
  Role role;
  std::vector<float> values;
};

Problem problem_with(const std::string& line, const std::vector<Data>& data) {
  const ProblemOrError parsed = parse_problem(line);
  if (!parsed.problem) {
    ADD_FAILURE() << line << "\n" << parsed.error;
    return {};
  }
  Problem problem = *parsed.problem;
  for (const Data& tensor : data) problem.values[tensor.role] = tensor.values;
  EXPECT_EQ(check(problem), "") << line;
  return problem;
}

TEST(Ties, AreOnTheBoundaryAndRoundToEven) {
  EXPECT_GE(known_cases().size(), 40U);
  for (const Trial& trial : known_cases()) {
    SCOPED_TRACE(print(trial));
    const proof::Known& each = *trial.known;
    const Inputs inputs = make_inputs(trial.problem);
    tiers::ExactValues exact(trial.problem, inputs, trial.use);
    EXPECT_EQ(exact.compare(each.role, each.at, each.boundary).sign, each.side);
    // The boundary as a fraction, and its neighbours.
    EXPECT_EQ(exact.compare(each.role, each.at, each.boundary * 8, 8).sign, each.side);
    if (each.boundary != 0 && each.boundary != each.rounded) {
      const std::int64_t k = tiers::ordinal_of(each.rounded, trial.format);
      EXPECT_TRUE(each.boundary == tiers::midpoint_above(k, trial.format) ||
                  each.boundary == tiers::midpoint_above(k - 1, trial.format));
      EXPECT_TRUE(each.side != 0 || k % 2 == 0);
    }
    if (each.side == 0) {
      EXPECT_EQ(exact.compare(each.role, each.at, std::nextafter(each.boundary, -infinity)).sign, 1);
      EXPECT_EQ(exact.compare(each.role, each.at, std::nextafter(each.boundary, infinity)).sign, -1);
    }
    const tiers::Rounded rounded = tiers::correctly_rounded(trial.problem, inputs, trial.use, trial.format);
    EXPECT_EQ(rounded.out[each.role].at(each.at), each.rounded);
    // Without an enclosure to start from.
    EXPECT_EQ(exact.round(each.role, each.at, trial.format, {-infinity, infinity}).value, each.rounded);
  }
}

// All of them are beyond the enclosures but those whose arithmetic happens to be exact; each tier has its share.
TEST(Ties, EveryTierDecides) {
  tiers::TierCounts counts;
  for (const Trial& trial : known_cases()) {
    const tiers::TierCounts of_case =
        tiers::correctly_rounded(trial.problem, make_inputs(trial.problem), trial.use, trial.format).counts;
    counts.fast += of_case.fast;
    counts.intervals += of_case.intervals;
    counts.exact += of_case.exact;
  }
  const Problem special = problem_with("forward_training layer_norm n=2 g=1 k=3 s=1", {});
  Inputs inputs = make_inputs(special);
  inputs[Role::x][0] = std::numeric_limits<float>::quiet_NaN();
  const tiers::Rounded rounded = tiers::correctly_rounded(special, inputs, SavedUse::undeclared, Format::float32);
  EXPECT_EQ(rounded.counts.special, 3);
  EXPECT_TRUE(std::isnan(rounded.out[Role::y][1]));
  EXPECT_TRUE(std::isfinite(rounded.out[Role::y][4]));
  // A variance that equals eps, the floor's kink, is for the definition.
  const Problem kink = problem_with(
      "backward_training layer_norm n=1 g=1 k=4 s=1 eps=1 gamma=0 beta=0 convention=pytorch,eps:floor", {});
  Inputs at_kink = make_inputs(kink);
  at_kink[Role::x] = {2, 0, 0, 2};
  EXPECT_EQ(tiers::correctly_rounded(kink, at_kink, SavedUse::undeclared, Format::float32).counts.definition, 4);
  EXPECT_GT(counts.fast, 0);
  EXPECT_GT(counts.intervals, 0);
  EXPECT_GT(counts.exact, 30);
}

// What the definition says in extended reals is the value; where it says a number, that number is rounded like others,
// also where the path to it is not finite.
TEST(Ties, BesideSpecialValues) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto inf = std::numeric_limits<float>::infinity();
  const float tie = 0x1.01p0F;  // of bfloat16; the even neighbour is 1
  const std::string alone = "forward_training layer_norm n=1 g=1 k=1 s=1 saved=1 gamma=0 eps=0.25 convention=pytorch,";
  const std::vector<Data> single{{Role::x, {tie}}, {Role::beta, {tie}}};
  const std::string infinite = "forward_inference batch_norm n=1 g=1 k=1 s=1 given=running gamma=0 convention=caffe";
  const std::string rows = "backward_training layer_norm n=2 g=1 k=2 s=1 eps=3 ";
  const std::vector<Data> nan_row{{Role::x, {std::numeric_limits<float>::quiet_NaN(), 1, 1, -1}},
                                  {Role::dy, {1, 0, 0x1p-8F, 0}}};
  struct Special {
    std::string line;
    std::vector<Data> data;
    Role role;
    std::size_t at;
    double expected;
  };
  const std::vector<Special> all{
      // One value under n-1: 0/0, or a variance of 0.
      {alone + "normalizing:n_minus_1", single, Role::y, 0, nan},
      {alone + "normalizing:n_minus_1", single, Role::stat, 0, nan},
      {alone + "normalizing:n_minus_1", single, Role::mean, 0, 1},
      {alone + "normalizing:n_minus_1,single:zero", single, Role::y, 0, 1},
      {alone + "normalizing:n_minus_1,single:zero", single, Role::stat, 0, 2},
      // An infinite mean square: what is finite has x^ = 0.
      {"forward_training rms_norm n=1 g=1 k=2 s=1 gamma=0",
       {{Role::x, {3, inf}}, {Role::beta, {tie, tie}}},
       Role::y,
       0,
       1},
      {"forward_training rms_norm n=1 g=1 k=2 s=1 gamma=0",
       {{Role::x, {3, inf}}, {Role::beta, {tie, tie}}},
       Role::y,
       1,
       nan},
      // An infinite variance; an infinite weight, whose statistics are 0; a variance below -eps.
      {infinite + " eps=1",
       {{Role::x, {3}},
        {Role::beta, {tie}},
        {Role::running_mean, {1}},
        {Role::running_var, {inf}},
        {Role::running_weight, {3}}},
       Role::y,
       0,
       1},
      {infinite + " eps=9",
       {{Role::x, {3}},
        {Role::beta, {0x1p-8F}},
        {Role::running_mean, {1}},
        {Role::running_var, {1}},
        {Role::running_weight, {inf}}},
       Role::y,
       0,
       1},
      {infinite + " eps=1",
       {{Role::x, {3}},
        {Role::beta, {tie}},
        {Role::running_mean, {1}},
        {Role::running_var, {-4}},
        {Role::running_weight, {3}}},
       Role::y,
       0,
       nan},
      // A floor is above a negative infinite variance: dy / 3.
      {"backward_inference layer_norm n=1 g=1 k=1 s=1 given=saved gamma=0 eps=9 "
       "convention=pytorch,eps:floor,saved:variance",
       {{Role::stat, {-inf}}, {Role::dy, {0x1.818p1F}}},
       Role::dx,
       0,
       1},
      // A row with a NaN reaches dgamma of all channels, and dbeta of none.
      {rows, nan_row, Role::dgamma, 0, nan},
      {rows, nan_row, Role::dgamma, 1, nan},
      {rows, nan_row, Role::dbeta, 0, 1},
      {rows, nan_row, Role::dx, 1, nan},
  };
  std::size_t index = 0;
  for (const Special& each : all) {
    SCOPED_TRACE("case " + std::to_string(index++) + ": " + each.line);
    const Problem problem = problem_with(each.line, each.data);
    const tiers::Rounded rounded =
        tiers::correctly_rounded(problem, make_inputs(problem), SavedUse::undeclared, Format::bfloat16);
    const double got = rounded.out[each.role].at(each.at);
    EXPECT_TRUE(got == each.expected || (std::isnan(got) && std::isnan(each.expected))) << got;
  }
}

// A mean of 2^24 + 3 values that is 1 + 2^-24: one pass over the group, then a few numbers per element.
TEST(Ties, InALongGroup) {
  const Problem problem = problem_with("forward_training layer_norm n=1 g=1 k=16777219 s=1 gamma=0 beta=0 saved=1", {});
  Inputs inputs;
  inputs[Role::x].assign(16777219, 1.0F);
  inputs[Role::x][5] = 2;
  inputs[Role::x][6] = inputs[Role::x][16777218] = 0x1.000002p0F;
  inputs[Role::x][7] = 0x1.fffffep-1F;
  tiers::ExactValues exact(problem, inputs);
  EXPECT_EQ(exact.compare(Role::mean, 0, 1 + 0x1p-24).sign, 0);
  EXPECT_EQ(exact.round(Role::mean, 0, Format::float32, {-infinity, infinity}).value, 1);
  EXPECT_EQ(exact.compare(Role::y, 0, 0).sign, -1);
  EXPECT_EQ(exact.compare(Role::y, 16777218, 0).sign, 1);
}

}  // namespace
}  // namespace normgate
