// Hypotheses about a wrong result, tried in order, the most specific first.
//
// A hypothesis predicts the outputs. It explains the result if every element that violates its declared bound lies
// within the predicted one's, and if the error against the prediction is a small part of the error against the truth.
// A hypothesis that only widens the bound (another algorithm) must also be able to make an error of the size that was
// seen: the algorithm is emulated for that.
#include "gate/engine/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

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

using Prediction = std::function<double(std::size_t)>;  // of y, by dense index

// A statistic as a kernel might have it, of one group.
struct Statistics {
  double mean = 0;
  double variance = 0;  // the normalizing variance
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

// A share of two sizes of errors; 1 if both are beyond measure.
double size_ratio(double a, double b) {
  if (!std::isfinite(a) && !std::isfinite(b)) return 1;
  return b == 0 ? infinity : a / b;
}

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
        affine_(axes_of(Role::gamma, subject.row)) {}

  std::optional<Explanation> find() {
    collect();
    // What the door saw itself.
    if (auto found = environment()) return found;
    if (auto found = late_write()) return found;
    if (auto found = unwritten()) return found;
    if (suspects_.empty()) return std::nullopt;
    if (auto found = tail_not_normalized()) return found;
    // Without eps and with eps as a floor are the same unless the variance is below eps; the commoner mistake goes
    // first.
    if (auto found = eps_ignored()) return found;
    if (auto found = other_convention()) return found;
    if (auto found = folded_form(true)) return found;
    if (auto found = other_parameters()) return found;
    if (auto found = other_statistics()) return found;
    if (auto found = samples_counted()) return found;
    if (auto found = all_zero()) return found;
    // Other algorithms: they need elements beyond the declared bound.
    if (!beyond_bound_) return std::nullopt;
    if (auto found = flushed_subnormals()) return found;
    if (auto found = one_pass_variance(2)) return found;
    if (auto found = approximate_root()) return found;
    if (auto found = folded_form(false)) return found;
    if (auto found = one_pass_variance(64)) return found;
    return lower_precision();
  }

 private:
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
    for (const Place& place : suspects_) y_suspected_ = y_suspected_ || place.role == Role::y;
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

  [[nodiscard]] bool has_finding(runner::FindingKind kind) const {
    return std::any_of(outcome_.findings.begin(), outcome_.findings.end(),
                       [&](const runner::Finding& finding) { return finding.kind == kind; });
  }

  std::optional<Explanation> environment() const {
    if (!asked("environment not restored") || beyond_bound_ || !has_finding(runner::FindingKind::environment))
      return std::nullopt;
    return Explanation{"environment not restored",
                       "rounding mode, flush-to-zero or exception masks changed and not put back before the return"};
  }

  std::optional<Explanation> late_write() const {
    if (!asked("late write") || !has_finding(runner::FindingKind::late_write)) return std::nullopt;
    return Explanation{"late write", "a thread that goes on writing after the call has returned"};
  }

  std::optional<Explanation> unwritten() const {
    if (!asked("unwritten output") || !has_finding(runner::FindingKind::unwritten)) return std::nullopt;
    const bool poison_only = std::all_of(suspects_.begin(), suspects_.end(),
                                         [&](const Place& p) { return std::isnan(got(p.role, p.index)); });
    if (!poison_only) return std::nullopt;
    return Explanation{"unwritten output",
                       "elements that the kernel never writes: they hold the poison laid out before"};
  }

  std::optional<Explanation> all_zero() const {
    if (!asked("all outputs zero") || !written(Role::y)) return std::nullopt;
    const auto& y = outcome_.outputs[Role::y];
    const bool zero = std::all_of(y.begin(), y.end(), [](float value) { return value == 0; });
    const auto& wanted = truth_.out[Role::y];
    const bool finite = std::all_of(wanted.begin(), wanted.end(), [](const Exact& value) { return value.finite(); });
    if (!zero || !finite || !y_suspected_) return std::nullopt;
    return Explanation{"all outputs zero", "an output buffer that is cleared and not filled"};
  }

  std::optional<Explanation> tail_not_normalized() const {
    if (!asked("tail not normalized") || !y_suspected_) return std::nullopt;
    std::size_t count = 0;
    for (const Place& place : suspects_) {
      if (place.role != Role::y) continue;
      ++count;
      if (outcome_.outputs[Role::y][place.index] != inputs_[Role::x][place.index]) return std::nullopt;
    }
    if (count == truth_.out[Role::y].size()) return std::nullopt;
    return Explanation{"tail not normalized", "elements that are handed on as they came in: y is x there"};
  }

  // Whether outputs predicted with their own bounds explain the suspects, and contradict nothing that was judged.
  bool explained_by(const Truth& truth, const Bounds& bounds) const {
    double before = 0;
    double after = 0;
    bool wider = false;
    for (const Place& place : suspects_) {
      const auto& predicted = truth.out[place.role];
      if (place.index >= predicted.size()) return false;
      // Where nothing finite is predicted (no eps and no variance), nothing finite may have come.
      if (!predicted[place.index].finite()) {
        if (std::isfinite(got(place.role, place.index))) return false;
        before = infinity;
        continue;
      }
      const double error = distance(got(place.role, place.index), predicted[place.index]);
      const double tolerance = bounds.tolerance[place.role][place.index];
      if (!std::isfinite(tolerance) || !(error <= tolerance + predicted[place.index].bound)) return false;
      // Both in the scale of the declared truth: a prediction must come near, not only have a wide bound.
      const double scale = bounds_.scale[place.role][place.index];
      before = std::max(before, error_of(place.role, place.index) / scale);
      after = std::max(after, error / scale);
      wider = wider || tolerance > 2 * bounds_.tolerance[place.role][place.index];
    }
    // Where the deviation is a few roundings, so is what the right prediction leaves.
    if (!(after <= before / (wider ? 8 : 2))) return false;
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (!written(role) || truth.out[role].size() != truth_.out[role].size()) continue;
      for (std::size_t i = 0; i < truth.out[role].size(); ++i)
        if (distance(got(role, i), truth.out[role][i]) > bounds.tolerance[role][i] + truth.out[role][i].bound)
          return false;
    }
    return true;
  }

  bool explained_by(const Problem& problem, const Inputs& inputs) const {
    if (!check(problem).empty()) return false;
    const VariantRow& row = row_of(problem.variant);
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (!use_of(problem, role).read) continue;
      const std::int64_t size = element_count(restricted(problem.shape, axes_of(role, row)));
      if (static_cast<std::int64_t>(inputs[role].size()) != size) return false;
    }
    const Truth truth = forward_truth(problem, inputs);
    return explained_by(truth, forward_bounds(problem, inputs, truth, subject_.kernel.claim));
  }

  std::optional<Explanation> eps_ignored() const {
    if (!asked("eps ignored") || problem_.eps == 0) return std::nullopt;
    Problem problem = problem_;
    problem.eps = 0;
    if (!explained_by(problem, inputs_)) return std::nullopt;
    Problem floor = problem_;
    floor.convention.eps = EpsPlacement::floor;
    const bool either = problem_.convention.eps != EpsPlacement::floor && explained_by(floor, inputs_);
    return Explanation{"eps ignored", either ? "the result with eps = 0, or with eps as a floor below the variance"
                                             : "the result with eps = 0"};
  }

  std::optional<Explanation> other_convention() const {
    for (const NamedConvention& other : one_field_away(problem_.convention)) {
      if (!asked(other.difference)) continue;
      Problem problem = problem_;
      problem.convention = other.convention;
      if (explained_by(problem, inputs_))
        return Explanation{
            other.difference,
            fmt::format("{} as with {}; to be held to that, declare `.{}` in the kernel's convention",
                        suspected_roles(), other.difference, how_to_declare(problem_.convention, other.convention))};
    }
    return std::nullopt;
  }

  std::optional<Explanation> other_parameters() const {
    if (asked("eps 1e-5 whatever is given") && problem_.eps != Problem{}.eps) {
      Problem problem = problem_;
      problem.eps = Problem{}.eps;
      if (explained_by(problem, inputs_))
        return Explanation{"eps 1e-5 whatever is given",
                           fmt::format("the result with eps = 1e-05; given was eps = {}", shortest(problem_.eps))};
    }
    const bool plain = problem_.convention.gamma == GammaOffset::plain;
    const auto with = [&](Role role, const std::function<float(float)>& change) {
      if (inputs_[role].empty()) return false;
      Inputs inputs = inputs_;
      for (float& value : inputs[role]) value = change(value);
      return explained_by(problem_, inputs);
    };
    if (asked("gamma ignored") && with(Role::gamma, [&](float) { return plain ? 1.0F : 0.0F; }))
      return Explanation{"gamma ignored", "the result without gamma"};
    if (asked("beta ignored") && with(Role::beta, [](float) { return 0.0F; }))
      return Explanation{"beta ignored", "the result without beta"};
    if (asked("absolute value of gamma") && with(Role::gamma, [](float value) { return std::fabs(value); }))
      return Explanation{"absolute value of gamma", "the result with |gamma|: its sign is lost"};
    return std::nullopt;
  }

  // ---- statistics that a mistake would give, in double: far more than the errors in question need.

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
    return problem_.convention.normalizing == NormalizingDivisor::n_minus_1 ? std::max(count - 1, 1.0) : count;
  }

  // Mean and variance of the elements that are kept; `mean_of_all` and `variance_of_all`: the tail is lost in the other
  // one only; `divide_by_all`: the lost elements are counted.
  struct Losses {
    bool mean_of_all = false;
    bool variance_of_all = false;
    bool divide_by_all = false;
  };
  Statistics statistics_of(std::int64_t group, const std::function<bool(std::int64_t, const Shape&)>& kept,
                           const Losses& losses) const {
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
    Statistics result;
    if (subject_.row.centred) result.mean = sum / (losses.mean_of_all || losses.divide_by_all ? all : some);
    double squares = 0;
    position = 0;
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const bool keep = kept(position++, at);
      if (keep || losses.variance_of_all) squares += (x(i) - result.mean) * (x(i) - result.mean);
    });
    result.variance = squares / divisor(losses.variance_of_all || losses.divide_by_all ? all : some);
    return result;
  }
  Statistics statistics_of(std::int64_t group) const {
    return statistics_of(
        group, [](std::int64_t, const Shape&) { return true; }, Losses{});
  }

  // Whether y with these statistics explains the suspects of one group.
  bool group_explained_by(std::int64_t group, double shift, double factor) const {
    double before = 0;
    double after = 0;
    double scale = 0;
    double share = 4 * unit_roundoff;  // the declared tolerance of the group, relative to its scale
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      scale = std::max(scale, std::fabs((x(i) - shift) * factor * gamma_at(at)) + std::fabs(beta_at(at)));
      const double tolerance = bounds_.tolerance[Role::y][index];
      if (std::isfinite(tolerance)) share = std::max(share, tolerance / bounds_.scale[Role::y][index]);
    });
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      if (!suspected_y_[index]) return;
      const double predicted = (x(i) - shift) * factor * gamma_at(at) + beta_at(at);
      before = std::max(before, error_of(Role::y, index));
      after = std::max(after, distance(got(Role::y, index), Exact{predicted, 0, 0}));
    });
    // On (nearly) constant groups the tolerance is so wide that it would explain anything.
    return after <= 4 * std::min(share, 0x1p-10) * scale && after <= before / 8;
  }

  // Whether for every group with suspects one of the predictions holds.
  bool every_group(const std::function<bool(std::int64_t)>& explained) const {
    for (std::int64_t group = 0; group < groups_.count(); ++group)
      if (group_suspected_[static_cast<std::size_t>(group)] && !explained(group)) return false;
    return true;
  }

  std::optional<Explanation> other_statistics() {
    if (!y_suspected_ || problem_.phase != Phase::forward_training) return std::nullopt;
    if (only_.empty() || asked("tail left out of the statistics") || asked("statistics of the neighbouring group") ||
        asked("statistics of the first group") || asked("mean subtracted") || asked("mean not subtracted"))
      mark_groups();
    else
      return std::nullopt;
    const auto root = [&](double variance) { return reciprocal_root(problem_.convention, variance, problem_.eps); };

    if (asked("statistics of the neighbouring group") && groups_.count() > 1 && every_group([&](std::int64_t group) {
          for (const std::int64_t other : {group - 1, group + 1}) {
            if (other < 0 || other >= groups_.count()) continue;
            const Statistics statistics = statistics_of(other);
            if (group_explained_by(group, statistics.mean, root(statistics.variance))) return true;
          }
          return false;
        }))
      return Explanation{"statistics of the neighbouring group", "a group normalized with its neighbour's statistics"};

    if (asked("statistics of the first group") && groups_.count() > 1) {
      const Statistics first = statistics_of(0);
      const double factor = root(first.variance);
      if (every_group([&](std::int64_t group) { return group_explained_by(group, first.mean, factor); }))
        return Explanation{"statistics of the first group", "all groups normalized with the first one's statistics"};
    }

    if (subject_.row.centred && asked("mean not subtracted") && every_group([&](std::int64_t group) {
          const Statistics statistics = statistics_of(group);
          const double mean_square = statistics.variance + statistics.mean * statistics.mean;
          return group_explained_by(group, 0, root(statistics.variance)) ||
                 group_explained_by(group, 0, root(mean_square));
        }))
      return Explanation{"mean not subtracted", "the root mean square's normalization: the mean is not subtracted"};

    if (!subject_.row.centred && asked("mean subtracted") && every_group([&](std::int64_t group) {
          double sum = 0;
          groups_.for_each(group, [&](std::int64_t i, const Shape&) { sum += x(i); });
          const double mean = sum / static_cast<double>(groups_.size());
          const double mean_square = statistics_of(group).variance;
          return group_explained_by(group, mean, root(mean_square - mean * mean)) ||
                 group_explained_by(group, mean, root(mean_square));
        }))
      return Explanation{"mean subtracted", "the mean is subtracted, which this variant does not do"};

    if (asked("tail left out of the statistics")) {
      for (const std::int64_t width : {4, 8, 16, 32, 64}) {
        for (const bool by_position : {true, false}) {
          // Positions in the group, or on the innermost reduced axis that has an extent.
          std::size_t axis = axis_count;
          for (std::size_t a = 0; a < axis_count; ++a)
            if (subject_.row.reduced.has(a) && problem_.shape[a] > 1) axis = a;
          if (!by_position && axis == axis_count) continue;
          const std::int64_t extent = by_position ? groups_.size() : problem_.shape[axis];
          const std::int64_t whole = extent - extent % width;
          if (whole == extent || whole == 0) continue;
          const auto kept = [&](std::int64_t position, const Shape& at) {
            return (by_position ? position : at[axis]) < whole;
          };
          for (const Losses& losses : {Losses{false, false, true}, Losses{true, false, true}, Losses{false, true, true},
                                       Losses{false, false, false}}) {
            if (every_group([&](std::int64_t group) {
                  const Statistics statistics = statistics_of(group, kept, losses);
                  return group_explained_by(group, statistics.mean, root(statistics.variance));
                }))
              return Explanation{"tail left out of the statistics",
                                 fmt::format("statistics without the last {} elements (of {}, in vectors of {})",
                                             extent - whole, extent, width)};
          }
        }
      }
    }
    return std::nullopt;
  }

  void mark_groups() {
    suspected_y_.assign(truth_.out[Role::y].size(), false);
    group_suspected_.assign(static_cast<std::size_t>(groups_.count()), false);
    for (const Place& place : suspects_)
      if (place.role == Role::y) suspected_y_[place.index] = true;
    for (std::int64_t group = 0; group < groups_.count(); ++group)
      groups_.for_each(group, [&](std::int64_t i, const Shape&) {
        if (suspected_y_[static_cast<std::size_t>(i)]) group_suspected_[static_cast<std::size_t>(group)] = true;
      });
  }

  // running_var with N/(N-1) where the batch has N*S values per channel.
  std::optional<Explanation> samples_counted() const {
    constexpr std::string_view name = "n-1 counts N instead of N*S";
    const double samples = static_cast<double>(problem_.shape[0]);
    const double values = static_cast<double>(groups_.size());
    if (!asked(name) || problem_.variant != Variant::batch_norm ||
        problem_.convention.stored != StoredDivisor::n_minus_1 ||
        problem_.convention.normalizing != NormalizingDivisor::n || !written(Role::running_var) || samples < 2 ||
        samples == values)
      return std::nullopt;
    const double weight = weight_of_new();
    double before = 0;
    double after = 0;
    for (const Place& place : suspects_) {
      if (place.role != Role::running_var || place.index >= truth_.groups.size()) return std::nullopt;
      const double change =
          weight * truth_.groups[place.index].variance.hi * (samples / (samples - 1) - values / (values - 1));
      const double scale = bounds_.scale[place.role][place.index];
      before = std::max(before, error_of(place.role, place.index) / scale);
      after = std::max(
          after, std::fabs(got(place.role, place.index) - truth_.out[place.role][place.index].hi - change) / scale);
    }
    if (!(after <= before / 8)) return std::nullopt;
    return Explanation{std::string(name),
                       "running_var takes in the variance times N/(N-1), though N*S values are counted"};
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

  // ---- other algorithms

  // Whether the bound that follows from another claim covers what was seen.
  [[nodiscard]] bool covered_by(const Claim& claim) const {
    const Bounds bounds = forward_bounds(problem_, inputs_, truth_, claim);
    return std::all_of(suspects_.begin(), suspects_.end(), [&](const Place& place) {
      return error_of(place.role, place.index) <=
             bounds.tolerance[place.role][place.index] + truth_.out[place.role][place.index].bound;
    });
  }

  std::optional<Explanation> flushed_subnormals() const {
    if (!asked("flushed subnormals") || subject_.kernel.claim.subnormals == Subnormals::flushed) return std::nullopt;
    // Only results near the smallest normal number can show it.
    const bool tiny = std::all_of(suspects_.begin(), suspects_.end(), [&](const Place& place) {
      return error_of(place.role, place.index) <= 0x1p-120 * std::max(1.0, static_cast<double>(groups_.size()));
    });
    Claim claim = subject_.kernel.claim;
    claim.subnormals = Subnormals::flushed;
    if (!tiny || !covered_by(claim)) return std::nullopt;
    return Explanation{"flushed subnormals",
                       "subnormal numbers are taken or returned as zero; declare `.subnormals = "
                       "NG_SUBNORMALS_FLUSHED` to be held to that"};
  }

  // Largest error of y in each group, as it was and as an emulation makes it.
  [[nodiscard]] double largest_error(std::int64_t group, const Prediction& prediction) const {
    double largest = 0;
    groups_.for_each(group, [&](std::int64_t i, const Shape&) {
      const auto index = static_cast<std::size_t>(i);
      if (std::isfinite(bounds_.tolerance[Role::y][index]))
        largest = std::max(largest, distance(prediction(index), truth_.out[Role::y][index]));
    });
    return largest;
  }
  [[nodiscard]] double largest_error(std::int64_t group) const {
    return largest_error(group, [&](std::size_t i) { return got(Role::y, i); });
  }

  // |mean| over σ.
  [[nodiscard]] double condition(std::int64_t group) const {
    const Statistics statistics = statistics_of(group);
    return std::fabs(statistics.mean) / std::sqrt(statistics.variance);
  }

  // y of one group by a one-pass variance in T, summed in interleaved lanes.
  template <typename T>
  std::vector<double> one_pass(std::int64_t group, std::size_t lanes, bool clamped) const {
    std::vector<T> sums(lanes, 0);
    std::vector<T> squares(lanes, 0);
    std::size_t position = 0;
    groups_.for_each(group, [&](std::int64_t i, const Shape&) {
      const T value = static_cast<T>(inputs_[Role::x][static_cast<std::size_t>(i)]);
      sums[position % lanes] += value;
      squares[position % lanes] += value * value;
      ++position;
    });
    for (std::size_t half = lanes / 2; half > 0; half /= 2)
      for (std::size_t lane = 0; lane < half; ++lane) {
        sums[lane] += sums[lane + half];
        squares[lane] += squares[lane + half];
      }
    const T count = static_cast<T>(groups_.size());
    const T mean = sums[0] / count;
    T variance = squares[0] / count - mean * mean;
    if (clamped) variance = std::max(variance, T{0});
    const double corrected =
        static_cast<double>(variance) * static_cast<double>(count) / divisor(static_cast<double>(count));
    const double factor = reciprocal_root(problem_.convention, corrected, problem_.eps);
    std::vector<double> y;
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      y.push_back(static_cast<double>(
          static_cast<float>((x(i) - static_cast<double>(mean)) * factor * gamma_at(at) + beta_at(at))));
    });
    return y;
  }

  // `factor`: how near the emulated errors must come to those seen. With 2, in half of the groups with one order of
  // summation; with more, in the worst group with any.
  std::optional<Explanation> one_pass_variance(double factor) {
    if (!asked("one-pass variance") || subject_.kernel.claim.variance == VarianceAlgorithm::one_pass ||
        !subject_.row.centred || !y_suspected_ || problem_.phase != Phase::forward_training)
      return std::nullopt;
    mark_groups();
    Claim claim = subject_.kernel.claim;
    claim.variance = VarianceAlgorithm::one_pass;
    if (!covered_by(claim)) return std::nullopt;
    const bool shifted =
        every_group([&](std::int64_t group) { return condition(group) >= 4 && condition(group) <= 1e7; });
    if (!shifted) return std::nullopt;
    const bool in_double = claim.accumulator == ScalarType::float64;
    for (const std::size_t lanes : {1U, 4U, 8U, 16U, 32U, 64U}) {
      for (const bool clamped : {false, true}) {
        int near = 0;
        int of = 0;
        double worst_seen = 0;
        double worst_emulated = 0;
        for (std::int64_t group = 0; group < groups_.count(); ++group) {
          if (!group_suspected_[static_cast<std::size_t>(group)]) continue;
          const std::vector<double> y =
              in_double ? one_pass<double>(group, lanes, clamped) : one_pass<float>(group, lanes, clamped);
          std::vector<double> by_index(truth_.out[Role::y].size());
          std::size_t position = 0;
          groups_.for_each(
              group, [&](std::int64_t i, const Shape&) { by_index[static_cast<std::size_t>(i)] = y[position++]; });
          const double seen = largest_error(group);
          const double emulated = largest_error(group, [&](std::size_t i) { return by_index[i]; });
          worst_seen = std::max(worst_seen, seen);
          worst_emulated = std::max(worst_emulated, emulated);
          const double ratio = size_ratio(seen, emulated);
          ++of;
          near += ratio >= 0.5 && ratio <= 2 ? 1 : 0;
        }
        const double ratio = size_ratio(worst_seen, worst_emulated);
        const bool explained = factor <= 2 ? 2 * near > of : ratio >= 1 / factor && ratio <= factor;
        if (explained)
          return Explanation{"one-pass variance",
                             "one-pass variance (mean of squares less square of the mean); declare "
                             "`.variance = NG_ONE_PASS` in its claim to be held to that"};
      }
    }
    return std::nullopt;
  }

  // A relative error of the reciprocal root is a gain, the same for all elements of a group.
  std::optional<Explanation> approximate_root() {
    if (!asked("approximate reciprocal root") || !y_suspected_) return std::nullopt;
    mark_groups();
    const bool gains = every_group([&](std::int64_t group) {
      double along = 0;
      double norm = 0;
      const auto direction = [&](std::int64_t i, const Shape& at) {
        return truth_.out[Role::y][static_cast<std::size_t>(i)].hi - beta_at(at);
      };
      const auto error = [&](std::int64_t i) {
        const auto index = static_cast<std::size_t>(i);
        return (got(Role::y, index) - truth_.out[Role::y][index].hi) - truth_.out[Role::y][index].lo;
      };
      groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
        along += error(i) * direction(i, at);
        norm += direction(i, at) * direction(i, at);
      });
      const double gain = along / norm;
      // An estimate of 11 bits or more, worse than a rounded root.
      if (!(std::fabs(gain) <= 0x1p-10 && std::fabs(gain) >= 8 * unit_roundoff)) return false;
      bool rest_within = true;
      groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
        const auto index = static_cast<std::size_t>(i);
        const double rest = std::fabs(error(i) - gain * direction(i, at));
        rest_within = rest_within && rest <= 2 * bounds_.tolerance[Role::y][index];
      });
      return rest_within;
    });
    if (!gains) return std::nullopt;
    return Explanation{"approximate reciprocal root",
                       "an estimated reciprocal root, not refined far enough; declare `.rsqrt_ulp` in its claim to be "
                       "held to that"};
  }

  // y of one group by the folded form, from correctly rounded statistics; added to `y` by dense index.
  void fold(std::int64_t group, std::vector<double>& y) const {
    const GroupTruth& truth = truth_.groups[static_cast<std::size_t>(group)];
    const auto mean = static_cast<float>(truth.mean.hi);
    const auto factor = static_cast<float>(truth.rstd.hi);
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const float a = factor * static_cast<float>(gamma_at(at));
      const float shift = mean * a;
      const float b = static_cast<float>(beta_at(at)) - shift;
      const float product = inputs_[Role::x][static_cast<std::size_t>(i)] * a;
      y[static_cast<std::size_t>(i)] = static_cast<double>(product + b);
    });
  }

  // `to_the_bit`: the very results of the folded form; else errors of its size, within its bound.
  std::optional<Explanation> folded_form(bool to_the_bit) {
    if (!asked("folded form") || subject_.kernel.claim.form == AffineForm::folded || !subject_.row.centred ||
        !y_suspected_ || !beyond_bound_ || truth_.groups.size() != static_cast<std::size_t>(groups_.count()))
      return std::nullopt;
    mark_groups();
    std::vector<double> y(truth_.out[Role::y].size());
    for (std::int64_t group = 0; group < groups_.count(); ++group) fold(group, y);
    if (to_the_bit) {
      const bool same = std::all_of(suspects_.begin(), suspects_.end(), [&](const Place& place) {
        return place.role == Role::y && got(place.role, place.index) == y[place.index];
      });
      if (!same) return std::nullopt;
    } else {
      Claim claim = subject_.kernel.claim;
      claim.form = AffineForm::folded;
      // Statistics may be in double and only the map in float32.
      if (!covered_by(claim)) {
        claim.statistics = ScalarType::float32;
        if (!covered_by(claim)) return std::nullopt;
      }
      const bool alike = every_group([&](std::int64_t group) {
        // On (nearly) constant groups every form errs by any amount.
        if (!(condition(group) <= 1e6)) return false;
        const double ratio =
            size_ratio(largest_error(group), largest_error(group, [&](std::size_t i) { return y[i]; }));
        return ratio >= 1.0 / 16 && ratio <= 16;
      });
      if (!alike) return std::nullopt;
    }
    return Explanation{"folded form",
                       "the folded form x*a + b with a = gamma/D and b = beta - mean*a; declare `.form = NG_FOLDED` in "
                       "its claim to be held to that"};
  }

  std::optional<Explanation> lower_precision() const {
    Claim claim = subject_.kernel.claim;
    if (asked("float32 accumulator") && claim.accumulator == ScalarType::float64) {
      claim.accumulator = ScalarType::float32;
      if (covered_by(claim)) return Explanation{"float32 accumulator", "sums in float32; the claim says float64"};
    }
    if (asked("float32 statistics") && claim.statistics == ScalarType::float64) {
      claim.statistics = ScalarType::float32;
      if (covered_by(claim))
        return Explanation{"float32 statistics", "mean and reciprocal root in float32; the claim says float64"};
    }
    return std::nullopt;
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
  bool y_suspected_ = false;
  std::vector<bool> suspected_y_;
  std::vector<bool> group_suspected_;
};

}  // namespace

std::optional<Explanation> diagnose(const Problem& problem, const Inputs& inputs, const Subject& subject,
                                    const runner::Outcome& outcome, std::string_view only) {
  if (outcome.status != runner::Status::ok) return std::nullopt;
  return Diagnosis(problem, inputs, subject, outcome, only).find();
}

}  // namespace normgate
