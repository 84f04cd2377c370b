// Hypotheses about a wrong result, each with the outputs that it predicts.
//
// A hypothesis explains a result if every judged element lies near the predicted one, those that are right as well as
// those that are wrong, and if the error against the prediction is a small part of the error against the truth. Those
// that follow from a problem with another parameter are computed by the reference (`whole`), those about the statistics
// of a group in double (`groups`). Algorithms are recognized by what only they do (rank 2), and what is left is
// described rather than explained (rank 3).
#include "gate/engine/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "reference/bounds/forward.hpp"
#include "reference/problem/groups.hpp"
#include "reference/truth/forward.hpp"

namespace normgate {
namespace {

constexpr double unit_roundoff = 0x1p-24;
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Place {
  Role role;
  std::size_t index;
};

// The statistics that a mistake gives a group.
struct Statistics {
  double mean = 0;
  double variance = 0;  // the normalizing variance
  double factor = 0;    // 1/D
};
using StatisticsOf = std::function<Statistics(std::int64_t group)>;

// How well a prediction stands against a result.
struct Fit {
  bool explains = false;
  bool contradicted = false;  // a judged element is clearly another than predicted
  bool in_some_groups = false;
  std::int64_t matched = 0;
  double residual = 0;  // error against the prediction, over that against the truth
};

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

// Rounded to `bits` significant bits, none smaller than `smallest`.
double rounded(double value, int bits, double smallest = 0) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::max(std::ldexp(1.0, std::ilogb(value) + 1 - bits), smallest);
  return std::nearbyint(value / unit) * unit;
}
struct ShortType {
  std::string_view name;
  int bits;
  double smallest;
};
constexpr std::array<ShortType, 2> short_types{{{"float16", 11, 0x1p-24}, {"bfloat16", 8, 0}}};

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

class Diagnosis {
 public:
  Diagnosis(const Problem& problem, const Inputs& inputs, const Subject& subject, const runner::Outcome& outcome,
            std::string_view only)
      : problem_(problem),
        inputs_(inputs),
        subject_(subject),
        outcome_(outcome),
        only_(only),
        groups_(problem.shape, subject.row),
        affine_(axes_of(Role::gamma, subject.row)) {
    collect();
  }

  Diagnosed find() {
    quick_ = true;
    seen_at_the_door();
    if (!suspects_.empty() && found_.empty()) {
      handed_on();
      for_each_prediction(
          [&](const std::string& diagnosis, const std::string& sentence, const std::string& advice, const Fit& fit) {
            if (!fit.explains) return;
            found_.push_back({diagnosis, sentence + (fit.in_some_groups ? ", in some of the groups" : ""),
                              fit.in_some_groups ? "" : advice, 1, fit.matched, fit.residual});
          });
      if (beyond_bound_) {
        flushed_subnormals();
        short_output();
        folded_form();
        approximate_root();
        one_pass_variance();
        gain_per_group();
        lower_precision();
      }
    }
    return {!suspects_.empty() || !found_.empty(), found_};
  }

  bool contradicts() {
    bool any = false;
    bool all = true;
    for_each_prediction([&](const std::string&, const std::string&, const std::string&, const Fit& fit) {
      any = true;
      all = all && fit.contradicted;
    });
    return any && all;
  }

 private:
  using Visit = std::function<void(const std::string& diagnosis, const std::string& sentence, const std::string& advice,
                                   const Fit& fit)>;

  [[nodiscard]] bool asked(std::string_view diagnosis) const { return only_.empty() || only_ == diagnosis; }

  [[nodiscard]] bool written(Role role) const {
    return !truth_.out[role].empty() && outcome_.outputs[role].size() == truth_.out[role].size();
  }

  // The elements to explain: those beyond their bound; if there are none, those whose error is half the largest, where
  // that is clearly more than rounding (a systematic error within the bound).
  void collect() {
    truth_ = forward_truth(problem_, inputs_);
    bounds_ = forward_bounds(problem_, inputs_, truth_, subject_.kernel.claim);
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
    if (!beyond_bound_ && largest >= 16 * unit_roundoff) {
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

  [[nodiscard]] double got(Role role, std::size_t i) const { return static_cast<double>(outcome_.outputs[role][i]); }
  [[nodiscard]] double error_of(Role role, std::size_t i) const { return distance(got(role, i), truth_.out[role][i]); }

  [[nodiscard]] std::string suspected_roles() const {
    std::string text;
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      const bool any = std::any_of(suspects_.begin(), suspects_.end(), [&](const Place& p) { return p.role == role; });
      if (any) text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(role));
    }
    return text;
  }

  void mark_groups() {
    group_suspected_.assign(static_cast<std::size_t>(groups_.count()), false);
    for (std::int64_t group = 0; group < groups_.count(); ++group) {
      const auto g = static_cast<std::size_t>(group);
      for (const Role role : {Role::mean, Role::stat})
        if (suspected(role, g)) group_suspected_[g] = true;
      if (!any_[Role::y]) continue;
      groups_.for_each(group, [&](std::int64_t i, const Shape&) {
        if (suspected(Role::y, static_cast<std::size_t>(i))) group_suspected_[g] = true;
      });
    }
  }
  [[nodiscard]] bool suspected(Role role, std::size_t i) const { return any_[role] && suspected_[role][i]; }
  [[nodiscard]] bool only_suspected(std::initializer_list<Role> roles) const {
    return std::all_of(suspects_.begin(), suspects_.end(), [&](const Place& place) {
      return std::find(roles.begin(), roles.end(), place.role) != roles.end();
    });
  }

  [[nodiscard]] bool has_finding(runner::FindingKind kind) const {
    return std::any_of(outcome_.findings.begin(), outcome_.findings.end(),
                       [&](const runner::Finding& finding) { return finding.kind == kind; });
  }

  void add(int rank, std::string_view diagnosis, std::string sentence, std::string advice = {},
           std::int64_t matched = matched_at_least) {
    found_.push_back({std::string(diagnosis), std::move(sentence), std::move(advice), rank, matched});
  }

  // ---- what the door saw, and outputs that are no results

  void seen_at_the_door() {
    if (asked("environment not restored") && !beyond_bound_ && has_finding(runner::FindingKind::environment))
      return add(0, "environment not restored",
                 "rounding mode, flush-to-zero or exception masks changed and not put back before the return");
    if (asked("late write") && has_finding(runner::FindingKind::late_write))
      return add(0, "late write", "a thread that goes on writing after the call has returned");
    const bool poison_only = std::all_of(suspects_.begin(), suspects_.end(),
                                         [&](const Place& p) { return std::isnan(got(p.role, p.index)); });
    if (asked("unwritten output") && has_finding(runner::FindingKind::unwritten) && poison_only)
      add(0, "unwritten output", "elements that the kernel never writes: they hold the poison laid out before");
  }

  void handed_on() {
    if (!any_[Role::y]) return;
    const auto& y = outcome_.outputs[Role::y];
    const auto& wanted = truth_.out[Role::y];
    if (asked("tail not normalized") && !problem_.in_place && only_suspected({Role::y}) &&
        suspects_.size() < y.size()) {
      bool nonzero = false;
      const bool same = std::all_of(suspects_.begin(), suspects_.end(), [&](const Place& place) {
        nonzero = nonzero || y[place.index] != 0;
        return y[place.index] == inputs_[Role::x][place.index];
      });
      if (same && nonzero)
        return add(0, "tail not normalized", "elements that are handed on as they came in: y is x there");
    }
    const bool zero = std::all_of(y.begin(), y.end(), [](float value) { return value == 0; });
    const bool finite = std::all_of(wanted.begin(), wanted.end(), [](const Exact& value) { return value.finite(); });
    if (asked("all outputs zero") && zero && finite && y.size() >= static_cast<std::size_t>(matched_at_least))
      add(2, "all outputs zero", "y is zero everywhere");
  }

  // ---- predictions by the reference

  Fit whole(const Truth& truth, const Bounds& bounds) const {
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

  Fit whole(const Problem& problem, const Inputs& inputs) const {
    if (!check(problem).empty()) return {};
    const VariantRow& row = row_of(problem.variant);
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (!use_of(problem, role).read) continue;
      const std::int64_t size = element_count(restricted(problem.shape, axes_of(role, row)));
      if (static_cast<std::int64_t>(inputs[role].size()) != size) return {};
    }
    const Truth truth = forward_truth(problem, inputs);
    return whole(truth, forward_bounds(problem, inputs, truth, subject_.kernel.claim));
  }

  void for_each_prediction(const Visit& visit) {
    conventions(visit);
    parameters(visit);
    if (truth_.groups.size() != static_cast<std::size_t>(groups_.count())) return;
    other_eps(visit);
    if (problem_.phase == Phase::forward_training && groups_.size() > 0) other_statistics(visit);
  }

  void conventions(const Visit& visit) const {
    for (const NamedConvention& other : one_field_away(problem_.convention)) {
      if (!asked(other.difference)) continue;
      Problem problem = problem_;
      problem.convention = other.convention;
      visit(other.difference, fmt::format("{} as with {}", suspected_roles(), other.difference),
            fmt::format("to be held to that, declare `.{}` in the kernel's convention",
                        how_to_declare(problem_.convention, other.convention)),
            whole(problem, inputs_));
    }
  }

  void parameters(const Visit& visit) const {
    const bool plain = problem_.convention.gamma == GammaOffset::plain;
    const auto with = [&](Role role, const std::string& diagnosis, const std::string& sentence,
                          const std::function<double(double)>& change) {
      if (inputs_[role].empty() || !asked(diagnosis)) return;
      Inputs inputs = inputs_;
      for (float& value : inputs[role]) value = static_cast<float>(change(static_cast<double>(value)));
      if (inputs[role] != inputs_[role] && worth_a_truth(role, inputs))
        visit(diagnosis, sentence, "", whole(problem_, inputs));
    };
    with(Role::gamma, "gamma ignored", "the result without gamma", [&](double) { return plain ? 1.0 : 0.0; });
    with(Role::beta, "beta ignored", "the result without beta", [](double) { return 0.0; });
    with(Role::gamma, "absolute value of gamma", "the result with |gamma|: its sign is lost",
         [](double value) { return std::fabs(value); });
    for (const ShortType& type : short_types)
      for (const Role role : {Role::x, Role::gamma, Role::beta, Role::running_mean, Role::running_var})
        with(role, fmt::format("{} rounded to {}", name_of(role), type.name),
             fmt::format("the result of {} rounded to {} bits, as {} has", name_of(role), type.bits, type.name),
             [&](double value) { return rounded(value, type.bits); });
    if (asked("an offset for the absent gamma") && inputs_[Role::gamma].empty() && !plain) {
      Problem problem = problem_;
      problem.gamma = true;
      Inputs inputs = inputs_;
      inputs[Role::gamma].assign(
          static_cast<std::size_t>(element_count(restricted(problem_.shape, axes_of(Role::gamma, subject_.row)))), 1);
      visit("an offset for the absent gamma", "y is twice as large where gamma is absent: 1+w with a w of 1", "",
            whole(problem, inputs));
    }
    for (const ShortType& type : short_types) {
      Problem problem = problem_;
      problem.momentum = rounded(problem_.momentum, type.bits, type.smallest);
      const std::string diagnosis = fmt::format("momentum rounded to {}", type.name);
      if (asked(diagnosis) && problem.momentum != problem_.momentum && (!quick_ || running_suspected()))
        visit(diagnosis, fmt::format("the result of a momentum rounded to {}", type.name), "", whole(problem, inputs_));
    }
    if (asked("saved statistic without eps") && written(Role::stat) && problem_.eps != 0 &&
        problem_.convention.saved == SavedStatistic::rstd && truth_.out[Role::stat].size() == truth_.groups.size()) {
      Truth truth = truth_;
      for (std::size_t i = 0; i < truth.groups.size(); ++i) {
        const double value = 1 / std::sqrt(truth.groups[i].variance.hi);
        truth.out[Role::stat][i] = {value, 0, std::isfinite(value) ? 0x1p-20 * value : 0};
      }
      visit("saved statistic without eps", "the saved reciprocal standard deviation leaves eps out", "",
            whole(truth, bounds_));
    }
    samples_counted(visit);
  }

  [[nodiscard]] bool running_suspected() const { return any_[Role::running_mean] || any_[Role::running_var]; }

  // Whether changed inputs of one role can explain the suspects at all: a truth costs far more than this.
  [[nodiscard]] bool worth_a_truth(Role role, const Inputs& changed) const {
    if (!quick_) return true;
    if (role == Role::running_mean || role == Role::running_var)
      return problem_.phase != Phase::forward_training || running_suspected();
    if (role != Role::gamma && role != Role::beta) return true;
    if (!only_suspected({Role::y})) return false;
    if (truth_.groups.size() != static_cast<std::size_t>(groups_.count())) return true;
    // y itself to first order: what the change moves, and what the worst suspects need.
    double before = 0;
    double after = 0;
    for (std::int64_t group = 0; group < groups_.count(); ++group) {
      const GroupTruth& truth = truth_.groups[static_cast<std::size_t>(group)];
      if (!truth.mean.finite() || !truth.rstd.finite()) return true;
      groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
        const auto index = static_cast<std::size_t>(i);
        if (!suspected(Role::y, index)) return;
        const auto c = static_cast<std::size_t>(dense_index(problem_.shape, affine_, at));
        const double change = static_cast<double>(changed[role][c]) - static_cast<double>(inputs_[role][c]);
        const double moved = role == Role::beta ? change : change * (x(i) - truth.mean.hi) * truth.rstd.hi;
        const double error = got(Role::y, index) - truth_.out[Role::y][index].hi;
        before = std::max(before, std::fabs(error) / bounds_.scale[Role::y][index]);
        after = std::max(after, std::fabs(error - moved) / bounds_.scale[Role::y][index]);
      });
    }
    return !(after > before / 2);
  }

  // running_var with N/(N-1) where the batch has N*S values per channel.
  void samples_counted(const Visit& visit) const {
    constexpr std::string_view name = "n-1 counts N instead of N*S";
    const double samples = static_cast<double>(problem_.shape[0]);
    const double values = static_cast<double>(groups_.size());
    if (!asked(name) || problem_.variant != Variant::batch_norm ||
        problem_.convention.stored != StoredDivisor::n_minus_1 ||
        problem_.convention.normalizing != NormalizingDivisor::n || !written(Role::running_var) || samples < 2 ||
        samples == values)
      return;
    const double weight = weight_of_new();
    Truth truth = truth_;
    for (std::size_t i = 0; i < truth.out[Role::running_var].size() && i < truth.groups.size(); ++i) {
      Exact& value = truth.out[Role::running_var][i];
      value.hi += weight * truth.groups[i].variance.hi * (samples / (samples - 1) - values / (values - 1));
      value.lo = 0;
      value.bound = 0x1p-22 * std::fabs(value.hi);
    }
    visit(std::string(name), "running_var takes in the variance times N/(N-1), though N*S values are counted", "",
          whole(truth, bounds_));
  }
  [[nodiscard]] double weight_of_new() const {
    switch (problem_.convention.momentum) {
      case MomentumForm::new_weight:
        return problem_.momentum;
      case MomentumForm::old_weight:
        return 1 - problem_.momentum;
      case MomentumForm::cumulative:
        return 1 / static_cast<double>(problem_.step);
      case MomentumForm::accumulated_weight:
        return 1;
    }
    return 1;
  }

  // ---- predictions from the statistics of groups, in double: far more than the errors in question need

  [[nodiscard]] double x(std::int64_t i) const {
    return static_cast<double>(inputs_[Role::x][static_cast<std::size_t>(i)]);
  }
  [[nodiscard]] double gamma_at(const Shape& at) const {
    if (inputs_[Role::gamma].empty()) return 1;
    const auto i = static_cast<std::size_t>(dense_index(problem_.shape, affine_, at));
    return static_cast<double>(inputs_[Role::gamma][i]) + (problem_.convention.gamma == GammaOffset::plus_one ? 1 : 0);
  }
  [[nodiscard]] double beta_at(const Shape& at) const {
    if (inputs_[Role::beta].empty()) return 0;
    return static_cast<double>(inputs_[Role::beta][static_cast<std::size_t>(dense_index(problem_.shape, affine_, at))]);
  }
  [[nodiscard]] double divisor(double count) const {
    return problem_.convention.normalizing == NormalizingDivisor::n_minus_1 && subject_.row.centred
               ? std::max(count - 1, 1.0)
               : count;
  }
  [[nodiscard]] double root(double variance) const {
    return reciprocal_root(problem_.convention, variance, problem_.eps);
  }
  [[nodiscard]] Statistics truth_of(std::int64_t group) const {
    const GroupTruth& truth = truth_.groups[static_cast<std::size_t>(group)];
    return {truth.mean.hi, truth.variance.hi, truth.rstd.hi};
  }

  // `saved_too`: the saved statistics are those predicted. Running statistics do not follow from a prediction of
  // eps, and are not compared with one of statistics.
  Fit groups(const StatisticsOf& statistics_of_group, bool saved_too, bool parts_allowed) const {
    Fit fit;
    fit.explains = !suspects_.empty();
    double before = 0;
    double after = 0;
    for (std::int64_t group = 0; group < groups_.count(); ++group) {
      const auto g = static_cast<std::size_t>(group);
      const Statistics predicted = statistics_of_group(group);
      const double growth = std::max(1.0, std::pow(predicted.factor / truth_.groups[g].rstd.hi, 3.0));
      bool agrees = true;
      double scale = 0;
      double share = 2 * unit_roundoff;  // the declared tolerance of the group, relative to its scale
      bool judged = false;
      groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
        const auto index = static_cast<std::size_t>(i);
        const double size =
            std::fabs((x(i) - predicted.mean) * predicted.factor * gamma_at(at)) + std::fabs(beta_at(at));
        if (std::isfinite(size)) scale = std::max(scale, size);
        const double tolerance = bounds_.tolerance[Role::y][index];
        judged = judged || std::isfinite(tolerance);
        if (std::isfinite(tolerance) && bounds_.scale[Role::y][index] > 0)
          share = std::max(share, tolerance / bounds_.scale[Role::y][index]);
      });
      judged = judged || (written(Role::stat) && g < bounds_.tolerance[Role::stat].size() &&
                          std::isfinite(bounds_.tolerance[Role::stat][g]));
      if (!judged || !written(Role::y)) {
        // Nothing is known of such a group.
        if (group_suspected_[g]) fit.explains = false;
        continue;
      }
      // On (nearly) constant groups the tolerance is so wide that it would explain anything.
      const double wide = 2 * share * growth * scale + 0x1p-126;
      const double tolerance = std::min(wide, 0x1p-9 * scale + 0x1p-126);
      double offset = 0;
      const auto compare = [&](Role role, std::size_t index, double value, double most, double least_other) {
        const bool suspect = suspected(role, index);
        const double real = got(role, index);
        if (!std::isfinite(value)) {
          if (std::isfinite(real)) agrees = false;
          if (std::isfinite(real)) fit.contradicted = true;
          if (suspect) before = infinity;
          return;
        }
        const double error = distance(real, Exact{value, 0, 0});
        if (!(error <= most)) agrees = false;
        if (error > least_other) fit.contradicted = true;
        if (!suspect) return;
        before = std::max(before, error_of(role, index) / bounds_.scale[role][index]);
        after = std::max(after, error / bounds_.scale[role][index]);
        // An offset alone confirms no factor but 0.
        const bool telling = role != Role::y || std::fabs(value - offset) > most || predicted.factor == 0;
        if (value != 0 && telling && error <= most && error <= error_of(role, index) / 4) ++fit.matched;
      };
      groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
        if (!std::isfinite(bounds_.tolerance[Role::y][static_cast<std::size_t>(i)])) return;
        offset = beta_at(at);
        compare(Role::y, static_cast<std::size_t>(i),
                (x(i) - predicted.mean) * predicted.factor * gamma_at(at) + beta_at(at), tolerance, 4 * wide);
      });
      const auto compare_saved = [&](Role role, double value) {
        if (!written(role) || g >= truth_.out[role].size()) return;
        if (!saved_too && !suspected(role, g)) return;
        const double declared = bounds_.tolerance[role][g];
        const double size = std::fabs(truth_.out[role][g].hi);
        const double grown = size > 0 ? declared / size * growth * std::fabs(value) : declared;
        const double most = 2 * std::max(declared, grown) + 4 * unit_roundoff * std::fabs(value);
        if (std::isfinite(most))
          compare(role, g, value, std::min(most, 0x1p-9 * std::fabs(value) + (role == Role::mean ? declared : 0.0)),
                  4 * most);
      };
      compare_saved(Role::mean, predicted.mean);
      compare_saved(Role::stat,
                    problem_.convention.saved == SavedStatistic::variance ? predicted.variance : predicted.factor);
      if (agrees) continue;
      if (group_suspected_[g] || !parts_allowed) fit.explains = false;
      if (!fit.explains && quick_) return {};
      fit.in_some_groups = true;
    }
    fit.explains = fit.explains && after <= before / 8;
    fit.residual = before > 0 && std::isfinite(before) ? after / before : 0;
    return fit;
  }

  void other_eps(const Visit& visit) const {
    const bool known = std::all_of(truth_.groups.begin(), truth_.groups.end(), [](const GroupTruth& truth) {
      return truth.variance.finite() && truth.mean.finite();
    });
    if (!known || !only_suspected({Role::y, Role::mean, Role::stat})) return;
    const double eps = problem_.eps;
    const auto with = [&](const std::string& diagnosis, const std::string& sentence, double other) {
      if (!asked(diagnosis) || other == eps) return;
      visit(diagnosis, sentence, "",
            groups(
                [&](std::int64_t group) {
                  Statistics statistics = truth_of(group);
                  statistics.factor = reciprocal_root(problem_.convention, statistics.variance, other);
                  return statistics;
                },
                true, false));
    };
    with("eps ignored", "the result with eps = 0", 0);
    with("eps 1e-5 whatever is given", fmt::format("the result with eps = 1e-05; given was {}", shortest(eps)),
         Problem{}.eps);
    for (const auto& [name, least] :
         {std::pair{"1e-5", 1e-5}, {"1e-6", 1e-6}, {"1e-8", 1e-8}, {"1e-10", 1e-10}, {"1e-12", 1e-12}})
      with(fmt::format("eps raised to {}", name),
           fmt::format("the result with an eps of at least {}; given was {}", name, shortest(eps)),
           std::max(eps, least));
    for (const ShortType& type : short_types)
      with(fmt::format("eps rounded to {}", type.name),
           fmt::format("the result with eps rounded to {}: {} for {}", type.name,
                       shortest(rounded(eps, type.bits, type.smallest)), shortest(eps)),
           rounded(eps, type.bits, type.smallest));
    with("twice eps", "the result with 2*eps: eps is added twice", 2 * eps);
    with("eps squared", "the result with eps*eps", eps * eps);
    if (groups_.size() > 1)
      with("eps added before the division by n", "the result with eps/n: eps is added to the sum of squares",
           eps / static_cast<double>(groups_.size()));
    const auto rooted = [&](const std::string& diagnosis, const std::string& sentence,
                            const std::function<double(double)>& factor_of) {
      if (!asked(diagnosis)) return;
      visit(diagnosis, sentence, "",
            groups(
                [&](std::int64_t group) {
                  Statistics statistics = truth_of(group);
                  statistics.factor = factor_of(statistics.variance);
                  return statistics;
                },
                true, false));
    };
    rooted("root taken twice", "the standard deviation taken for the variance: the root is taken twice",
           [&](double variance) { return root(std::sqrt(variance)); });
    rooted("root not taken", "division by the variance: its root is not taken",
           [&](double variance) { return 1 / (variance + eps); });
    rooted("reciprocal root of 0", "y is beta: the reciprocal root is 0", [](double) { return 0.0; });
    rooted("reciprocal root capped at 1e6", "the result with a reciprocal root of at most 1e6",
           [&](double variance) { return std::min(root(variance), 1e6); });
    if (asked("eps scaled by the largest square"))
      visit(
          "eps scaled by the largest square", "the result with eps times the square of the group's largest element", "",
          groups(
              [&](std::int64_t group) {
                Statistics statistics = truth_of(group);
                double largest = 0;
                groups_.for_each(group,
                                 [&](std::int64_t i, const Shape&) { largest = std::max(largest, std::fabs(x(i))); });
                statistics.factor = reciprocal_root(problem_.convention, statistics.variance, eps * largest * largest);
                return statistics;
              },
              true, false));
    for (const auto& [name, least] : {std::pair{"1e-5", 1e-5},
                                      {"1e-6", 1e-6},
                                      {"1e-7", 1e-7},
                                      {"1e-8", 1e-8},
                                      {"1e-10", 1e-10},
                                      {"1e-12", 1e-12},
                                      {"1e-20", 1e-20}}) {
      const bool any = std::any_of(
          truth_.groups.begin(), truth_.groups.end(),
          [least = least](const GroupTruth& truth) { return truth.variance.hi < least && truth.variance.hi > 0; });
      const std::string diagnosis = fmt::format("variance below {} taken as 0", name);
      if (!any || !asked(diagnosis)) continue;
      visit(diagnosis, fmt::format("the result with variances below {} taken as 0", name), "",
            groups(
                [&, least = least](std::int64_t group) {
                  Statistics statistics = truth_of(group);
                  if (statistics.variance < least) statistics.variance = 0;
                  statistics.factor = root(statistics.variance);
                  return statistics;
                },
                true, false));
    }
  }

  // Mean and variance of the elements that are kept; `mean_of_all` and `variance_of_all`: the others are lost in the
  // other one only; `divide_by_all`: the lost elements are counted.
  struct Losses {
    bool mean_of_all = false;
    bool variance_of_all = false;
    bool divide_by_all = false;
  };
  using Kept = std::function<bool(std::int64_t position, const Shape& at)>;
  Statistics statistics_of(std::int64_t group, const Kept& kept, const Losses& losses) const {
    double sum = 0;
    double all = 0;
    double some = 0;
    std::int64_t position = 0;
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const bool keep = kept(position++, at);
      all += 1;
      some += keep ? 1 : 0;
      if (keep || losses.mean_of_all) sum += x(i);
    });
    const double mean = subject_.row.centred ? sum / (losses.mean_of_all || losses.divide_by_all ? all : some) : 0.0;
    double squares = 0;
    position = 0;
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const bool keep = kept(position++, at);
      if (keep || losses.variance_of_all) squares += (x(i) - mean) * (x(i) - mean);
    });
    const double variance = squares / divisor(losses.variance_of_all || losses.divide_by_all ? all : some);
    return {mean, variance, root(variance)};
  }
  Statistics around(std::int64_t group, double mean, double per_element) const {
    double squares = 0;
    groups_.for_each(group, [&](std::int64_t i, const Shape&) { squares += (x(i) - mean) * (x(i) - mean); });
    const double variance = squares * per_element;
    return {mean, variance, root(variance)};
  }
  [[nodiscard]] std::vector<double> elements_of(std::int64_t group) const {
    std::vector<double> elements;
    elements.reserve(static_cast<std::size_t>(groups_.size()));
    groups_.for_each(group, [&](std::int64_t i, const Shape&) { elements.push_back(x(i)); });
    return elements;
  }

  void other_statistics(const Visit& visit) const {
    if (!any_[Role::y] && !any_[Role::mean] && !any_[Role::stat] && only_.empty()) return;
    // Of one or two elements, or of equal ones, too many statistics give the same.
    const bool telling =
        groups_.size() >= 3 && std::any_of(truth_.groups.begin(), truth_.groups.end(),
                                           [](const auto& t) { return t.variance.hi > 1e-9 * t.mean.hi * t.mean.hi; });
    if (!telling) return;
    const bool centred = subject_.row.centred;
    const double n = static_cast<double>(groups_.size());
    const auto with = [&](const std::string& diagnosis, const std::string& sentence, bool saved_too,
                          const StatisticsOf& statistics) {
      if (asked(diagnosis)) visit(diagnosis, sentence, "", groups(statistics, saved_too, true));
    };
    if (groups_.count() > 1) {
      for (const std::int64_t step : {-1, 1})
        with("statistics of the neighbouring group", "a group normalized with its neighbour's statistics", false,
             [&, step](std::int64_t group) {
               const std::int64_t other = group + step;
               return truth_of(other >= 0 && other < groups_.count() ? other : group - step);
             });
      with("statistics of the first group", "all groups normalized with the first one's statistics", false,
           [&](std::int64_t) { return truth_of(0); });
    }
    for (const bool of_squares : {false, true}) {
      if (centred)
        with("mean not subtracted", "the root mean square's normalization: the mean is not subtracted", false,
             [&, of_squares](std::int64_t group) {
               const Statistics truth = truth_of(group);
               const double variance = truth.variance + (of_squares ? truth.mean * truth.mean : 0);
               return Statistics{0, variance, root(variance)};
             });
      else
        with("mean subtracted", "the mean is subtracted, which this variant does not do", false,
             [&, of_squares](std::int64_t group) {
               const std::vector<double> elements = elements_of(group);
               double sum = 0;
               for (const double element : elements) sum += element;
               const double mean = sum / n;
               const double variance = truth_of(group).variance - (of_squares ? 0 : mean * mean);
               return Statistics{mean, variance, root(variance)};
             });
    }
    lost_elements(with);
    for (const ShortType& type : short_types) {
      const auto short_of = [&type](double value) { return rounded(value, type.bits, type.smallest); };
      with(fmt::format("statistics in {}", type.name), fmt::format("mean and reciprocal root rounded to {}", type.name),
           true, [&](std::int64_t group) {
             const Statistics truth = truth_of(group);
             return Statistics{short_of(truth.mean), truth.variance, short_of(truth.factor)};
           });
      for (const bool both : {false, true})
        with(fmt::format("1/n rounded to {}", type.name),
             fmt::format("sums multiplied by 1/n rounded to {}", type.name), true, [&, both](std::int64_t group) {
               const double mean = centred ? truth_of(group).mean * n * short_of(1 / n) : 0;
               return around(group, mean, both ? short_of(1 / n) : 1 / divisor(n));
             });
    }
    merged_parts(with);
  }

  template <typename With>
  void lost_elements(const With& with) const {
    with("every second element left out of the statistics", "statistics of every second element only", true,
         [&](std::int64_t group) {
           return statistics_of(group, [](std::int64_t position, const Shape&) { return position % 2 == 0; }, {});
         });
    // Positions in the group, or on the innermost reduced axis that has an extent.
    std::size_t axis = axis_count;
    for (std::size_t a = 0; a < axis_count; ++a)
      if (subject_.row.reduced.has(a) && problem_.shape[a] > 1) axis = a;
    for (const bool by_position : {true, false}) {
      if (!by_position && (axis == axis_count || problem_.shape[axis] == groups_.size())) continue;
      const std::int64_t extent = by_position ? groups_.size() : problem_.shape[axis];
      std::vector<std::int64_t> numbers{1};
      for (const std::int64_t width : {4, 8, 16, 32, 64}) {
        const std::int64_t lost = extent % width;
        if (lost > 0 && lost < extent && std::find(numbers.begin(), numbers.end(), lost) == numbers.end())
          numbers.push_back(lost);
      }
      for (const std::int64_t lost : numbers)
        for (const Losses& losses : {Losses{false, false, true}, Losses{true, false, true}, Losses{false, true, true},
                                     Losses{false, false, false}})
          with("tail left out of the statistics",
               lost == 1 ? fmt::format("statistics without the last element (of {})", extent)
                         : fmt::format("statistics without the last {} elements (of {})", lost, extent),
               true, [&, by_position, extent, lost, losses](std::int64_t group) {
                 return statistics_of(
                     group,
                     [&](std::int64_t position, const Shape& at) {
                       return (by_position ? position : at[axis]) < extent - lost;
                     },
                     losses);
               });
    }
  }

  // Partial statistics of a group, put together in a wrong way.
  template <typename With>
  void merged_parts(const With& with) const {
    if (!subject_.row.centred) return;
    const std::int64_t n = groups_.size();
    const auto parts_of = [&](std::int64_t group, std::int64_t size) {
      std::vector<Statistics> parts;  // mean, sum of squares around it, count
      const std::vector<double> elements = elements_of(group);
      for (std::int64_t begin = 0; begin < n; begin += size) {
        const std::int64_t end = std::min(n, begin + size);
        const double count = static_cast<double>(end - begin);
        double sum = 0;
        double squares = 0;
        for (std::int64_t i = begin; i < end; ++i) sum += elements[static_cast<std::size_t>(i)];
        for (std::int64_t i = begin; i < end; ++i) {
          const double d = elements[static_cast<std::size_t>(i)] - sum / count;
          squares += d * d;
        }
        parts.push_back({sum / count, squares, count});
      }
      return parts;
    };
    for (std::int64_t size = 2; size < n; size *= 2) {
      with("parts merged without the difference of their means",
           fmt::format("the variance within parts of {} elements only: their means differ, and that is left out", size),
           true, [&, size](std::int64_t group) {
             double squares = 0;
             for (const Statistics& part : parts_of(group, size)) squares += part.variance;
             const double variance = squares / divisor(static_cast<double>(n));
             return Statistics{truth_of(group).mean, variance, root(variance)};
           });
      if (n % size != 0)
        with("mean of the parts' means",
             fmt::format("the mean of the means of parts of {} elements, the last one of fewer", size), true,
             [&, size](std::int64_t group) {
               double sum = 0;
               double count = 0;
               for (const Statistics& part : parts_of(group, size)) {
                 sum += part.mean;
                 count += 1;
               }
               return around(group, sum / count, 1 / divisor(static_cast<double>(n)));
             });
    }
    std::vector<std::int64_t> halves;
    for (const std::int64_t width : {1, 4, 8, 16}) {
      const std::int64_t half = n / 2 / width * width;
      if (half > 0 && 2 * half != n && std::find(halves.begin(), halves.end(), half) == halves.end())
        halves.push_back(half);
    }
    for (const std::int64_t half : halves)
      with("unequal parts merged as equal",
           fmt::format("statistics of {} and {} elements, merged as if of equally many", half, n - half), true,
           [&, half](std::int64_t group) {
             const std::vector<double> elements = elements_of(group);
             std::array<double, 2> means{};
             double squares = 0;
             for (std::size_t part = 0; part < 2; ++part) {
               const auto begin = elements.begin() + (part == 0 ? 0 : half);
               const auto end = part == 0 ? elements.begin() + half : elements.end();
               double sum = 0;
               for (auto i = begin; i != end; ++i) sum += *i;
               means[part] = sum / static_cast<double>(end - begin);
               for (auto i = begin; i != end; ++i) squares += (*i - means[part]) * (*i - means[part]);
             }
             const double difference = means[1] - means[0];
             const double variance =
                 (squares + difference * difference * static_cast<double>(n) / 4) / divisor(static_cast<double>(n));
             return Statistics{(means[0] + means[1]) / 2, variance, root(variance)};
           });
  }

  // ---- other algorithms

  void flushed_subnormals() {
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

  // An output of which no element has more bits than a shorter type.
  void short_output() {
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
        add(2, diagnosis, fmt::format("no element of {} has more than the {} bits of {}", name, type.bits, type.name),
            "", static_cast<std::int64_t>(suspects_.size()));
    }
  }

  // The very results of the folded form, from statistics a few roundings from the true ones.
  void folded_form() {
    if (!asked("folded form") || subject_.kernel.claim.form == AffineForm::folded || !subject_.row.centred ||
        !any_[Role::y] || !only_suspected({Role::y}) ||
        truth_.groups.size() != static_cast<std::size_t>(groups_.count()))
      return;
    std::int64_t matched = 0;
    for (std::int64_t group = 0; group < groups_.count(); ++group) {
      if (!group_suspected_[static_cast<std::size_t>(group)]) continue;
      if (!folded(group)) return;
      groups_.for_each(group, [&](std::int64_t i, const Shape&) {
        matched += suspected(Role::y, static_cast<std::size_t>(i)) ? 1 : 0;
      });
    }
    add(2, "folded form", "the folded form x*a + b with a = gamma/D and b = beta - mean*a",
        "declare `.form = NG_FOLDED` in its claim to be held to that", matched);
  }
  [[nodiscard]] bool folded(std::int64_t group) const {
    struct Element {
      float x, gamma, beta, y;
    };
    std::vector<Element> elements;
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      elements.push_back({inputs_[Role::x][index], static_cast<float>(gamma_at(at)), static_cast<float>(beta_at(at)),
                          outcome_.outputs[Role::y][index]});
    });
    const Statistics truth = truth_of(group);
    const auto all = [&](const auto& y_of) {
      return std::all_of(elements.begin(), elements.end(), [&](const Element& e) { return y_of(e) == e.y; });
    };
    const auto product = [](float a, float b) {
      const volatile float result = a * b;  // not fused with a following sum
      return static_cast<float>(result);
    };
    const auto in_double = [&](const Element& e, float& a, float& b) {
      a = static_cast<float>(truth.factor * static_cast<double>(e.gamma));
      b = static_cast<float>(static_cast<double>(e.beta) - truth.mean * static_cast<double>(a));
    };
    float a = 0;
    float b = 0;
    if (all([&](const Element& e) { return in_double(e, a, b), product(e.x, a) + b; })) return true;
    if (all([&](const Element& e) { return in_double(e, a, b), std::fma(e.x, a, b); })) return true;
    const auto moved = [](double value, int steps) {
      auto result = static_cast<float>(value);
      for (int i = 0; i < std::abs(steps); ++i)
        result = std::nextafter(
            result, steps > 0 ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity());
      return result;
    };
    const auto with = [&](float mean, float factor) {
      return all([&](const Element& e) {
               const float slope = factor * e.gamma;
               return product(e.x, slope) + (e.beta - product(mean, slope));
             }) ||
             all([&](const Element& e) {
               const float slope = factor * e.gamma;
               return std::fma(e.x, slope, std::fma(-mean, slope, e.beta));
             });
    };
    const auto g = static_cast<std::size_t>(group);
    if (written(Role::mean) && written(Role::stat) && problem_.convention.saved == SavedStatistic::rstd &&
        with(outcome_.outputs[Role::mean][g], outcome_.outputs[Role::stat][g]))
      return true;
    // The more elements, the more statistics may be tried before one fits by accident.
    const int steps = elements.size() < 8 ? 1 : elements.size() < 16 ? 6 : 24;
    for (int m = -steps; m <= steps; ++m)
      for (int f = -2 * steps; f <= 2 * steps; ++f)
        if (with(moved(truth.mean, m), moved(truth.factor, f))) return true;
    return false;
  }

  // Estimates of the reciprocal root that are known to the bit.
  void approximate_root() {
    if (!asked("approximate reciprocal root") || problem_.convention.eps != EpsPlacement::inside ||
        !only_suspected({Role::y, Role::stat, Role::running_mean, Role::running_var}) || !any_[Role::y] ||
        truth_.groups.size() != static_cast<std::size_t>(groups_.count()))
      return;
    const auto newton = [](float value, float estimate, int steps) {
      for (int i = 0; i < steps; ++i) estimate = estimate * (1.5F - 0.5F * value * estimate * estimate);
      return static_cast<double>(estimate);
    };
    const auto try_seed = [&](std::string_view name, const std::function<float(float)>& seed, int most_steps) {
      for (int steps = 0; steps <= most_steps; ++steps) {
        const Fit fit = groups(
            [&](std::int64_t group) {
              Statistics statistics = truth_of(group);
              const auto radicand = static_cast<float>(statistics.variance + problem_.eps);
              statistics.factor = newton(radicand, seed(radicand), steps);
              return statistics;
            },
            true, false);
        if (!fit.explains) continue;
        add(2, "approximate reciprocal root",
            fmt::format("{}, refined by {} steps of Newton's", name, steps == 0 ? "no" : std::to_string(steps)),
            "declare `.rsqrt_ulp` in its claim to be held to that", fit.matched);
        return true;
      }
      return false;
    };
#if defined(__SSE__)
    if (try_seed(
            "the processor's estimate of the reciprocal root",
            [](float value) { return _mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(value))); }, 1))
      return;
#endif
    for (const std::uint32_t magic : {0x5F3759DFU, 0x5F375A86U})
      if (try_seed(
              "a reciprocal root estimated from the exponent's bits",
              [&](float value) { return std::bit_cast<float>(magic - (std::bit_cast<std::uint32_t>(value) >> 1U)); },
              3))
        return;
  }

  // The factor by which y - beta of a group is off, less 1, if every element that it would move is off by it, up to a
  // `share` of that.
  [[nodiscard]] std::optional<double> gain_of(std::int64_t group, double share) const {
    double along = 0;
    double norm = 0;
    double largest = 0;
    bool finite = true;
    const auto direction = [&](std::int64_t i, const Shape& at) {
      return truth_.out[Role::y][static_cast<std::size_t>(i)].hi - beta_at(at);
    };
    const auto error = [&](std::int64_t i) {
      const auto index = static_cast<std::size_t>(i);
      return (got(Role::y, index) - truth_.out[Role::y][index].hi) - truth_.out[Role::y][index].lo;
    };
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      finite =
          finite && std::isfinite(error(i)) && std::isfinite(bounds_.tolerance[Role::y][static_cast<std::size_t>(i)]);
      along += error(i) * direction(i, at);
      norm += direction(i, at) * direction(i, at);
      largest = std::max(largest, std::fabs(error(i)));
    });
    if (!finite || !(norm > 0)) return std::nullopt;
    const double gain = along / norm;
    bool all = true;
    std::int64_t moved = 0;
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const double expected = std::fabs(gain * direction(i, at));
      const double rest = std::fabs(error(i) - gain * direction(i, at));
      const double tolerance = bounds_.tolerance[Role::y][static_cast<std::size_t>(i)];
      moved += expected > tolerance / 4 ? 1 : 0;
      all = all && rest <= share * largest && (expected <= tolerance || rest <= 2 * share * expected);
    });
    // Of few elements anything is a gain.
    if (moved < matched_at_least || !all) return std::nullopt;
    return gain;
  }
  [[nodiscard]] bool any_y_suspected(std::int64_t group) const {
    bool any = false;
    groups_.for_each(
        group, [&](std::int64_t i, const Shape&) { any = any || suspected(Role::y, static_cast<std::size_t>(i)); });
    return any;
  }
  [[nodiscard]] bool gains_possible() const {
    return any_[Role::y] && groups_.size() >= 4 && beyond_bound_ && problem_.phase == Phase::forward_training &&
           only_suspected({Role::y, Role::stat, Role::running_var}) &&
           truth_.groups.size() == static_cast<std::size_t>(groups_.count());
  }
  [[nodiscard]] bool saved_with(std::int64_t group, double gain) const {
    const auto g = static_cast<std::size_t>(group);
    if (!written(Role::stat)) return true;
    const double truth = truth_.out[Role::stat][g].hi;
    const double wanted = problem_.convention.saved == SavedStatistic::variance
                              ? (truth + problem_.eps) / ((1 + gain) * (1 + gain)) - problem_.eps
                              : truth * (1 + gain);
    if (problem_.convention.saved == SavedStatistic::variance && problem_.convention.eps != EpsPlacement::inside)
      return true;
    return std::fabs(got(Role::stat, g) - wanted) <=
           bounds_.tolerance[Role::stat][g] + std::fabs(got(Role::stat, g) - truth) / 8;
  }

  // A variance off by roundings of the mean's square, or negative, and nothing else wrong.
  void one_pass_variance() {
    if (!asked("one-pass variance") || subject_.kernel.claim.variance == VarianceAlgorithm::one_pass ||
        !subject_.row.centred || !only_suspected({Role::y, Role::stat, Role::running_var}) ||
        !(any_[Role::y] || any_[Role::stat]) || problem_.phase != Phase::forward_training ||
        problem_.convention.eps != EpsPlacement::inside ||
        truth_.groups.size() != static_cast<std::size_t>(groups_.count()))
      return;
    const double unit = subject_.kernel.claim.accumulator == ScalarType::float64 ? 0x1p-53 : unit_roundoff;
    const double n = static_cast<double>(groups_.size());
    bool negative = false;
    std::int64_t matched = 0;
    for (std::int64_t group = 0; group < groups_.count(); ++group) {
      if (!group_suspected_[static_cast<std::size_t>(group)]) continue;
      const Statistics truth = truth_of(group);
      const double square = truth.mean * truth.mean;
      bool all_nan = true;
      groups_.for_each(group, [&](std::int64_t i, const Shape&) {
        all_nan = all_nan && std::isnan(got(Role::y, static_cast<std::size_t>(i)));
      });
      if (all_nan) {
        if (!(4 * std::sqrt(n) * unit * square >= truth.variance + problem_.eps)) return;
        negative = true;
        if (truth.variance > 0 && groups_.size() >= matched_at_least) matched += groups_.size();
        continue;
      }
      const auto g = static_cast<std::size_t>(group);
      double variance = 0;
      const std::optional<double> gain =
          any_[Role::y] && groups_.size() >= matched_at_least ? gain_of(group, 0.5) : std::nullopt;
      const bool y_wrong = any_y_suspected(group);
      if (written(Role::stat)) {
        const double saved = got(Role::stat, g);
        variance = problem_.convention.saved == SavedStatistic::variance ? saved : 1 / (saved * saved) - problem_.eps;
        if (y_wrong && groups_.size() >= matched_at_least && !gain) return;
      } else if (gain) {
        const double factor = truth.factor * (1 + *gain);
        variance = 1 / (factor * factor) - problem_.eps;
      } else if (groups_.size() >= 2 * matched_at_least) {
        return;
      } else {
        continue;
      }
      const double off = std::fabs(variance - truth.variance);
      const double rounding = unit * (square + truth.variance);
      const double of_the_root = 8 * unit_roundoff * (truth.variance + problem_.eps);
      if (!(off <= std::max(8.0, n) * rounding + of_the_root)) return;
      // Around a mean that is no larger than the deviations other roundings are as large, and on constant groups any
      // variance is wrong.
      if (square >= 16 * truth.variance && truth.variance > 0 && off >= rounding / 64) matched += groups_.size();
    }
    add(2, "one-pass variance",
        negative ? "one-pass variance (mean of squares less square of the mean): negative, its root NaN"
                 : "one-pass variance (mean of squares less square of the mean)",
        "declare `.variance = NG_ONE_PASS` in its claim to be held to that", matched);
  }

  // Not why, but what: the factor of each group is wrong, the mean right.
  void gain_per_group() {
    if (!asked("gain per group") || !gains_possible()) return;
    double least = infinity;
    double most = -infinity;
    for (std::int64_t group = 0; group < groups_.count(); ++group) {
      if (!group_suspected_[static_cast<std::size_t>(group)]) continue;
      const std::optional<double> gain = gain_of(group, 1.0 / 8);
      if (!gain || !saved_with(group, *gain)) return;
      least = std::min(least, *gain);
      most = std::max(most, *gain);
    }
    if (!(least <= most)) return;
    const std::string range =
        least == most ? fmt::format("1{:+.2g}", least) : fmt::format("1{:+.2g} to 1{:+.2g}, by group", least, most);
    add(3, "gain per group",
        fmt::format("a gain of {}: {}", range,
                    subject_.row.centred ? "the mean is right, the variance or its reciprocal root is not"
                                         : "the mean square or its reciprocal root is wrong"));
  }

  [[nodiscard]] bool covered_by(const Claim& claim) const {
    const Bounds bounds = forward_bounds(problem_, inputs_, truth_, claim);
    return std::all_of(suspects_.begin(), suspects_.end(), [&](const Place& place) {
      return error_of(place.role, place.index) <=
             bounds.tolerance[place.role][place.index] + truth_.out[place.role][place.index].bound;
    });
  }
  void lower_precision() {
    Claim claim = subject_.kernel.claim;
    if (asked("float32 accumulator") && claim.accumulator == ScalarType::float64) {
      claim.accumulator = ScalarType::float32;
      if (covered_by(claim))
        return add(4, "float32 accumulator", "errors within the bound of sums in float32; the claim says float64");
    }
    if (asked("float32 statistics") && claim.statistics == ScalarType::float64) {
      claim.statistics = ScalarType::float32;
      if (covered_by(claim))
        add(4, "float32 statistics",
            "errors within the bound of a mean and reciprocal root in float32; the claim says float64");
    }
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const Subject& subject_;
  const runner::Outcome& outcome_;
  std::string_view only_;
  Groups groups_;
  AxisSet affine_;
  Truth truth_;
  Bounds bounds_;
  std::vector<Place> suspects_;
  bool beyond_bound_ = false;
  bool quick_ = false;  // contradictions are not asked for
  PerRole<std::vector<bool>> suspected_;
  PerRole<bool> any_{};
  std::vector<bool> group_suspected_;
  std::vector<Explanation> found_;
};

// Of one diagnosis with several variants the one that matches most.
std::vector<Explanation> one_of_each(const std::vector<Explanation>& found) {
  std::vector<Explanation> result;
  for (const Explanation& explanation : found) {
    const auto same = std::find_if(result.begin(), result.end(),
                                   [&](const Explanation& other) { return other.diagnosis == explanation.diagnosis; });
    if (same == result.end())
      result.push_back(explanation);
    else if (explanation.matched > same->matched)
      *same = explanation;
  }
  return result;
}

}  // namespace

Diagnosed explanations(const Problem& problem, const Inputs& inputs, const Subject& subject,
                       const runner::Outcome& outcome, std::string_view only) {
  if (outcome.status != runner::Status::ok) return {};
  Diagnosed diagnosed = Diagnosis(problem, inputs, subject, outcome, only).find();
  diagnosed.found = one_of_each(diagnosed.found);
  return diagnosed;
}

bool contradicts(const Problem& problem, const Inputs& inputs, const Subject& subject, const runner::Outcome& outcome,
                 std::string_view diagnosis) {
  if (outcome.status != runner::Status::ok) return false;
  return Diagnosis(problem, inputs, subject, outcome, diagnosis).contradicts();
}

std::optional<Explanation> agreed(std::vector<Explanation> found) {
  if (found.empty()) return std::nullopt;
  const auto rank = std::min_element(found.begin(), found.end(), [](const Explanation& a, const Explanation& b) {
                      return a.rank < b.rank;
                    })->rank;
  std::erase_if(found, [&](const Explanation& explanation) { return explanation.rank != rank; });
  // One that leaves roundings is not in doubt because of one that leaves a tenth.
  const double residual = std::min_element(found.begin(), found.end(), [](const Explanation& a, const Explanation& b) {
                            return a.residual < b.residual;
                          })->residual;
  std::erase_if(found, [&](const Explanation& explanation) { return explanation.residual > 4 * residual + 1e-6; });
  if (found.size() > 2) return std::nullopt;
  if (found.size() == 1) return found.front();
  Explanation both = found.front();
  both.diagnosis += ", or " + found.back().diagnosis;
  both.looks_like += "; or " + found.back().looks_like;
  both.advice.clear();
  return both;
}

std::optional<Explanation> diagnose(const Problem& problem, const Inputs& inputs, const Subject& subject,
                                    const runner::Outcome& outcome, std::string_view only) {
  std::vector<Explanation> found = explanations(problem, inputs, subject, outcome, only).found;
  std::erase_if(found, [](const Explanation& explanation) { return explanation.matched < matched_at_least; });
  return agreed(std::move(found));
}

}  // namespace normgate
