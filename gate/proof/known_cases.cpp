// Values that stand exactly on a boundary of a format, or so close to one that no enclosure of a hundred digits tells,
// found by hand. Mostly D = 3 or 6, so that no step of the fast tier is exact.
//
// To add one: a Case whose expected value was found by hand.
#include <cassert>
#include <limits>

#include "gate/proof/boundaries.hpp"

namespace normgate::proof {
namespace {

using tiers::Format;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr float largest = std::numeric_limits<float>::max();

struct Data {
  Role role;
  std::vector<float> values;
};
struct Case {
  std::string line;  // without values
  std::vector<Data> data;
  Role role;  // the element
  std::size_t at;
  Format format;
  double boundary;
  double expected;
  SavedUse use = SavedUse::undeclared;
  int side = 0;  // of the boundary that the value is on
};

std::vector<Case> cases() {
  const auto f32 = Format::float32;
  const auto b16 = Format::bfloat16;
  const auto f16 = Format::float16;
  const std::string layer = "forward_training layer_norm n=1 g=1 s=1 ";
  const std::string backward = "backward_training layer_norm n=1 g=1 s=1 ";
  const std::string given = "backward_inference layer_norm n=1 g=1 k=1 s=1 given=saved gamma=0 beta=0 ";
  // 120 twos, a one and 136 zeros: sum 241, squares 481, so that 257 * 481 - 241² = 256² and D = 256/257.
  std::vector<float> d_256_257(257, 0.0F);
  for (std::size_t i = 0; i < 121; ++i) d_256_257[2 * i] = i < 120 ? 2.0F : 1.0F;
  return {
      // mean, a sum over n.
      {layer + "k=2 saved=1", {{Role::x, {1, 0x1.000002p0F}}}, Role::mean, 0, f32, 1 + 0x1p-24, 1},
      {layer + "k=3 saved=1", {{Role::x, {16777218, 16777218, 16777215}}}, Role::mean, 0, f32, 16777217, 16777216},
      {layer + "k=2 saved=1", {{Role::x, {0x3p-149F, 0}}}, Role::mean, 0, f32, 0x3p-150, 0x1p-148},
      {layer + "k=2 saved=1", {{Role::x, {0x1p-149F, 0}}}, Role::mean, 0, f32, 0x1p-150, 0},
      {layer + "k=2 saved=1", {{Role::x, {0x1.ffp127F, 0x1.ffp127F}}}, Role::mean, 0, b16, 0x1.ffp127, infinity},
      {layer + "k=2 saved=1", {{Role::x, {-65520, -65520}}}, Role::mean, 0, f16, -65520, -infinity},
      {layer + "k=4 saved=1", {{Role::x, {3, -1, -3, 1}}}, Role::mean, 0, f32, 0, 0},
      // Through float32, where it is a tie too, 1 would come out.
      {layer + "k=2 saved=1",
       {{Role::x, {0x1.01p0F, 0x1.010002p0F}}},
       Role::mean,
       0,
       b16,
       1 + 0x1p-8,
       1 + 0x1p-7,
       SavedUse::undeclared,
       1},
      // variance: 2 a²/3 and, over n-1, a².
      {layer + "k=3 saved=1 convention=pytorch,saved:variance",
       {{Role::x, {7100, -7090, 5}}},
       Role::stat,
       0,
       f32,
       33559350,
       33559352},
      {layer + "k=3 saved=1 convention=pytorch,saved:variance,normalizing:n_minus_1",
       {{Role::x, {4097, -4097, 0}}},
       Role::stat,
       0,
       f32,
       16785409,
       16785408},
      // 1/D = 257/256; 3 2^-25, subnormal in float16, with eps inside the root (none) and outside it.
      {layer + "k=257 saved=1 eps=0", {{Role::x, d_256_257}}, Role::stat, 0, b16, 1 + 0x1p-8, 1},
      {"forward_training rms_norm n=1 g=1 k=9 s=1 saved=1 eps=0",
       {{Role::x, {0, 0, 0x1p25F, 0, 0, 0, 0, 0, 0}}},
       Role::stat,
       0,
       f16,
       0x3p-25,
       0x1p-23},
      {"forward_training rms_norm n=1 g=1 k=9 s=1 saved=1 eps=8388608 convention=pytorch,eps:outside",
       {{Role::x, {0, 0, 0x1p23F, 0, 0, 0, 0, 0, 0}}},
       Role::stat,
       0,
       f16,
       0x3p-25,
       0x1p-23},
      // A variance that is above its floor by its low part alone, 1/4 + 2^-58: y is just below the tie that the floor
      // would make.
      {layer + "k=8 eps=0.25 convention=keras,eps:floor",
       {{Role::x, {1, -1, 0x1p-28F, -0x1p-28F, -0x1p-57F, 0, 0, 0}},
        {Role::gamma, {1, 1, 1, 1, 1, 1, 1, 1}},
        {Role::beta, {0x1p-23F, 0, 0, 0, 0, 0, 0, 0}}},
       Role::y,
       0,
       f32,
       2 + 0x1p-23,
       2,
       SavedUse::undeclared,
       -1},
      // y = 4/3 gamma + beta.
      {layer + "k=4 eps=1",
       {{Role::x, {4, -4, 0, 0}}, {Role::gamma, {3, 3, 3, 3}}, {Role::beta, {0x1p-22F, 0, 0, 0}}},
       Role::y,
       0,
       f32,
       4 + 0x1p-22,
       4},
      {layer + "k=4 eps=1",
       {{Role::x, {4, -4, 0, 0}}, {Role::gamma, {3, 3, 3, 3}}, {Role::beta, {0x3p-22F, 0, 0, 0}}},
       Role::y,
       0,
       f32,
       4 + 0x3p-22,
       4 + 0x1p-20},
      {layer + "k=4 eps=1",
       {{Role::x, {4, -4, 0, 0}}, {Role::gamma, {0x3p101F, 1, 1, 1}}, {Role::beta, {largest, 0, 0, 0}}},
       Role::y,
       0,
       f32,
       0x1.ffffffp127,
       infinity},
      {layer + "k=4 eps=1",
       {{Role::x, {4, -4, 0, 0}}, {Role::gamma, {0x2.fffffcp101F, 1, 1, 1}}, {Role::beta, {largest, 0, 0, 0}}},
       Role::y,
       0,
       f32,
       0x1.ffffffp127,
       static_cast<double>(largest),
       SavedUse::undeclared,
       -1},
      {layer + "k=4 eps=1",
       {{Role::x, {4, -4, 0, 0}}, {Role::gamma, {3, 3, 3, 3}}, {Role::beta, {-4, 0, 0, 0}}},
       Role::y,
       0,
       f32,
       0,
       0},
      // x^ = 1/6, subnormal results.
      {layer + "k=4 eps=35.5 beta=0",
       {{Role::x, {1, -1, 0, 0}}, {Role::gamma, {0x9p-149F, 1, 1, 1}}},
       Role::y,
       0,
       f32,
       0x3p-150,
       0x1p-148},
      {layer + "k=4 eps=35.5 beta=0",
       {{Role::x, {1, -1, 0, 0}}, {Role::gamma, {0xFp-24F, 1, 1, 1}}},
       Role::y,
       0,
       f16,
       0x5p-25,
       0x1p-23},
      // x^ = 2/3: over n-1; eps outside the root; as a floor with 1 + w.
      {layer + "k=3 eps=5 beta=0 convention=pytorch,normalizing:n_minus_1",
       {{Role::x, {2, -2, 0}}, {Role::gamma, {0x1.818p0F, 1, 1}}},
       Role::y,
       0,
       b16,
       1 + 0x1p-8,
       1},
      {"forward_training batch_norm n=4 g=1 k=1 s=1 eps=1 convention=pytorch,eps:outside",
       {{Role::x, {2, -2, 2, -2}}, {Role::gamma, {1.5F}}, {Role::beta, {0x1p-24F}}},
       Role::y,
       2,
       f32,
       1 + 0x1p-24,
       1},
      {layer + "k=2 eps=9 convention=pytorch,eps:floor,gamma:plus_one",
       {{Role::x, {2, -2}}, {Role::gamma, {0.5F, 1}}, {Role::beta, {0x3p-24F, 0}}},
       Role::y,
       0,
       f32,
       1 + 0x3p-24,
       1 + 0x1p-22},
      // sqrt(v) = eps, where the conjugate of sqrt(v) + eps is 0.
      {layer + "k=2 eps=3 convention=pytorch,eps:outside",
       {{Role::x, {3, -3}}, {Role::gamma, {2, 1}}, {Role::beta, {0x1p-24F, 0}}},
       Role::y,
       0,
       f32,
       1 + 0x1p-24,
       1},
      // 2^-127 below the tie, with an irrational root.
      {layer + "k=2 eps=1.1754943508222875e-38",
       {{Role::x, {1, -1}}, {Role::gamma, {1, 1}}, {Role::beta, {0x3p-24F, 0}}},
       Role::y,
       0,
       f32,
       1 + 0x3p-24,
       1 + 0x1p-23,
       SavedUse::undeclared,
       -1},
      // At the mean, with an irrational root.
      {layer + "k=3 eps=1 beta=0", {{Role::x, {1, 2, 3}}}, Role::y, 1, f32, 0, 0},
      // Given statistics over an accumulated weight of 3: mean 1/3, variance 8.
      {"forward_inference batch_norm n=1 g=1 k=1 s=1 given=running eps=1 convention=caffe",
       {{Role::x, {3}},
        {Role::gamma, {9}},
        {Role::beta, {0x1p-21F}},
        {Role::running_mean, {1}},
        {Role::running_var, {24}},
        {Role::running_weight, {3}}},
       Role::y,
       0,
       f32,
       8 + 0x1p-21,
       8},
      // Running statistics: 3/4 old + 1/4 mean; (2 old + mean)/3; an average over two samples; a weight.
      {"forward_training batch_norm n=2 g=1 k=1 s=1 running=1 momentum=0.25",
       {{Role::x, {0x1.000008p0F, 1}}, {Role::running_mean, {1}}},
       Role::running_mean,
       0,
       f32,
       1 + 0x1p-24,
       1},
      {"forward_training batch_norm n=2 g=1 k=1 s=1 running=1 step=3 convention=pytorch,momentum:cumulative",
       {{Role::x, {1, 0x1.000012p0F}}, {Role::running_mean, {1}}},
       Role::running_mean,
       0,
       f32,
       1 + 0x3p-24,
       1 + 0x1p-22},
      {"forward_training instance_norm n=2 g=1 k=1 s=3 running=1 momentum=1",
       {{Role::x, {5793, -5793, 0, 1, -1, 0}}},
       Role::running_var,
       0,
       f32,
       16779425,
       16779424},
      {"forward_training batch_norm n=2 g=1 k=1 s=1 running=1 momentum=0.5 convention=caffe",
       {{Role::running_weight, {0x1p-23F}}},
       Role::running_weight,
       0,
       f32,
       1 + 0x1p-24,
       1},
      // A value that is kept stays one of float32, which is a tie in a shorter format.
      {"forward_training batch_norm n=1 g=1 k=1 s=1 running=1 convention=pytorch,single:unchanged",
       {{Role::running_var, {0x1.03p0F}}},
       Role::running_var,
       0,
       b16,
       1 + 0x3p-8,
       1 + 0x1p-6},
      // dx = dy gamma r with given statistics: r = 1/3, 1/6 (also of a negative variance).
      {"backward_inference layer_norm n=1 g=1 k=1 s=1 given=saved beta=0 eps=1 convention=pytorch,saved:variance",
       {{Role::dy, {12291}}, {Role::gamma, {4097}}, {Role::stat, {8}}},
       Role::dx,
       0,
       f32,
       16785409,
       16785408},
      {given + "eps=36.25 convention=pytorch,saved:variance",
       {{Role::dy, {0x9p-149F}}, {Role::stat, {-0.25F}}},
       Role::dx,
       0,
       f32,
       0x3p-150,
       0x1p-148},
      {given + "eps=1 convention=pytorch,saved:variance",
       {{Role::dy, {196560}}, {Role::stat, {8}}},
       Role::dx,
       0,
       f16,
       65520,
       infinity},
      {given + "eps=1 convention=pytorch,saved:variance",
       {{Role::dy, {0x1.817ffep-1F}}, {Role::stat, {8}}},
       Role::dx,
       0,
       b16,
       0x1.01p-2,
       0.25,
       SavedUse::undeclared,
       -1},
      // dx in training: orthogonal to 1 and x^; in the null space of both; with handed statistics, short and textbook;
      // from the output.
      {backward + "k=4 beta=0 eps=1",
       {{Role::x, {4, -4, 0, 0}}, {Role::dy, {0, 0, 4097, -4097}}, {Role::gamma, {1, 1, 12291, 12291}}},
       Role::dx,
       2,
       f32,
       16785409,
       16785408},
      {backward + "k=3 gamma=0 beta=0 eps=0", {{Role::x, {1, 2, 4}}, {Role::dy, {12, 17, 27}}}, Role::dx, 1, f32, 0, 0},
      {"backward_training rms_norm n=1 g=1 k=3 s=1 gamma=0 beta=0 eps=0",
       {{Role::x, {1, 2, 3}}, {Role::dy, {-3, -6, -9}}},
       Role::dx,
       2,
       f32,
       0,
       0},
      {backward + "k=3 gamma=0 beta=0 eps=0 convention=pytorch,normalizing:n_minus_1,eps:outside",
       {{Role::x, {1, 2, 4}}, {Role::dy, {12, 17, 27}}},
       Role::dx,
       0,
       f32,
       0,
       0},
      {backward + "k=2 gamma=0 beta=0 saved=1",
       {{Role::x, {0, 4}}, {Role::dy, {0, 0x1.01p0F}}, {Role::mean, {1}}, {Role::stat, {0.5F}}},
       Role::dx,
       0,
       b16,
       -0x1.01p-4,
       -0x1p-4,
       SavedUse::short_form},
      {backward + "k=2 gamma=0 beta=0 saved=1",
       {{Role::x, {0, 4}}, {Role::dy, {0, 0x1.01p0F}}, {Role::mean, {1}}, {Role::stat, {0.5F}}},
       Role::dx,
       1,
       b16,
       -0x1.01p-3,
       -0x1p-3,
       SavedUse::textbook},
      {"backward_training rms_norm n=1 g=1 k=1 s=1 beta=0 saved=1 from_output=1",
       {{Role::y, {6}}, {Role::dy, {29}}, {Role::gamma, {3}}, {Role::stat, {1}}},
       Role::dx,
       0,
       b16,
       -261,
       -260,
       SavedUse::from_output},
      {"backward_training rms_norm n=1 g=1 k=1 s=1 saved=1 from_output=1",
       {{Role::y, {12292}}, {Role::dy, {4097}}, {Role::gamma, {3}}, {Role::beta, {1}}, {Role::stat, {1}}},
       Role::dgamma,
       0,
       f32,
       16785409,
       16785408,
       SavedUse::from_output},
      // dgamma: one root; roots 1/3 and 1/2 of two rows.
      {"backward_training batch_norm n=4 g=1 k=1 s=1 beta=0 eps=1",
       {{Role::x, {4, -4, 0, 0}}, {Role::dy, {0x3p22F, -0.75F, 5, 7}}},
       Role::dgamma,
       0,
       f32,
       16777217,
       16777216},
      {"backward_training layer_norm n=2 g=1 k=4 s=1 beta=0 eps=1",
       {{Role::x, {4, -4, 0, 0, 3, -1, -1, -1}}, {Role::dy, {0x3p22F, 1, 1, 1, 2, 1, 1, 1}}},
       Role::dgamma,
       0,
       f32,
       16777219,
       16777220},
      // Exactly 0 although both roots are irrational: -3/sqrt(1.5) + 6/sqrt(6); and the same under a tie.
      {"backward_training layer_norm n=2 g=1 k=4 s=1 beta=0 eps=1",
       {{Role::x, {-1, 0, 0, 1, -3, -1, 1, 3}}, {Role::dy, {3, 1, 1, 1, -2, 1, 1, 1}}},
       Role::dgamma,
       0,
       f32,
       0,
       0},
      {"backward_training layer_norm n=4 g=1 k=4 s=1 beta=0 eps=1",
       {{Role::x, {-1, 0, 0, 1, 4, -4, 0, 0, -3, -1, 1, 3, 3, -1, -1, -1}},
        {Role::dy, {3, 1, 1, 1, 0x3p22F, 1, 1, 1, -2, 1, 1, 1, 2, 1, 1, 1}}},
       Role::dgamma,
       0,
       f32,
       16777219,
       16777220},
      // The first two rows cancel, what is left of a third one's root is above the boundary.
      {"backward_training layer_norm n=3 g=1 k=4 s=1 beta=0 eps=1",
       {{Role::x, {-1, 0, 0, 1, -3, -1, 1, 3, 1, -1, 0, 0}}, {Role::dy, {3, 1, 1, 1, -2, 1, 1, 1, 0x1p-140F, 1, 1, 1}}},
       Role::dgamma,
       0,
       f32,
       0,
       0x1.a2p-141,
       SavedUse::undeclared,
       1},
      // Rows ±a with v = a² = 1 and 4: -1/sqrt(1 + eps) + 1/sqrt(1 + eps/4), 3/8 eps up to second order.
      {"backward_training layer_norm n=2 g=1 k=2 s=1 beta=0 eps=1.1754943508222875e-38",
       {{Role::x, {-1, 1, -2, 2}}, {Role::dy, {1, 1, -1, 1}}},
       Role::dgamma,
       0,
       f32,
       0x3p-129,
       0x3p-129,
       SavedUse::undeclared,
       -1},
      // Three rows whose constants and first orders in eps cancel: 0.26 (2^-366)² above a tie, where 512 bits do not
      // reach.
      {"backward_training layer_norm n=3 g=1 k=2 s=1 beta=0 eps=1.1754943508222875e-38 "
       "convention=pytorch,gradients:accumulate",
       {{Role::x, {0x1p120F, -0x1p120F, 0x1p121F, -0x1p121F, 0x1p122F, -0x1p122F}},
        {Role::dy, {1, 1, -5, 1, 4, 1}},
        {Role::dgamma, {0x1.01p0F, 0}}},
       Role::dgamma,
       0,
       b16,
       1 + 0x1p-8,
       1 + 0x1p-7,
       SavedUse::undeclared,
       1},
      {"backward_training layer_norm n=3 g=1 k=2 s=1 beta=0 eps=1.1754943508222875e-38 "
       "convention=pytorch,gradients:accumulate",
       {{Role::x, {0x1p120F, -0x1p120F, 0x1p121F, -0x1p121F, 0x1p122F, -0x1p122F}},
        {Role::dy, {-1, 1, 5, 1, -4, 1}},
        {Role::dgamma, {0x1.03p0F, 0}}},
       Role::dgamma,
       0,
       b16,
       1 + 0x3p-8,
       1 + 0x1p-7,
       SavedUse::undeclared,
       -1},
      // dbeta is a sum.
      {"backward_training batch_norm n=2 g=1 k=1 s=1 gamma=0",
       {{Role::dy, {16777216, 1}}},
       Role::dbeta,
       0,
       f32,
       16777217,
       16777216},
      {"backward_training layer_norm n=3 g=1 k=1 s=1 gamma=0 convention=pytorch,gradients:accumulate",
       {{Role::dy, {0x1p100F, 3, -0x1p100F}}, {Role::dbeta, {-3}}},
       Role::dbeta,
       0,
       f32,
       0,
       0},
  };
}

std::vector<Trial> all_trials() {
  std::vector<Trial> trials;
  for (const Case& each : cases()) {
    const ProblemOrError parsed = parse_problem(each.line);
    assert(parsed.problem);
    Trial trial{*parsed.problem, each.use, each.format,
                Known{each.role, each.at, each.boundary, each.side, each.expected}};
    for (const Data& tensor : each.data) trial.problem.values[tensor.role] = tensor.values;
    assert(check(trial.problem).empty());
    trials.push_back(std::move(trial));
  }
  return trials;
}

}  // namespace

const std::vector<Trial>& known_cases() {
  static const std::vector<Trial> trials = all_trials();
  return trials;
}

}  // namespace normgate::proof
