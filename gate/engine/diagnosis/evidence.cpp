// What every hypothesis needs: see evidence.hpp.
#include "gate/engine/diagnosis/evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace normgate::diagnosis {

double reciprocal_root(const Convention& convention, double variance, double eps) {
  switch (convention.eps) {
    case EpsPlacement::inside:
      return 1 / std::sqrt(variance + eps);
    case EpsPlacement::outside:
      return 1 / (std::sqrt(variance) + eps);
    case EpsPlacement::floor:
      return 1 / std::sqrt(std::max(variance, eps));
  }
  return 0;
}

double rounded(double value, int bits, double smallest) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::max(std::ldexp(1.0, std::ilogb(value) + 1 - bits), smallest);
  return std::nearbyint(value / unit) * unit;
}

namespace {

// The designated initializers that make `declared` into `found`.
std::string how_to_declare(const Convention& declared, const Convention& found) {
  const auto pick = [](std::int32_t value, std::initializer_list<std::string_view> names) {
    return std::string(names.begin()[value]);
  };
  const auto number = [](auto value) { return static_cast<std::int32_t>(value); };
  if (declared.normalizing != found.normalizing)
    return "normalizing_divisor = " + pick(number(found.normalizing), {"NG_NORMALIZE_N", "NG_NORMALIZE_N_MINUS_1"});
  if (declared.stored != found.stored)
    return "stored_divisor = " + pick(number(found.stored), {"NG_STORE_N_MINUS_1", "NG_STORE_N"});
  if (declared.momentum != found.momentum)
    return "momentum_form = " + pick(number(found.momentum), {"NG_MOMENTUM_NEW", "NG_MOMENTUM_OLD",
                                                              "NG_MOMENTUM_CUMULATIVE", "NG_MOMENTUM_ACCUMULATED"});
  if (declared.eps != found.eps)
    return "eps_placement = " + pick(number(found.eps), {"NG_EPS_INSIDE", "NG_EPS_OUTSIDE", "NG_EPS_FLOOR"});
  if (declared.gamma != found.gamma)
    return "gamma_offset = " + pick(number(found.gamma), {"NG_GAMMA_PLAIN", "NG_GAMMA_PLUS_ONE"});
  if (declared.saved != found.saved)
    return "saved_statistic = " + pick(number(found.saved), {"NG_SAVED_RSTD", "NG_SAVED_VARIANCE"});
  return "the other value";
}

}  // namespace

Evidence::Evidence(const Problem& problem, const Inputs& inputs, const Subject& subject, const runner::Outcome& outcome,
                   std::string_view only)
    : problem_(problem),
      inputs_(inputs),
      subject_(subject),
      outcome_(outcome),
      only_(only),
      groups_(problem.shape, subject.row),
      affine_(axes_of(Role::gamma, subject.row)),
      row_output_(is_backward(problem.phase) ? Role::dx : Role::y),
      case_(problem, inputs),
      demand_(demand_of(case_, subject)),
      truth_(*demand_.truth),
      bounds_(*demand_.bounds) {
  collect();
}

bool Evidence::asked(std::string_view diagnosis) const { return only_.empty() || only_ == diagnosis; }

bool Evidence::written(Role role) const {
  return !truth_.out[role].empty() && outcome_.outputs[role].size() == truth_.out[role].size();
}

void Evidence::collect() {
  double largest = 0;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!written(role)) continue;
    for (std::size_t i = 0; i < truth_.out[role].size(); ++i) {
      const double error = error_of(role, i);
      const double tolerance = bounds_.tolerance[role][i];
      if (std::isfinite(tolerance) && error > tolerance + truth_.out[role][i].bound) suspects_.push_back({role, i});
      if (std::isfinite(tolerance)) largest = std::max(largest, error / bounds_.scale[role][i]);
    }
  }
  beyond_bound_ = !suspects_.empty();
  if (!beyond_bound_ && largest >= 16 * unit_float32) {
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (!written(role)) continue;
      for (std::size_t i = 0; i < truth_.out[role].size(); ++i)
        if (error_of(role, i) >= 0.5 * largest * bounds_.scale[role][i]) suspects_.push_back({role, i});
    }
  }
  for (const Place& place : suspects_) suspected_[place.role].resize(truth_.out[place.role].size());
  for (const Place& place : suspects_) {
    suspected_[place.role][place.index] = true;
    any_[place.role] = true;
  }
  mark_groups();
}

double Evidence::got(Role role, std::size_t i) const { return static_cast<double>(outcome_.outputs[role][i]); }
double Evidence::error_of(Role role, std::size_t i) const { return distance(got(role, i), truth_.out[role][i]); }

std::string Evidence::suspected_roles() const {
  std::string text;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    const bool any = std::any_of(suspects_.begin(), suspects_.end(), [&](const Place& p) { return p.role == role; });
    if (any) text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(role));
  }
  return text;
}

void Evidence::mark_groups() {
  group_suspected_.assign(static_cast<std::size_t>(groups_.count()), false);
  for (std::int64_t group = 0; group < groups_.count(); ++group) {
    const auto g = static_cast<std::size_t>(group);
    for (const Role role : {Role::mean, Role::stat})
      if (suspected(role, g)) group_suspected_[g] = true;
    if (!any_[row_output_]) continue;
    groups_.for_each(group, [&](std::int64_t i, const Shape&) {
      if (suspected(row_output_, static_cast<std::size_t>(i))) group_suspected_[g] = true;
    });
  }
}
bool Evidence::suspected(Role role, std::size_t i) const { return any_[role] && suspected_[role][i]; }
bool Evidence::only_suspected(std::initializer_list<Role> roles) const {
  return std::all_of(suspects_.begin(), suspects_.end(), [&](const Place& place) {
    return std::find(roles.begin(), roles.end(), place.role) != roles.end();
  });
}

bool Evidence::has_finding(runner::FindingKind kind) const {
  return std::any_of(outcome_.findings.begin(), outcome_.findings.end(),
                     [&](const runner::Finding& finding) { return finding.kind == kind; });
}

void Evidence::seen_at_the_door() {
  if (asked("environment not restored") && !beyond_bound_ && has_finding(runner::FindingKind::environment))
    return add(0, "environment not restored",
               "rounding mode, flush-to-zero or exception masks changed and not put back before the return");
  if (asked("late write") && has_finding(runner::FindingKind::late_write))
    return add(0, "late write", "a thread that goes on writing after the call has returned");
  const bool poison_only =
      std::all_of(suspects_.begin(), suspects_.end(), [&](const Place& p) { return std::isnan(got(p.role, p.index)); });
  if (asked("unwritten output") && has_finding(runner::FindingKind::unwritten) && poison_only)
    add(0, "unwritten output", "elements that the kernel never writes: they hold the poison laid out before");
}

Fit Evidence::whole(const Truth& truth, const Bounds& bounds) const {
  Fit fit;
  fit.explains = !suspects_.empty();
  double before = 0;
  double after = 0;
  bool wider = false;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!written(role)) continue;
    const auto& predicted = truth.out[role];
    if (predicted.size() != truth_.out[role].size()) return {};
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      const bool suspect = suspected(role, i);
      // Where nothing finite is predicted (no eps and no variance), nothing finite may have come.
      if (!predicted[i].finite()) {
        const bool other = std::isfinite(got(role, i));
        if (other) fit.contradicted = true;
        if (suspect) before = infinity;
        if (suspect && other) fit.explains = false;
        continue;
      }
      const double error = distance(got(role, i), predicted[i]);
      const double tolerance = bounds.tolerance[role][i];
      const double most = tolerance + predicted[i].bound;
      if (std::isfinite(tolerance) && error > most) {
        fit.explains = false;
        if (error > 4 * most) fit.contradicted = true;
      }
      if (!suspect) continue;
      if (!std::isfinite(tolerance)) fit.explains = false;
      // Both in the scale of the declared truth: a prediction must come near, not only have a wide bound.
      const double scale = bounds_.scale[role][i];
      before = std::max(before, error_of(role, i) / scale);
      after = std::max(after, error / scale);
      wider = wider || tolerance > 2 * bounds_.tolerance[role][i];
      if (predicted[i].hi != 0 && !(error > most) && error <= error_of(role, i) / 4) ++fit.matched;
    }
  }
  // Where the deviation is a few roundings, so is what the right prediction leaves.
  fit.explains = fit.explains && after <= before / (wider ? 8 : 3);
  fit.residual = before > 0 && std::isfinite(before) ? after / before : 0;
  return fit;
}

Fit Evidence::whole(const Problem& problem, const Inputs& inputs) const {
  if (!check(problem).empty()) return {};
  const VariantRow& row = row_of(problem.variant);
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!use_of(problem, role).read) continue;
    const std::int64_t size = element_count(restricted(problem.shape, axes_of(role, row)));
    if (static_cast<std::int64_t>(inputs[role].size()) != size) return {};
  }
  const Case other(problem, inputs);
  const Demand demand = demand_of(other, subject_);
  return whole(*demand.truth, *demand.bounds);
}

// Whether another convention changes anything in a backward phase: nothing is stored there, and a truth costs much.
bool Evidence::matters(const Convention& other) const {
  if (!is_backward(problem_.phase)) return true;
  const Convention& own = problem_.convention;
  if (other.stored != own.stored) return false;
  if (other.momentum != own.momentum) return problem_.given == Given::running;
  if (other.saved != own.saved) return problem_.saved || problem_.given == Given::saved;
  if (other.gamma != own.gamma) return problem_.gamma;
  return true;
}

void Evidence::conventions(const Visit& visit) const {
  for (const NamedConvention& other : one_field_away(problem_.convention)) {
    if (!asked(other.difference) || !matters(other.convention)) continue;
    Problem problem = problem_;
    problem.convention = other.convention;
    visit(other.difference, fmt::format("{} as with {}", suspected_roles(), other.difference),
          fmt::format("to be held to that, declare `.{}` in the kernel's convention",
                      how_to_declare(problem_.convention, other.convention)),
          whole(problem, inputs_));
  }
}

double Evidence::x(std::int64_t i) const { return static_cast<double>(inputs_[Role::x][static_cast<std::size_t>(i)]); }
double Evidence::gamma_at(const Shape& at) const {
  if (inputs_[Role::gamma].empty()) return 1;
  const auto i = static_cast<std::size_t>(dense_index(problem_.shape, affine_, at));
  return static_cast<double>(inputs_[Role::gamma][i]) + (problem_.convention.gamma == GammaOffset::plus_one ? 1 : 0);
}
double Evidence::beta_at(const Shape& at) const {
  if (inputs_[Role::beta].empty()) return 0;
  return static_cast<double>(inputs_[Role::beta][static_cast<std::size_t>(dense_index(problem_.shape, affine_, at))]);
}
double Evidence::divisor(double count) const {
  return problem_.convention.normalizing == NormalizingDivisor::n_minus_1 && subject_.row.centred
             ? std::max(count - 1, 1.0)
             : count;
}
double Evidence::root(double variance) const { return reciprocal_root(problem_.convention, variance, problem_.eps); }
Statistics Evidence::truth_of(std::int64_t group) const {
  const GroupTruth& truth = truth_.groups[static_cast<std::size_t>(group)];
  return {truth.mean.hi, truth.variance.hi, truth.rstd.hi};
}

void Evidence::flushed_subnormals() {
  if (!asked("flushed subnormals") || subject_.kernel.claim.subnormals == Subnormals::flushed) return;
  // Zero where the truth is subnormal, everywhere.
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!written(role)) continue;
    for (std::size_t i = 0; i < truth_.out[role].size(); ++i) {
      const double size = std::fabs(truth_.out[role][i].hi);
      const bool subnormal = size < 0x1p-126 && size >= 0x1p-149;
      if (subnormal ? got(role, i) != 0 : suspected(role, i)) return;
    }
  }
  add(2, "flushed subnormals", "subnormal results are returned as zero",
      "declare `.subnormals = NG_SUBNORMALS_FLUSHED` to be held to that");
}

void Evidence::short_output() {
  const Role role = suspects_.front().role;
  const std::string_view name = name_of(role);
  if (!only_suspected({role})) return;
  for (const ShortType& type : short_types) {
    const std::string diagnosis = fmt::format("{} rounded to {}", name, type.name);
    if (!asked(diagnosis)) continue;
    std::size_t longer = 0;  // true values that the shorter type does not have
    std::size_t count = 0;
    bool all = true;
    for (std::size_t i = 0; i < truth_.out[role].size(); ++i) {
      const double truth = truth_.out[role][i].hi;
      if (!truth_.out[role][i].finite() || truth == 0) continue;
      ++count;
      const auto nearest = static_cast<double>(static_cast<float>(truth));
      longer += rounded(nearest, type.bits) != nearest ? 1 : 0;
      all = all && rounded(got(role, i), type.bits) == got(role, i) &&
            error_of(role, i) <= bounds_.tolerance[role][i] + std::ldexp(std::fabs(truth), -type.bits) * 1.001;
    }
    if (all && 2 * longer > count && longer >= 4)
      add(2, diagnosis, fmt::format("no element of {} has more than the {} bits of {}", name, type.bits, type.name), "",
          static_cast<std::int64_t>(suspects_.size()));
  }
}

bool Evidence::covered_by(const Claim& claim) const {
  runner::KernelInfo kernel = subject_.kernel;
  kernel.claim = claim;
  const Demand demand = demand_of(case_, Subject{subject_.row, subject_.phase, kernel, subject_.convention});
  const Bounds& bounds = *demand.bounds;
  return std::all_of(suspects_.begin(), suspects_.end(), [&](const Place& place) {
    return error_of(place.role, place.index) <=
           bounds.tolerance[place.role][place.index] + truth_.out[place.role][place.index].bound;
  });
}
void Evidence::lower_precision() {
  Claim claim = subject_.kernel.claim;
  if (asked("float32 accumulator") && claim.accumulator == ScalarType::float64) {
    claim.accumulator = ScalarType::float32;
    if (covered_by(claim))
      add(4, "float32 accumulator", "errors within the bound of sums in float32; the claim says float64");
    claim.accumulator = ScalarType::float64;
  }
  if (asked("float32 statistics") && claim.statistics == ScalarType::float64) {
    claim.statistics = ScalarType::float32;
    if (covered_by(claim))
      add(4, "float32 statistics",
          "errors within the bound of a mean and reciprocal root in float32; the claim says float64");
  }
}

}  // namespace normgate::diagnosis
