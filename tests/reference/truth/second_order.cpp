// The second order of the definition against differences of the forward, which know no derivative, a number that can be
// checked by hand, and the symmetry of second derivatives.
#include "reference/truth/second_order.hpp"

#include <cmath>

#include "reference/problem/groups.hpp"
#include "support.hpp"

namespace normgate {
namespace {

void expect_witnessed(const Problem& problem) {
  ASSERT_EQ(check(problem), "") << print(problem);
  const Inputs inputs = make_inputs(problem);
  const Truth truth = definition_forward(problem, inputs);
  const Differences witness = second_differences(problem, inputs);
  bool any_kink = false;
  for (const bool kink : witness.kink) any_kink = any_kink || kink;
  // Of all outputs: many a dx is 0.
  double largest = 0;
  for (const Role role : {Role::ddy, Role::dx, Role::dgamma})
    for (const Exact& value : truth.out[role]) largest = std::max(largest, std::fabs(value.hi));
  for (const Role role : {Role::ddy, Role::dx, Role::dgamma}) {
    const std::vector<Exact>& values = truth.out[role];
    ASSERT_EQ(values.size(), witness.out[role].size()) << print(problem);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (role == Role::dgamma
              ? any_kink
              : witness.kink[static_cast<std::size_t>(i) / static_cast<std::size_t>(group_size(problem))])
        continue;
      const Exact& other = witness.out[role][i];
      ASSERT_TRUE(values[i].finite() && other.finite()) << name_of(role) << " at " << i << " of " << print(problem);
      const double apart = std::fabs((values[i].hi - other.hi) + (values[i].lo - other.lo));
      EXPECT_LE(apart, values[i].bound + other.bound) << name_of(role) << " at " << i << " of " << print(problem);
      EXPECT_LE(apart, 1e-25 * largest) << name_of(role) << " at " << i << " of " << print(problem);
    }
  }
}

// A shape whose groups are contiguous, so that element / n is the group.
Shape contiguous(Variant variant, std::int64_t n) {
  switch (variant) {
    case Variant::batch_norm:
      return {n, 1, 1, 1};
    case Variant::layer_norm:
    case Variant::rms_norm:
      return {3, 1, n, 1};
    case Variant::group_norm:
      return {2, 2, n % 2 == 0 ? n / 2 : n, n % 2 == 0 ? 2 : 1};
    case Variant::instance_norm:
      return {2, 1, 2, n};
  }
  return {};
}

TEST(SecondOrder, DifferencesOfTheForwardWitnessIt) {
  std::uint64_t key = 1;
  for (const VariantRow& row : variant_table())
    for (const EpsPlacement eps : {EpsPlacement::inside, EpsPlacement::outside, EpsPlacement::floor})
      for (const NormalizingDivisor divisor : {NormalizingDivisor::n, NormalizingDivisor::n_minus_1})
        for (const std::int64_t n : {1, 2, 3, 5, 8, 17}) {
          Problem problem;
          problem.phase = Phase::double_backward;
          problem.variant = row.variant;
          problem.shape = contiguous(row.variant, n);
          problem.convention.eps = eps;
          problem.convention.normalizing = divisor;
          problem.convention.single = SingleCount::zero;  // under n-1 one value is nothing else to judge
          problem.convention.gamma = key % 3 == 0 ? GammaOffset::plus_one : GammaOffset::plain;
          constexpr std::array epsilons{9.99999974737875163555145263671875e-06, 0.25, 2.0};
          problem.eps = epsilons[key % 3];
          constexpr std::array kappas{0.0, 1.0, 10.0, 100.0, 1e4};
          problem.kappa = kappas[key % 5];
          problem.gamma = key % 7 != 0;
          problem.beta = key % 4 != 0;
          problem.key = key++;
          expect_witnessed(problem);
        }
}

TEST(SecondOrder, ConstantGroupsOutsideTheKinks) {
  for (const char* convention : {"", " convention=pytorch,eps:outside", " convention=pytorch,eps:floor"})
    for (const char* variant : {"layer_norm", "rms_norm"})
      expect_witnessed(problem_of(std::string("double_backward ") + variant + " n=2 g=1 k=5 s=1" + convention +
                                  " profile=constant eps=0.5 key=0x7"));
}

TEST(SecondOrder, OneElementOfRmsByHand) {
  // y = x/sqrt(x²+e): y' = e r³, y'' = -3 e x r⁵. With x = 1, e = 3: r = 1/2, y' = 3/8, y'' = -9/32. dx = dy y', so
  // ddy = ddx y' and dL/dx = ddx dy y''.
  const Truth truth =
      truth_of("double_backward rms_norm n=1 g=1 k=1 s=1 gamma=0 beta=0 eps=3 values=x:[1];dy:[2];ddx:[4]");
  EXPECT_EQ(truth.out[Role::ddy].at(0).hi, 4 * 3.0 / 8);
  EXPECT_EQ(truth.out[Role::dx].at(0).hi, -4 * 2 * 9.0 / 32);
  EXPECT_TRUE(truth.out[Role::dgamma].empty());
}

TEST(SecondOrder, GammaAndBetaByHand) {
  // The same with gamma = 5, ddgamma = 7, ddbeta = 11: x^ = 1/2. ddy = 5·4·3/8 + 7/2 + 11, dgamma = 2·4·3/8,
  // dL/dx = 5·2·4·(-9/32) + 7·2·3/8.
  const Truth truth = truth_of(
      "double_backward rms_norm n=1 g=1 k=1 s=1 eps=3 "
      "values=x:[1];gamma:[5];dy:[2];ddx:[4];ddgamma:[7];ddbeta:[11]");
  EXPECT_EQ(truth.out[Role::ddy].at(0).hi, 7.5 + 3.5 + 11);
  EXPECT_EQ(truth.out[Role::dgamma].at(0).hi, 3);
  EXPECT_EQ(truth.out[Role::dx].at(0).hi, -11.25 + 5.25);
}

// dx of the second order is H ddx with the Hessian H of sum dy y in x where ddgamma is 0: <v, H u> = <u, H v>. And ddy
// is J ddx, so that <dy, J ddx> is L itself, which is linear in ddx.
TEST(SecondOrder, TheHessianIsSymmetric) {
  for (const VariantRow& row : variant_table())
    for (const char* convention : {"pytorch", "pytorch,eps:outside", "pytorch,normalizing:n_minus_1"}) {
      Problem problem;
      problem.phase = Phase::double_backward;
      problem.variant = row.variant;
      problem.shape = {4, 2, 3, 5};
      problem.convention = *parse_convention(convention).convention;
      problem.kappa = 3;
      problem.key = 11;
      const Inputs inputs = make_inputs(problem);
      Inputs first = inputs;
      std::fill(first[Role::ddgamma].begin(), first[Role::ddgamma].end(), 0.0F);
      Inputs second = first;
      for (std::size_t i = 0; i < second[Role::ddx].size(); ++i)
        second[Role::ddx][i] = static_cast<float>((i * i) % 11) - 4;
      const Truth of_first = second_order(problem, first);
      const Truth of_second = second_order(problem, second);
      double left = 0, right = 0, terms = 0;
      for (std::size_t i = 0; i < first[Role::ddx].size(); ++i) {
        const double a = static_cast<double>(second[Role::ddx][i]) * of_first.out[Role::dx][i].hi;
        left += a;
        right += static_cast<double>(first[Role::ddx][i]) * of_second.out[Role::dx][i].hi;
        terms += std::fabs(a);
      }
      EXPECT_NEAR(left, right, 1e-12 * terms) << row.name << " " << convention;
    }
}

TEST(SecondOrder, AnEmptyBatchHasNone) {
  const Truth truth = truth_of("double_backward batch_norm n=0 g=1 k=3 s=4");
  EXPECT_TRUE(truth.out[Role::dx].empty());
  ASSERT_EQ(truth.out[Role::dgamma].size(), 3U);
  EXPECT_EQ(truth.out[Role::dgamma][1].hi, 0);
}

}  // namespace
}  // namespace normgate
