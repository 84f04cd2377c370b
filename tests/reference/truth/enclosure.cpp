// The promise of Exact, |truth - (hi + lo)| <= bound, decided without any rounding and without a line of the
// definition's code. Mean, variance and state are rational; y is A + B/D where D² (or D - eps, outside the root,
// squared) is rational, so whether it lies within [hi + lo - bound, hi + lo + bound] follows from signs and from
// squares.
#include <boost/multiprecision/gmp.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "drawn.hpp"

namespace normgate {
namespace {

using Rational = boost::multiprecision::number<boost::multiprecision::gmp_rational, boost::multiprecision::et_off>;

int sign_of(const Rational& value) { return value.sign(); }

// Sign of p - q √w, w >= 0.
int sign_of_difference(const Rational& p, const Rational& q, const Rational& w) {
  const int left = sign_of(p);
  const int right = sign_of(w) == 0 ? 0 : sign_of(q);
  if (left != right) return left > right ? 1 : -1;
  return left * sign_of(Rational(p * p - q * q * w));
}

// The denominator D > 0 of a normalization.
struct Denominator {
  EpsPlacement placement = EpsPlacement::inside;
  Rational variance;
  Rational eps;

  enum class Kind { positive, zero, undefined };
  [[nodiscard]] Kind kind() const {
    if (placement == EpsPlacement::outside) {
      if (sign_of(variance) < 0) return Kind::undefined;
      return sign_of(variance) == 0 && sign_of(eps) == 0 ? Kind::zero : Kind::positive;
    }
    const int sign = sign_of(square());
    return sign > 0 ? Kind::positive : sign == 0 ? Kind::zero : Kind::undefined;
  }
  // Sign of b/D - c.
  [[nodiscard]] int compare(const Rational& b, const Rational& c) const {
    if (placement == EpsPlacement::outside) return sign_of_difference(b - c * eps, c, variance);
    return sign_of_difference(b, c, square());
  }

 private:
  [[nodiscard]] Rational square() const {
    if (placement == EpsPlacement::inside) return variance + eps;
    return variance < eps ? eps : variance;
  }
};

bool encloses(const Exact& exact, const Rational& value) {
  if (!exact.finite()) return false;
  const Rational middle = Rational(exact.hi) + Rational(exact.lo);
  return abs(Rational(value - middle)) <= Rational(exact.bound);
}
// a + b/D
bool encloses(const Exact& exact, const Rational& a, const Rational& b, const Denominator& d) {
  if (!exact.finite()) return false;
  const Rational middle = Rational(exact.hi) + Rational(exact.lo) - a;
  return d.compare(b, middle - Rational(exact.bound)) >= 0 && d.compare(b, middle + Rational(exact.bound)) <= 0;
}

double size_of(const Rational& value) { return std::fabs(value.convert_to<double>()); }

// A bound that would excuse anything proves nothing: 2^-104 of the value, 2^-254 of its terms.
void expect_sharp(const Exact& exact, double terms) {
  if (!exact.finite()) return;  // refused already
  EXPECT_LE(exact.bound, 0x1p-104 * std::fabs(exact.hi) + 0x1p-254 * terms + 0x1p-1072);
  const double next = std::nextafter(std::fabs(exact.hi), std::numeric_limits<double>::infinity());
  EXPECT_LE(std::fabs(exact.lo), (next - std::fabs(exact.hi)) / 2);
}

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
  convention.stored = any<StoredDivisor>(draw, 2);
  convention.single = any<SingleCount>(draw, 3);
  convention.momentum = any<MomentumForm>(draw, 4);
  convention.eps = any<EpsPlacement>(draw, 3);
  convention.gamma = any<GammaOffset>(draw, 2);
  convention.saved = any<SavedStatistic>(draw, 2);
  convention.scalars = any<Scalars>(draw, 2);
  if (draw.coin()) {
    problem.phase = Phase::forward_inference;
    problem.given = has_running && draw.coin() ? Given::running : Given::saved;
  } else {
    problem.saved = draw.coin();
    problem.running = has_running && draw.below(4) != 0;
  }
  const bool doubles = convention.scalars == Scalars::float64;
  problem.eps =
      one_of(draw, std::initializer_list<double>{0x1p-126, static_cast<double>(1e-5F), 1.0, 0x1p126, 0x1.8p-40,
                                                 doubles ? 1e-5 : 0.25, doubles ? 1.1e-38 * 1.1 : 3.0});
  problem.momentum =
      one_of(draw, std::initializer_list<double>{0, 1, static_cast<double>(0.1F), static_cast<double>(0.9F), 0x1p-149,
                                                 doubles ? 0.1 : 0.5, doubles ? 0x1p-1074 : 0.75});
  problem.step = 1 + draw.below(1000);
  do {
    problem.profile = any<Profile>(draw, 9);
  } while (problem.profile == Profile::special);  // the subject of special_values.cpp
  problem.kappa = one_of(draw, std::initializer_list<double>{0, 1, 1000, 1e6});
  problem.scale = one_of(draw, std::initializer_list<std::int32_t>{-60, -7, 0, 13, 60});
  problem.key = draw.word();
  return problem;
}

Inputs draw_inputs(Draw& draw, const Problem& problem) {
  Inputs inputs = make_inputs(problem);
  for (std::size_t r = 0; r < role_count; ++r) {
    const Role role = static_cast<Role>(r);
    const std::uint32_t kind = draw.below(10);
    const bool variance = role == Role::stat || role == Role::running_var || role == Role::running_weight;
    if (kind >= 1 && kind <= 5) spoil(draw, inputs[role], kind, variance);
  }
  return inputs;
}

// ---- the independent evaluation -----------------------------------------------------------------------------------

struct Element {
  std::size_t group;
  std::size_t channel;
  Rational x;
};

struct Evaluation {
  explicit Evaluation(const Problem& p, const Inputs& i) : problem(p), inputs(i) {
    std::size_t index = 0;
    for (std::int64_t n = 0; n < p.shape[0]; ++n)
      for (std::int64_t g = 0; g < p.shape[1]; ++g)
        for (std::int64_t k = 0; k < p.shape[2]; ++k)
          for (std::int64_t s = 0; s < p.shape[3]; ++s) {
            elements.push_back({group_of(p, n, g, k, s), static_cast<std::size_t>(g * p.shape[2] + k),
                                number(inputs[Role::x][index])});
            ++index;
          }
  }
  static Rational number(float value) { return Rational(static_cast<double>(value)); }

  const Problem& problem;
  const Inputs& inputs;
  std::vector<Element> elements;
};

class Tally {
 public:
  void operator()(bool enclosed, const char* what, const Exact& exact, std::size_t at) {
    ++compared_[what];
    if (!enclosed && ++failures_ <= 5)
      ADD_FAILURE() << what << " at " << at << ": the truth is not within " << exact.bound << " of " << exact.hi
                    << " + " << exact.lo;
  }
  [[nodiscard]] std::size_t compared(const std::string& what) { return compared_[what]; }

 private:
  std::map<std::string, std::size_t> compared_;
  std::size_t failures_ = 0;
};

// One group's statistics; a variance of 0/0 is undefined.
struct Moments {
  Rational mean{0};
  Rational modulus{0};  // |mean| in a sum over groups
  Rational squares{0};  // of the deviations
  std::int64_t n = 0;
  [[nodiscard]] std::optional<Rational> variance(bool n_minus_1, SingleCount single) const {
    if (!n_minus_1) return Rational(squares / n);
    if (n > 1) return Rational(squares / (n - 1));
    if (single == SingleCount::nan) return std::nullopt;
    return Rational(0);
  }
};

std::vector<Moments> moments_of(const Evaluation& evaluation, std::size_t groups, bool centred) {
  std::vector<Moments> moments(groups);
  for (const Element& element : evaluation.elements) {
    Moments& m = moments[element.group];
    ++m.n;
    if (centred) m.mean += element.x;
  }
  for (Moments& m : moments)
    if (m.n > 0) m.mean /= m.n;
  for (const Element& element : evaluation.elements) {
    Moments& m = moments[element.group];
    const Rational d = element.x - m.mean;
    m.squares += d * d;
  }
  return moments;
}

void judge_y(const Evaluation& evaluation, const Truth& truth, std::size_t i, const Rational& mean,
             const std::function<void(const Rational&, const Rational&, double)>& compare) {
  const Problem& problem = evaluation.problem;
  const Element& element = evaluation.elements[i];
  Rational gamma(1);
  if (problem.gamma) gamma = Evaluation::number(evaluation.inputs[Role::gamma][element.channel]);
  if (problem.gamma && problem.convention.gamma == GammaOffset::plus_one) gamma += 1;
  Rational beta(0);
  if (problem.beta) beta = Evaluation::number(evaluation.inputs[Role::beta][element.channel]);
  const double rstd = std::fabs(truth.groups[element.group].rstd.hi);
  const double terms = size_of(beta) + size_of(gamma) * (size_of(element.x) + size_of(mean)) * rstd;
  compare(beta, gamma * (element.x - mean), terms);
}

void judge_state(const Evaluation& evaluation, const Truth& truth, const std::vector<Moments>& groups, Tally& tally) {
  const Problem& problem = evaluation.problem;
  const Convention& convention = problem.convention;
  const auto channels = static_cast<std::size_t>(problem.shape[1] * problem.shape[2]);
  Rational keep;
  Rational take;
  const Rational momentum(problem.momentum);
  switch (convention.momentum) {
    case MomentumForm::new_weight:
      take = momentum;
      keep = 1 - momentum;
      break;
    case MomentumForm::old_weight:
      keep = momentum;
      take = 1 - momentum;
      break;
    case MomentumForm::cumulative:
      take = Rational(1) / problem.step;
      keep = 1 - take;
      break;
    case MomentumForm::accumulated_weight:
      keep = momentum;
      take = 1;
      break;
  }
  const bool empty = evaluation.elements.empty();
  for (std::size_t c = 0; c < channels; ++c) {
    Rational mean(0);
    Rational modulus(0);
    Rational variance(0);
    bool undefined = false;
    std::int64_t count = 0;
    // batch_norm's groups are the channels; instance_norm's are N times the channels.
    for (std::size_t q = c; q < groups.size() && !empty; q += channels) {
      ++count;
      mean += groups[q].mean;
      modulus += abs(groups[q].mean);
      const auto v = groups[q].variance(convention.stored == StoredDivisor::n_minus_1, convention.single);
      if (v) variance += *v;
      undefined = undefined || !v;
    }
    const Rational old_mean = Evaluation::number(evaluation.inputs[Role::running_mean][c]);
    const Rational old_variance = Evaluation::number(evaluation.inputs[Role::running_var][c]);
    const Exact& got_mean = truth.out[Role::running_mean][c];
    const Exact& got_variance = truth.out[Role::running_var][c];
    if (empty) {
      tally(encloses(got_mean, old_mean), "running_mean", got_mean, c);
      tally(encloses(got_variance, old_variance), "running_var", got_variance, c);
      continue;
    }
    tally(encloses(got_mean, keep * old_mean + take * mean / count), "running_mean", got_mean, c);
    expect_sharp(got_mean, size_of(keep * old_mean) + size_of(take * modulus / count));
    const bool single = groups[c].n == 1 && convention.stored == StoredDivisor::n_minus_1;
    if (undefined) {
      tally(std::isnan(got_variance.hi), "running_var", got_variance, c);
    } else if (single && convention.single == SingleCount::unchanged) {
      tally(encloses(got_variance, old_variance), "running_var", got_variance, c);
    } else {
      tally(encloses(got_variance, keep * old_variance + take * variance / count), "running_var", got_variance, c);
      expect_sharp(got_variance, size_of(keep * old_variance) + size_of(take * variance / count));
    }
  }
  if (!truth.out[Role::running_weight].empty()) {
    const Rational old = Evaluation::number(evaluation.inputs[Role::running_weight][0]);
    const Exact& weight = truth.out[Role::running_weight][0];
    tally(encloses(weight, empty ? old : keep * old + 1), "running_weight", weight, 0);
  }
}

void judge_training(const Evaluation& evaluation, const Truth& truth, Tally& tally) {
  const Problem& problem = evaluation.problem;
  const bool centred = problem.variant != Variant::rms_norm;
  const auto moments = moments_of(evaluation, truth.groups.size(), centred);
  std::vector<std::optional<Denominator>> denominators;
  for (std::size_t q = 0; q < moments.size(); ++q) {
    const Moments& m = moments[q];
    const GroupTruth& got = truth.groups[q];
    denominators.emplace_back();
    if (m.n == 0) {
      EXPECT_TRUE(std::isnan(got.mean.hi) && std::isnan(got.variance.hi) && std::isnan(got.rstd.hi));
      continue;
    }
    tally(encloses(got.mean, m.mean), "mean", got.mean, q);
    expect_sharp(got.mean, size_of(m.mean));
    const bool n_minus_1 = centred && problem.convention.normalizing == NormalizingDivisor::n_minus_1;
    const auto variance = m.variance(n_minus_1, problem.convention.single);
    if (!variance) {
      tally(std::isnan(got.variance.hi) && std::isnan(got.rstd.hi), "undefined", got.variance, q);
      continue;
    }
    tally(encloses(got.variance, *variance), "variance", got.variance, q);
    expect_sharp(got.variance, size_of(*variance));
    denominators[q] = Denominator{problem.convention.eps, *variance, Rational(problem.eps)};
    tally(encloses(got.rstd, Rational(0), Rational(1), *denominators[q]), "rstd", got.rstd, q);
    expect_sharp(got.rstd, std::fabs(got.rstd.hi));
  }
  for (std::size_t i = 0; i < evaluation.elements.size(); ++i) {
    const std::size_t q = evaluation.elements[i].group;
    const Exact& y = truth.out[Role::y][i];
    judge_y(evaluation, truth, i, moments[q].mean, [&](const Rational& a, const Rational& b, double terms) {
      if (!denominators[q]) {
        tally(std::isnan(y.hi), "undefined", y, i);
        return;
      }
      tally(encloses(y, a, b, *denominators[q]), "y of training", y, i);
      expect_sharp(y, terms);
    });
  }
  if (problem.running) judge_state(evaluation, truth, moments, tally);
}

void judge_inference(const Evaluation& evaluation, const Truth& truth, Tally& tally) {
  const Problem& problem = evaluation.problem;
  const Inputs& inputs = evaluation.inputs;
  const bool centred = problem.variant != Variant::rms_norm;
  for (std::size_t i = 0; i < evaluation.elements.size(); ++i) {
    const Element& element = evaluation.elements[i];
    Rational mean(0);
    Rational spread(0);
    bool reciprocal = false;
    if (problem.given == Given::running) {
      Rational weight(1);
      if (problem.convention.momentum == MomentumForm::accumulated_weight)
        weight = Evaluation::number(inputs[Role::running_weight][0]);
      if (sign_of(weight) != 0) {
        mean = Evaluation::number(inputs[Role::running_mean][element.channel]) / weight;
        spread = Evaluation::number(inputs[Role::running_var][element.channel]) / weight;
      }
    } else {
      if (centred) mean = Evaluation::number(inputs[Role::mean][element.group]);
      spread = Evaluation::number(inputs[Role::stat][element.group]);
      reciprocal = problem.convention.saved == SavedStatistic::rstd;
    }
    const Denominator denominator{problem.convention.eps, spread, Rational(problem.eps)};
    const Exact& y = truth.out[Role::y][i];
    judge_y(evaluation, truth, i, mean, [&](const Rational& a, const Rational& b, double terms) {
      if (reciprocal) {
        tally(encloses(y, a + b * spread), "y of inference", y, i);
        expect_sharp(y, terms);
        return;
      }
      switch (denominator.kind()) {
        case Denominator::Kind::positive:
          tally(encloses(y, a, b, denominator), "y of inference", y, i);
          expect_sharp(y, terms);
          break;
        case Denominator::Kind::zero:
          tally(!y.finite(), "undefined", y, i);
          break;
        case Denominator::Kind::undefined:
          tally(std::isnan(y.hi), "undefined", y, i);
          break;
      }
    });
  }
}

TEST(Enclosure, TheTruthIsWithinItsBound) {
  Draw draw(20250);
  Tally tally;
  for (int trial = 0; trial < 1500 && !testing::Test::HasFailure(); ++trial) {
    const Problem problem = draw_problem(draw);
    SCOPED_TRACE(print(problem));
    ASSERT_EQ(check(problem), "");
    const Inputs inputs = draw_inputs(draw, problem);
    const Truth truth = definition_forward(problem, inputs);
    const Evaluation evaluation(problem, inputs);
    ASSERT_EQ(truth.out[Role::y].size(), evaluation.elements.size());
    if (problem.phase == Phase::forward_training) {
      judge_training(evaluation, truth, tally);
    } else {
      judge_inference(evaluation, truth, tally);
    }
  }
  for (const std::string what : {"y of training", "y of inference"}) EXPECT_GT(tally.compared(what), 20000U) << what;
  for (const std::string what : {"mean", "variance", "rstd"}) EXPECT_GT(tally.compared(what), 2000U) << what;
  for (const std::string what : {"running_mean", "running_var"}) EXPECT_GT(tally.compared(what), 1000U) << what;
  EXPECT_GT(tally.compared("running_weight"), 20U);
  EXPECT_GT(tally.compared("undefined"), 50U);
}

// A given variance just above -eps, divided by an accumulated weight: the one sum under the root that can cancel.
TEST(Enclosure, HoldsWhereANegativeVarianceCancelsAgainstEps) {
  Draw draw(77);
  Tally tally;
  for (int trial = 0; trial < 300 && !testing::Test::HasFailure(); ++trial) {
    Problem problem = problem_of("forward_inference batch_norm n=2 g=1 k=4 s=1 given=running convention=caffe");
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
    const Truth truth = definition_forward(problem, inputs);
    judge_inference(Evaluation(problem, inputs), truth, tally);
    for (std::size_t c = 0; c < 4; ++c) {
      const Rational variance = Evaluation::number(inputs[Role::running_var][c]) / Evaluation::number(weight);
      const Denominator denominator{EpsPlacement::inside, variance, Rational(problem.eps)};
      if (denominator.kind() != Denominator::Kind::positive) continue;
      tally(encloses(truth.groups[c].rstd, Rational(0), Rational(1), denominator), "rstd", truth.groups[c].rstd, c);
    }
  }
  EXPECT_GT(tally.compared("y of inference"), 1000U);
  EXPECT_GT(tally.compared("rstd"), 500U);
  EXPECT_GT(tally.compared("undefined"), 100U);
}

// The decision above is sharp: a value that is off by four times its bound is refused.
TEST(Enclosure, RefusesWhatIsOffByAFewBounds) {
  const Problem problem = problem_of("forward_training layer_norm n=2 g=1 k=9 s=1 kappa=1000 beta=0 gamma=0");
  const Inputs inputs = make_inputs(problem);
  const Truth truth = definition_forward(problem, inputs);
  const Evaluation evaluation(problem, inputs);
  const auto moments = moments_of(evaluation, 2, true);
  for (std::size_t i = 0; i < 18; ++i) {
    const Moments& m = moments[i / 9];
    const Denominator denominator{EpsPlacement::inside, Rational(m.squares / 9), Rational(problem.eps)};
    const Rational d = evaluation.elements[i].x - m.mean;
    Exact y = truth.out[Role::y][i];
    EXPECT_TRUE(encloses(y, Rational(0), d, denominator));
    for (const double factor : {-4.0, 4.0}) {
      Exact moved = y;
      moved.lo += factor * y.bound;
      ASSERT_NE(moved.lo, y.lo);
      EXPECT_FALSE(encloses(moved, Rational(0), d, denominator));
    }
    Exact other = y;
    other.lo = -y.lo;
    EXPECT_FALSE(encloses(other, Rational(0), d, denominator));
    // Outside the root the same group is another number.
    EXPECT_FALSE(encloses(y, Rational(0), d, {EpsPlacement::outside, Rational(m.squares / 9), Rational(problem.eps)}));
  }
}

// [2M, t, M] has mean M + t/3 and so a deviation of -t/3 beside a mean 2^270 times as large: every bit of t must be
// there.
TEST(Enclosure, HoldsForADeviationFarBelowTheMean) {
  for (const float tiny : {0x1p-149F, 0x1.5p-100F, -0x1.234568p-20F}) {
    const Problem problem = problem_of("forward_training layer_norm n=1 g=1 k=3 s=1 gamma=0 beta=0 eps=0");
    Inputs inputs;
    inputs[Role::x] = {0x1p120F, tiny, 0x1p119F};
    const Truth truth = definition_forward(problem, inputs);
    const Evaluation evaluation(problem, inputs);
    const Moments m = moments_of(evaluation, 1, true)[0];
    const Denominator denominator{EpsPlacement::inside, Rational(m.squares / 3), Rational(0)};
    const Rational deviation = evaluation.elements[2].x - m.mean;
    EXPECT_EQ(deviation, Rational(-evaluation.elements[1].x / 3));
    const Exact& y = truth.out[Role::y][2];
    EXPECT_TRUE(encloses(y, Rational(0), deviation, denominator));
    expect_sharp(y, std::fabs(y.hi));
  }
}

// Long groups, where a sum's rounding would show: sums of 20,000 terms of all magnitudes.
TEST(Enclosure, HoldsForLongGroups) {
  Draw draw(4);
  for (int trial = 0; trial < 3; ++trial) {
    Problem problem = problem_of("forward_training layer_norm n=1 g=1 k=20000 s=1 gamma=0 beta=0");
    Inputs inputs;
    inputs[Role::x].resize(20000);
    spoil(draw, inputs[Role::x], trial == 0 ? 1U : trial == 1 ? 2U : 4U, false);
    const Truth truth = definition_forward(problem, inputs);
    const Evaluation evaluation(problem, inputs);
    const Moments m = moments_of(evaluation, 1, true)[0];
    const GroupTruth& got = truth.groups[0];
    const Rational variance = m.squares / 20000;
    const Denominator denominator{EpsPlacement::inside, variance, Rational(problem.eps)};
    EXPECT_TRUE(encloses(got.mean, m.mean));
    EXPECT_TRUE(encloses(got.variance, variance));
    EXPECT_TRUE(encloses(got.rstd, Rational(0), Rational(1), denominator));
    for (std::size_t i = 0; i < 20000; i += 97)
      EXPECT_TRUE(encloses(truth.out[Role::y][i], Rational(0), evaluation.elements[i].x - m.mean, denominator)) << i;
  }
}

}  // namespace
}  // namespace normgate
