// See gradient_group.hpp.
#include "reference/bounds/gradient_group.hpp"

#include <algorithm>
#include <cmath>

#include "reference/problem/affine.hpp"

namespace normgate::bounds {
namespace {

bool is_power_of_two(double value) {
  int exponent = 0;
  return value > 0 && std::isfinite(value) && std::frexp(value, &exponent) == 0.5;
}

// Whether the rounded sum of a and b is their sum (Knuth's two-sum).
bool adds_exactly(double a, double b, double sum) {
  const double part = sum - a;
  return (a - (sum - part)) + (b - part) == 0;
}

}  // namespace

GradientModel::GradientModel(const Problem& a_problem, const Inputs& all_inputs, const Truth& a_truth, SavedUse use,
                             const Claim& a_claim)
    : StatisticsBounds(a_problem, a_claim),
      problem(a_problem),
      inputs(all_inputs),
      truth(a_truth),
      claim(a_claim),
      row(row_of(a_problem.variant)),
      groups(a_problem.shape, row),
      training(problem.phase == Phase::backward_training),
      from_output(problem.from_output),
      handed(training && problem.saved && (from_output || use == SavedUse::short_form || use == SavedUse::textbook)),
      textbook(handed && row.centred && use == SavedUse::textbook && !from_output),
      folded(claim.form == AffineForm::folded),
      n_minus_1(row.centred && problem.convention.normalizing == NormalizingDivisor::n_minus_1),
      plus_one(problem.gamma && problem.convention.gamma == GammaOffset::plus_one),
      u(std::max(u_a, u_s)),
      eta(std::max(eta_a, eta_s)),
      limit(u == unit_float32 ? 0x1p24 : 0x1p53),
      top(u == unit_float32 ? 0x1p127 : 0x1p1000),
      narrow(u_a > u_s ? 1 : 0) {}

// The statistics that the function is made of, and the kernel's.
Frame GradientModel::frame_of(std::int64_t q) const {
  const auto at = static_cast<std::size_t>(q);
  Frame frame;
  const std::int64_t n = groups.size();
  frame.n = static_cast<double>(n);
  frame.divisor = static_cast<double>(n_minus_1 ? n - 1 : n);
  Group group;
  Statistics s;
  if (training && !handed) {
    group = gather(groups, q, inputs[Role::x], truth.groups[at]);
    frame.centre = truth.groups[at].mean;
    s = trained(group);
    frame.squares_fit = group.finite && squares_fit(group) && s.fits;
    frame.mean_finite = group.finite;
    frame.nan = s.nan && group.finite;
  } else {
    group = handed ? handed_group(at) : given_group(at);
    frame.centre = handed ? Exact{group.mean, 0, 0} : truth.groups[at].mean;
    group.n = n;
    frame.mean_finite = std::isfinite(group.mean);
    // 1/D does not depend on the mean.
    Group of_spread = group;
    if (!frame.mean_finite) of_spread.mean = 0;
    s = given(of_spread);
    frame.nan = s.nan;
  }
  frame.r = std::fabs(group.rstd);
  frame.reciprocal = s.rstd;
  frame.r_error = s.rstd_error;
  frame.shift = s.shift;
  frame.delta = s.mean_error;
  // A variance above 2^127 may overflow when eps is added.
  frame.r_known = std::isfinite(frame.r) && std::isfinite(s.rstd.high) && std::isfinite(s.rstd_error) &&
                  !(group.variance > 0x1p127);
  if (!frame.r_known) {
    frame.judged = false;
    return frame;
  }
  frame.power = s.rstd.low == s.rstd.high && is_power_of_two(frame.r);
  const double up = frame.r > 0 ? s.rstd.high / frame.r : 1;
  const double down = frame.r > 0 ? s.rstd.low / frame.r : 1;
  frame.up = from_output ? 1 : up;
  if (training) respond(group, s, up, down, frame);
  return frame;
}

// Mean, variance and 1/D as they are handed to a backward_training, taken for exact.
Group GradientModel::handed_group(std::size_t at) const {
  Group group;
  const auto stat = static_cast<double>(inputs[Role::stat][at]);
  group.mean = row.centred && !from_output ? static_cast<double>(inputs[Role::mean][at]) : 0;
  const double v = problem.convention.saved == SavedStatistic::variance ? stat : std::nan("");
  group.variance = v;
  switch (problem.convention.eps) {
    case EpsPlacement::inside:
      group.rstd = 1 / std::sqrt(v + problem.eps);
      break;
    case EpsPlacement::outside:
      group.rstd = 1 / (std::sqrt(v) + problem.eps);
      break;
    case EpsPlacement::floor:
      group.rstd = 1 / std::sqrt(std::max(v, problem.eps));
      break;
  }
  if (problem.convention.saved == SavedStatistic::rstd) group.rstd = stat;
  return group;
}
Group GradientModel::given_group(std::size_t at) const {
  Group group;
  const GroupTruth& exact = truth.groups[at];
  group.mean = exact.mean.hi;
  group.variance = exact.variance.hi;
  group.rstd = exact.rstd.hi;
  return group;
}

// s, its upper end and the relative error e of s r² (from an output: of s).
void GradientModel::respond(const Group& group, const Statistics& statistics, double up, double down,
                            Frame& frame) const {
  const bool reciprocal_handed = handed && problem.convention.saved == SavedStatistic::rstd;
  double s_up = up;
  double s_down = down;
  frame.s = frame.r;
  if (problem.convention.eps == EpsPlacement::outside) {
    double root = 0;
    double above = 0;  // relative errors of √v^
    double below = 0;
    if (reciprocal_handed) {
      root = 1 / frame.r - problem.eps;
      if (!(frame.r >= 0x1p-120)) root = -1;
    } else {
      root = std::sqrt(group.variance);
      if (statistics.variance.high == 0 && statistics.variance.low == 0) {
        frame.s = frame.s_high = 0;  // the term is left out where the variance is 0
        return;
      }
      const double low = statistics.variance.low - (flushed ? eta_s : 0);
      above = std::sqrt(statistics.variance.high / group.variance) - 1;
      below = low > 0 ? 1 - std::sqrt(low / group.variance) : 1;
    }
    // Of the root itself, and as D - eps: D's sum and quotient (as 1/r^), the quotient back, the difference.
    const double back = 4 * u_s * (root + problem.eps) / root + parameter_roundoff() * problem.eps / root;
    const double own = 2 * u_s + 2 * u_s * claim.rsqrt_ulp + back + 0x1p-48;
    above = compound({above, own});
    below = below + own;
    if (!(root > 0) || !(std::max(above, below) < 0.5)) {
      frame.judged = false;
      return;
    }
    frame.s = 1 / root;
    s_up = 1 / (1 - below);
    s_down = 1 / (1 + above);
  } else if (problem.convention.eps == EpsPlacement::floor) {
    double low = statistics.variance.low;
    double high = statistics.variance.high;
    if (reciprocal_handed) {
      // 1/r² > eps, r² eps < 1 or the like: at most four roundings.
      const double v = 1 / (frame.r * frame.r);
      low = v * (1 - 8 * u);
      high = v * (1 + 8 * u);
      if (!(frame.r >= 0x1p-60 && frame.r <= 0x1p60)) low = 0, high = infinity;
    }
    if (flushed) low = std::min(low, std::max(0.0, low - eta_s));
    // eps itself may be rounded into the type of v.
    if (high < eps().low * (1 - u_s)) {
      frame.s = frame.s_high = 0;
      return;
    }
    if (!(low > eps().high * (1 + u_s))) {
      frame.judged = false;
      return;
    }
  }
  frame.s_high = frame.s * s_up;
  frame.e = from_output ? std::max(s_up - 1, 1 - s_down)
                        : std::max(compound({s_up - 1, up - 1, up - 1}), 1 - s_down * down * down);
  if (frame.power && problem.convention.eps != EpsPlacement::outside) {
    frame.s_high = frame.s;
    frame.e = 0;
  }
}

std::vector<Element> GradientModel::elements_of(std::int64_t q, const Frame& frame) const {
  std::vector<Element> elements;
  elements.reserve(static_cast<std::size_t>(groups.size()));
  const double c = std::fabs(frame.centre.hi);
  groups.for_each(q, [&](std::int64_t i, const Shape& at) {
    Element element;
    element.index = static_cast<std::size_t>(i);
    element.channel = static_cast<std::size_t>(dense_index(problem.shape, row.affine, at));
    element.dy = static_cast<double>(inputs[Role::dy][element.index]);
    element.gamma = gamma_in_use(problem, inputs, row, at);
    element.g = element.dy * element.gamma;
    element.exact_g =
        is_float32(element.gamma) && is_float32(element.g) &&
        (!plus_one || adds_exactly(1, static_cast<double>(inputs[Role::gamma][element.channel]), element.gamma));
    const double w = std::fabs(element.gamma);
    const double dy = std::fabs(element.dy);
    element.g_absolute = (problem.gamma ? eta * (1 + w) : 0) + zeta * (1 + w + dy);
    if (from_output) {
      const auto y = static_cast<double>(inputs[Role::y][element.index]);
      const double beta = beta_in_use(problem, inputs, row, at);
      element.d = element.hat = (y - beta) / element.gamma;
      element.divided = problem.gamma ? at_least_one(1 / w) : 1;
      element.reach = std::fabs(element.hat);
      element.wide = (std::fabs(y) + std::fabs(beta)) / w;
      element.raw = element.wide * at_least_one(w);  // before or after the division
      element.hat_absolute = (eta * (1 + 1 / w) + 2 * zeta / w) * 1.01;
      element.finite = std::isfinite(element.hat) && w >= 0x1p-120 && w <= 0x1p120;
    } else {
      const auto x = static_cast<double>(inputs[Role::x][element.index]);
      element.d = row.centred ? minus(x, frame.centre) : x;
      element.hat = element.d * frame.r;
      element.reach = std::fabs(element.d) * frame.reciprocal.high + frame.shift;
      element.wide = (std::fabs(x) + c) * frame.reciprocal.high + frame.shift;
      element.raw = (folded ? std::fabs(x) + c : std::fabs(element.d)) + frame.delta;
      element.hat_absolute = (flushed ? eta_s + zeta : 0) * frame.reciprocal.high + eta;
      element.finite = std::isfinite(x);
    }
    elements.push_back(element);
  });
  return elements;
}

bool GradientModel::difference_is_exact(const Frame& frame, const Element& element) const {
  if (from_output) return false;
  if (!row.centred) return true;
  if (frame.centre.lo != 0) return false;
  const auto x = static_cast<double>(inputs[Role::x][element.index]);
  return adds_exactly(x, -frame.centre.hi, element.d);
}

Grids GradientModel::grids_of(const Frame& frame, const std::vector<Element>& elements) const {
  Grids grids;
  grids.differences = frame.delta == 0 && !from_output;
  grids.safe = frame.r >= 0x1p-20 && frame.r <= 0x1p20;
  const auto note = [&](double value) {
    const double grid = grid_of(value);
    grids.safe = grids.safe && grid >= 0x1p-40 && std::fabs(value) <= 0x1p40;
    return grid;
  };
  for (const Element& element : elements) {
    grids.products = grids.products && element.exact_g;
    grids.differences = grids.differences && difference_is_exact(frame, element);
    note(element.dy);
    grids.powers = grids.powers && (element.gamma == 0 || note(element.gamma) == std::fabs(element.gamma));
    const double g = note(element.g);
    const double d = note(element.d);
    grids.g = std::min(grids.g, g);
    grids.d = std::min(grids.d, d);
    grids.largest_d = std::max(grids.largest_d, std::fabs(element.d));
    grids.largest_g = std::max(grids.largest_g, std::fabs(element.g));
    grids.gd = std::min(grids.gd, g == infinity || d == infinity ? infinity : g * d);
    if (from_output || !folded) continue;
    const auto value = static_cast<double>(inputs[Role::x][element.index]);
    const double x = note(value);
    grids.x = std::min(grids.x, x);
    grids.largest_x = std::max(grids.largest_x, std::fabs(value));
    grids.gx = std::min(grids.gx, g == infinity || x == infinity ? infinity : g * x);
  }
  note(frame.centre.hi);
  grids.differences = grids.differences && (grids.d == infinity || grids.largest_d <= 0x1p24 * grids.d);
  return grids;
}

double GradientModel::any_division() const {
  const std::int64_t n = groups.size();
  const double k = bounds::is_power_of_two(n) ? 0 : (claim.divides_by_n ? 1 : 2) + (rounds_count(n) ? 1 : 0);
  return compound({gamma_factor(k, u), narrowing});
}
double GradientModel::any_division_by_divisor() const {
  if (!n_minus_1) return any_division();
  return compound({gamma_factor(static_cast<double>(groups.size()) * u > 1 ? 7 : 4, u), narrowing});
}

double GradientModel::hat_roundings(bool exact_difference) const {
  if (from_output) return (problem.beta ? 1 : 0) + (problem.gamma ? 2 : 0) + (plus_one ? 1 : 0);
  return (row.centred && !exact_difference ? 1 : 0) + 1;
}

}  // namespace normgate::bounds
