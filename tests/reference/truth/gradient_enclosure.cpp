// The promise of Exact for the gradients, |truth - (hi + lo)| <= bound, against 400 digits: formulas written through x
// - mean where the truth's are through x^, the textbook's through the gradients of variance and mean, decisions over
// rationals or the floats themselves. Four times the digits: what is rounded here is below 10^-300 of the terms.
#include <boost/multiprecision/gmp.hpp>
#include <boost/multiprecision/mpfr.hpp>
#include <limits>
#include <map>

#include "drawn.hpp"
#include "reference/truth/backward.hpp"

namespace normgate {
namespace {

using Real =
    boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<400>, boost::multiprecision::et_off>;

Real real(float value) { return Real(static_cast<double>(value)); }

// ---- problems -----------------------------------------------------------------------------------------------------

Problem draw_problem(Draw& draw) {
  Problem problem;
  problem.variant = static_cast<Variant>(1 + draw.below(5));
  const bool has_running = problem.variant == Variant::batch_norm || problem.variant == Variant::instance_norm;
  for (std::int64_t& extent : problem.shape) extent = draw.below(16) == 0 ? 0 : 1 + draw.below(4);
  if (draw.below(8) == 0) problem.shape[draw.below(4)] = 17 + draw.below(48);
  problem.gamma = draw.below(4) != 0;
  problem.beta = draw.below(4) != 0;
  Convention& convention = problem.convention;
  convention.normalizing = any<NormalizingDivisor>(draw, 2);
  convention.single = any<SingleCount>(draw, 3);
  convention.momentum = any<MomentumForm>(draw, 4);
  convention.eps = any<EpsPlacement>(draw, 3);
  convention.gamma = any<GammaOffset>(draw, 2);
  convention.saved = any<SavedStatistic>(draw, 2);
  convention.gradients = any<Gradients>(draw, 2);
  convention.scalars = any<Scalars>(draw, 2);
  problem.phase = Phase::backward_training;
  if (draw.below(4) == 0) {
    problem.phase = Phase::backward_inference;
    problem.given = has_running && draw.coin() ? Given::running : Given::saved;
  } else if (draw.below(4) != 0) {
    problem.saved = true;
    problem.handed = any<Handed>(draw, 2);
    problem.from_output = draw.below(4) == 0;
  }
  const bool doubles = convention.scalars == Scalars::float64;
  problem.eps =
      one_of(draw, std::initializer_list<double>{0x1p-126, static_cast<double>(1e-5F), 1.0, 0x1p126, 0x1.8p-40,
                                                 doubles ? 1e-5 : 0.25, doubles ? 1.1e-38 * 1.1 : 3.0});
  do {
    problem.profile = any<Profile>(draw, 9);
  } while (problem.profile == Profile::special);  // the subject of gradient_special_values.cpp
  problem.cotangent = any<Cotangent>(draw, 6);
  problem.kappa = one_of(draw, std::initializer_list<double>{0, 1, 1000, 1e6});
  problem.scale = one_of(draw, std::initializer_list<std::int32_t>{-60, -7, 0, 13, 60});
  problem.key = draw.word();
  return problem;
}

Inputs draw_inputs(Draw& draw, const Problem& problem) {
  Inputs inputs = make_inputs(problem);
  for (std::size_t r = 0; r < role_count; ++r) {
    const Role role = static_cast<Role>(r);
    const std::uint32_t kind = draw.below(12);
    const bool variance = role == Role::stat || role == Role::running_var || role == Role::running_weight;
    if (kind >= 1 && kind <= 5) spoil(draw, inputs[role], kind, variance);
    // Next to where a decision is made or a root cancels: 1/r = eps, 1/r² = eps, v = eps.
    if (role == Role::stat && kind >= 6 && kind <= 8)
      for (float& value : inputs[role]) {
        value = static_cast<float>(kind == 6 ? 1 / problem.eps : kind == 7 ? 1 / std::sqrt(problem.eps) : problem.eps);
        const std::uint32_t side = draw.below(3);
        if (side > 0) value = std::nextafter(value, side == 1 ? 0.0F : 1e38F);
      }
  }
  return inputs;
}

// ---- the other evaluation -----------------------------------------------------------------------------------------

// A value, and the sum of the moduli of what it is a sum of.
struct Value {
  Real value{0};
  Real terms{0};
  void add(const Real& term) {
    value += term;
    terms += abs(term);
  }
};

struct Gradients400 {
  std::vector<Value> dx;
  std::vector<Value> dgamma;
  std::vector<Value> dbeta;
};

class Evaluation {
 public:
  Evaluation(const Problem& problem, const Inputs& inputs, SavedUse use)
      : problem_(problem), inputs_(inputs), use_(problem.saved ? use : SavedUse::recomputes) {
    group_ = groups_of(problem);
    channel_ = channels_of(problem);
    const auto channels = static_cast<std::size_t>(problem.shape[1] * problem.shape[2]);
    result_.dx.resize(group_.size());
    if (problem.gamma) result_.dgamma.resize(channels);
    if (problem.beta) result_.dbeta.resize(channels);
    const bool accumulate = problem.convention.gradients == Gradients::accumulate;
    for (std::size_t c = 0; accumulate && c < channels; ++c) {
      if (problem.gamma) result_.dgamma[c].add(real(inputs[Role::dgamma][c]));
      if (problem.beta) result_.dbeta[c].add(real(inputs[Role::dbeta][c]));
    }
    std::map<std::size_t, std::vector<std::size_t>> members;
    for (std::size_t i = 0; i < group_.size(); ++i) members[group_[i]].push_back(i);
    for (const auto& [q, elements] : members)
      if (is_training(problem.phase))
        train(q, elements);
      else
        infer(q, elements);
  }
  [[nodiscard]] const Gradients400& result() const { return result_; }

 private:
  [[nodiscard]] bool centred() const { return problem_.variant != Variant::rms_norm; }
  [[nodiscard]] bool n_minus_1() const {
    return centred() && problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
  }
  [[nodiscard]] Real gamma(std::size_t i) const {
    if (!problem_.gamma) return Real(1);
    const Real w = real(inputs_[Role::gamma][channel_[i]]);
    return problem_.convention.gamma == GammaOffset::plus_one ? Real(1 + w) : w;
  }
  [[nodiscard]] Real dy(std::size_t i) const { return real(inputs_[Role::dy][i]); }
  [[nodiscard]] Real x(std::size_t i) const { return real(inputs_[Role::x][i]); }

  [[nodiscard]] Real deviation(const Real& v) const {
    const Real eps(problem_.eps);
    switch (problem_.convention.eps) {
      case EpsPlacement::outside:
        return sqrt(v) + eps;
      case EpsPlacement::floor:
        return sqrt(v < eps ? eps : v);
      case EpsPlacement::inside:
        break;
    }
    return sqrt(Real(v + eps));
  }

  void add_parameters(std::size_t i, const Real& normalized, const Real& normalized_terms) {
    if (problem_.gamma) {
      result_.dgamma[channel_[i]].value += dy(i) * normalized;
      result_.dgamma[channel_[i]].terms += abs(dy(i)) * normalized_terms;
    }
    if (problem_.beta) result_.dbeta[channel_[i]].add(dy(i));
  }

  // D(v) and what -2 dr/dv is, of the group's own variance or of a handed statistic.
  struct Slopes {
    Real r;
    Real q;
  };
  [[nodiscard]] Slopes own(const std::vector<std::size_t>& elements, const std::vector<Real>& d) const {
    const auto n = static_cast<std::int64_t>(elements.size());
    Real v(0);
    for (const Real& value : d) v += value * value;
    const bool zero_by_convention = n_minus_1() && n == 1 && problem_.convention.single != SingleCount::nan;
    if (!zero_by_convention) v /= n_minus_1() ? n - 1 : n;
    bool constant = true;
    for (const std::size_t i : elements)
      constant = constant && inputs_[Role::x][i] == (centred() ? inputs_[Role::x][elements[0]] : 0.0F);
    if (constant && !(n_minus_1() && n == 1)) v = 0;
    const Real r = 1 / deviation(v);
    Slopes slopes{r, r * r * r};
    if (problem_.convention.eps == EpsPlacement::outside) slopes.q = v == 0 ? Real(0) : Real(r * r / sqrt(v));
    // A difference of v and eps that is not 0 is far above 10^-200 of them.
    const Real eps(problem_.eps);
    if (problem_.convention.eps == EpsPlacement::floor && !(v - eps > eps * Real("1e-200"))) slopes.q = 0;
    return slopes;
  }
  [[nodiscard]] Slopes handed(const Real& stat) const {
    const Real eps(problem_.eps);
    const bool reciprocal = problem_.convention.saved == SavedStatistic::rstd;
    const Real r = reciprocal ? stat : Real(1 / deviation(stat));
    Slopes slopes{r, r * r * r};
    if (problem_.convention.eps == EpsPlacement::outside) {
      const Real root = reciprocal ? Real(1 / r - eps) : Real(sqrt(stat));
      slopes.q = root == 0 ? Real(0) : Real(r * r / root);
    }
    if (problem_.convention.eps == EpsPlacement::floor)
      if (!(reciprocal ? 1 > eps * r * r : stat > eps)) slopes.q = 0;
    return slopes;
  }

  void train(std::size_t q, const std::vector<std::size_t>& elements) {
    const auto n = static_cast<std::int64_t>(elements.size());
    Real mean(0);
    if (!problem_.from_output && centred()) {
      const bool given = use_ == SavedUse::short_form || use_ == SavedUse::textbook;
      if (given) {
        mean = real(inputs_[Role::mean][q]);
      } else {
        for (const std::size_t i : elements) mean += x(i);
        mean /= n;
      }
    }
    std::vector<Real> d;
    Slopes slopes;
    if (problem_.from_output) {
      // x^ in place of d, and the slope for it, -2 (dr/dv) / r².
      slopes = handed(real(inputs_[Role::stat][q]));
      slopes.q = slopes.q / slopes.r / slopes.r;
      if (slopes.r == 0) slopes.q = 0;
      for (const std::size_t i : elements) {
        const Real beta = problem_.beta ? real(inputs_[Role::beta][channel_[i]]) : Real(0);
        d.push_back((real(inputs_[Role::y][i]) - beta) / gamma(i));
      }
    } else {
      for (const std::size_t i : elements) d.push_back(Real(x(i) - mean));
      slopes = use_ == SavedUse::short_form || use_ == SavedUse::textbook ? handed(real(inputs_[Role::stat][q]))
                                                                          : own(elements, d);
    }
    Value g;
    Value gd;
    Value sum_of_d;
    for (std::size_t p = 0; p < elements.size(); ++p) {
      const std::size_t i = elements[p];
      g.add(dy(i) * gamma(i));
      gd.add(dy(i) * gamma(i) * d[p]);
      sum_of_d.add(d[p]);
      const Real normalized = problem_.from_output ? d[p] : Real(d[p] * slopes.r);
      add_parameters(i, normalized, abs(normalized));
    }
    const std::int64_t divisor = n_minus_1() ? n - 1 : n;
    const bool constant = n_minus_1() && n == 1 && problem_.convention.single != SingleCount::nan;
    const Real over = constant ? Real(0) : Real(Real(1) / divisor);  // 1/0 is infinite: 0/0 is not a number
    const bool textbook = use_ == SavedUse::textbook && !problem_.from_output;
    for (std::size_t p = 0; p < elements.size(); ++p) {
      const std::size_t i = elements[p];
      Value& dx = result_.dx[i];
      const Real own_g = dy(i) * gamma(i);
      if (textbook) {
        const Real dvar = -slopes.q * gd.value / 2;
        dx.value = own_g * slopes.r + dvar * 2 * d[p] * over;
        if (centred()) dx.value += (-slopes.r * g.value + dvar * -2 * sum_of_d.value * over) / n;
      } else {
        dx.value = slopes.r * own_g - slopes.q * d[p] * gd.value * over;
        if (centred()) dx.value -= slopes.r * g.value / n;
      }
      dx.terms = abs(slopes.r) * (abs(own_g) + (centred() ? Real(g.terms / n) : Real(0))) +
                 abs(slopes.q) * gd.terms * over *
                     (abs(d[p]) + (textbook && centred() ? Real(abs(sum_of_d.value) / n) : Real(0)));
    }
  }

  void infer(std::size_t q, const std::vector<std::size_t>& elements) {
    Real mean(0);
    Real r;
    if (problem_.given == Given::running) {
      const std::size_t c = channel_[elements[0]];
      Real weight(1);
      if (problem_.convention.momentum == MomentumForm::accumulated_weight)
        weight = real(inputs_[Role::running_weight][0]);
      Real variance(0);
      if (weight != 0) {
        mean = real(inputs_[Role::running_mean][c]) / weight;
        variance = real(inputs_[Role::running_var][c]) / weight;
      }
      r = 1 / deviation(variance);
    } else {
      if (centred()) mean = real(inputs_[Role::mean][q]);
      const Real stat = real(inputs_[Role::stat][q]);
      r = problem_.convention.saved == SavedStatistic::rstd ? stat : Real(1 / deviation(stat));
    }
    for (const std::size_t i : elements) {
      result_.dx[i].add(dy(i) * gamma(i) * r);
      add_parameters(i, (x(i) - mean) * r, (abs(x(i)) + abs(mean)) * abs(r));
    }
  }

  const Problem& problem_;
  const Inputs& inputs_;
  SavedUse use_;
  std::vector<std::size_t> group_;
  std::vector<std::size_t> channel_;
  Gradients400 result_;
};

// ---- the comparison -----------------------------------------------------------------------------------------------

bool encloses(const Exact& exact, const Value& value) {
  if (!exact.finite()) return false;
  const Real distance = abs(Real(Real(exact.hi) + Real(exact.lo) - value.value));
  return distance <= Real(exact.bound) + value.terms * Real("1e-300");
}

class Tally {
 public:
  void compare(const std::string& what, const std::vector<Exact>& got, const std::vector<Value>& wanted) {
    ASSERT_EQ(got.size(), wanted.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Exact& exact = got[i];
      const Value& value = wanted[i];
      if (!isfinite(value.value)) {
        ++compared_["undefined"];
        EXPECT_FALSE(exact.finite()) << what << " at " << i << " is " << exact.hi;
        continue;
      }
      ++compared_[what];
      EXPECT_TRUE(encloses(exact, value)) << what << " at " << i << ": the truth is not within " << exact.bound
                                          << " of " << exact.hi << " + " << exact.lo;
      if (!exact.finite()) continue;
      // A bound that would excuse anything proves nothing.
      const double terms = static_cast<double>(value.terms);
      EXPECT_LE(exact.bound, 0x1p-104 * std::fabs(exact.hi) + 0x1p-254 * terms + 0x1p-1072) << what << " at " << i;
      const double next = std::nextafter(std::fabs(exact.hi), std::numeric_limits<double>::infinity());
      EXPECT_LE(std::fabs(exact.lo), (next - std::fabs(exact.hi)) / 2);
    }
  }
  void compare(const std::string& what, const Problem& problem, const Inputs& inputs, SavedUse use) {
    const Truth truth = definition_backward(problem, inputs, use);
    const Evaluation evaluation(problem, inputs, use);
    compare(what + " dx", truth.out[Role::dx], evaluation.result().dx);
    compare(what + " dgamma", truth.out[Role::dgamma], evaluation.result().dgamma);
    compare(what + " dbeta", truth.out[Role::dbeta], evaluation.result().dbeta);
  }
  [[nodiscard]] std::size_t compared(const std::string& what) { return compared_[what]; }

 private:
  std::map<std::string, std::size_t> compared_;
};

TEST(GradientEnclosure, TheTruthIsWithinItsBound) {
  Draw draw(27182);
  Tally tally;
  for (int trial = 0; trial < 2500 && !testing::Test::HasFailure(); ++trial) {
    const Problem problem = draw_problem(draw);
    ASSERT_EQ(check(problem), "");
    const Inputs inputs = draw_inputs(draw, problem);
    SCOPED_TRACE(print(problem));
    if (problem.from_output) {
      tally.compare("output", problem, inputs, SavedUse::from_output);
    } else if (!is_training(problem.phase)) {
      tally.compare("inference", problem, inputs, SavedUse::undeclared);
    } else if (problem.saved) {
      tally.compare("short", problem, inputs, SavedUse::short_form);
      tally.compare("textbook", problem, inputs, SavedUse::textbook);
    } else {
      tally.compare("derivative", problem, inputs, SavedUse::recomputes);
    }
  }
  for (const std::string what : {"output", "inference", "short", "textbook", "derivative"}) {
    EXPECT_GT(tally.compared(what + " dx"), 2000U) << what;
    EXPECT_GT(tally.compared(what + " dgamma"), 150U) << what;
    EXPECT_GT(tally.compared(what + " dbeta"), 150U) << what;
  }
  EXPECT_GT(tally.compared("undefined"), 30U);
}

// Long groups, where a sum's rounding would show, and many groups for one dgamma.
TEST(GradientEnclosure, HoldsForLongSums) {
  Draw draw(8);
  Tally tally;
  for (const char* line : {"backward_training layer_norm n=1 g=1 k=4000 s=1", "backward_training batch_norm n=4000",
                           "backward_training layer_norm n=800 g=1 k=5 s=1", "backward_training rms_norm n=2000 k=2",
                           "backward_inference instance_norm n=700 g=1 k=1 s=3 given=running convention=caffe"}) {
    SCOPED_TRACE(line);
    const Problem problem = problem_of(line);
    for (const std::uint32_t kind : {1U, 2U, 0U}) {
      Inputs inputs = make_inputs(problem);
      if (kind > 0)
        for (const Role role : {Role::x, Role::dy}) spoil(draw, inputs[role], kind, false);
      tally.compare("long", problem, inputs, SavedUse::recomputes);
    }
  }
  EXPECT_GT(tally.compared("long dx"), 45000U);
}

// A given variance just above -eps, divided by an accumulated weight: the one sum under the root that can cancel.
TEST(GradientEnclosure, HoldsWhereANegativeVarianceCancelsAgainstEps) {
  Draw draw(78);
  Tally tally;
  for (int trial = 0; trial < 200; ++trial) {
    Problem problem = problem_of("backward_inference batch_norm n=2 g=1 k=4 s=1 given=running convention=caffe");
    problem.convention.scalars = Scalars::float64;
    problem.eps = (1 + static_cast<double>(draw.word()) * 0x1p-32) * 0x1p-10;
    problem.key = draw.word();
    Inputs inputs = make_inputs(problem);
    const float weight = 1 + static_cast<float>(draw.below(1U << 20U)) * 0x1p-20F;
    inputs[Role::running_weight] = {weight};
    for (float& variance : inputs[Role::running_var]) {
      variance = static_cast<float>(-problem.eps * static_cast<double>(weight));
      if (draw.coin()) variance = std::nextafter(variance, 0.0F);
    }
    tally.compare("cancelling", problem, inputs, SavedUse::recomputes);
  }
  EXPECT_GT(tally.compared("cancelling dx"), 500U);
  EXPECT_GT(tally.compared("cancelling dgamma"), 250U);
  EXPECT_GT(tally.compared("undefined"), 100U);
}

// 1/r - eps where r is next to 1/eps: what is left has 77 bits less than r.
TEST(GradientEnclosure, HoldsWhereTheRootOfAHandedReciprocalCancels) {
  Draw draw(79);
  Tally tally;
  for (int trial = 0; trial < 300; ++trial) {
    Problem problem = problem_of("backward_training layer_norm n=2 g=1 k=3 s=1 saved=1 convention=pytorch,eps:outside");
    problem.convention.scalars = Scalars::float64;
    problem.key = draw.word();
    const float r = static_cast<float>(1 + draw.below(1U << 23U)) * 0x1p-12F;
    problem.eps = 1 / static_cast<double>(r);
    if (draw.coin()) problem.eps = std::nextafter(problem.eps, 0.0);
    Inputs inputs = make_inputs(problem);
    inputs[Role::stat] = {r, std::nextafter(r, 0.0F)};
    tally.compare("cancelling", problem, inputs, SavedUse::short_form);
    tally.compare("cancelling", problem, inputs, SavedUse::textbook);
  }
  EXPECT_EQ(tally.compared("cancelling dx"), 3600U);
}

// Nine values with the mean 1/3 and the variance 2: neither is exact in binary, the floor's decision is.
TEST(GradientEnclosure, TheFloorIsDecidedExactly) {
  Tally tally;
  for (const char* arguments : {"layer_norm n=1 g=1 k=9 s=1", "batch_norm n=9 g=1 k=1 s=1"}) {
    const std::string line = std::string("backward_training ") + arguments +
                             " gamma=0 beta=0 convention=pytorch,eps:floor values=x:[4,1,-1,-1,0,0,0,0,0]";
    for (const char* eps : {" eps=2", " eps=1.9999998807907104", " eps=2.000000238418579"}) {
      const Problem problem = problem_of(line + eps);
      tally.compare("floor", problem, make_inputs(problem), SavedUse::recomputes);
    }
    // At the kink the variance does not count: with one 9 for dy, dx = r (g - 1).
    Problem problem = problem_of(line + " eps=2");
    problem.values[Role::dy] = {9, 0, 0, 0, 0, 0, 0, 0, 0};
    const Truth truth = definition_backward(problem, make_inputs(problem), SavedUse::recomputes);
    EXPECT_DOUBLE_EQ(truth.out[Role::dx][0].hi, 8 / std::sqrt(2.0));
    EXPECT_DOUBLE_EQ(truth.out[Role::dx][1].hi, -1 / std::sqrt(2.0));
  }
  EXPECT_EQ(tally.compared("floor dx"), 54U);
}

// The comparison is sharp: values that are off by four bounds are refused, and so is another use of the same inputs.
TEST(GradientEnclosure, RefusesWhatIsOffByAFewBounds) {
  const Problem problem = problem_of("backward_training layer_norm n=2 g=1 k=9 s=1 kappa=1000 saved=1 key=0x2");
  const Inputs inputs = make_inputs(problem);
  const Truth truth = definition_backward(problem, inputs, SavedUse::short_form);
  const Evaluation evaluation(problem, inputs, SavedUse::short_form);
  const Evaluation textbook(problem, inputs, SavedUse::textbook);
  const Evaluation derivative(problem, inputs, SavedUse::recomputes);
  for (std::size_t i = 0; i < 18; ++i) {
    const Exact& dx = truth.out[Role::dx][i];
    EXPECT_TRUE(encloses(dx, evaluation.result().dx[i]));
    for (const double factor : {-4.0, 4.0}) {
      Exact moved = dx;
      moved.lo += factor * dx.bound;
      ASSERT_NE(moved.lo, dx.lo);
      EXPECT_FALSE(encloses(moved, evaluation.result().dx[i]));
    }
    EXPECT_FALSE(encloses(dx, textbook.result().dx[i]));
    EXPECT_FALSE(encloses(dx, derivative.result().dx[i]));
  }
}

}  // namespace
}  // namespace normgate
