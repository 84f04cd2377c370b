// What explains wrong gradients: what was seen at the door, other conventions and uses of handed statistics, other
// statistics and layouts; and the model in double that the formulas of the other files are compared by.
#include "gate/engine/diagnosis/backward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace normgate::diagnosis {
namespace {

constexpr std::array<Role, 2> parameter_roles{Role::dgamma, Role::dbeta};

std::string_view name_of_use(SavedUse use) {
  switch (use) {
    case SavedUse::short_form:
      return "the short form";
    case SavedUse::textbook:
      return "the textbook form";
    case SavedUse::recomputes:
      return "recomputed statistics";
    case SavedUse::from_output:
      return "the output";
    case SavedUse::undeclared:
      break;
  }
  return "nothing";
}
std::string name_of_other_use(SavedUse use, SavedUse declared) {
  return fmt::format("computes from {}; declared {}", name_of_use(use), name_of_use(declared));
}
std::string_view declaration_of(SavedUse use) {
  switch (use) {
    case SavedUse::short_form:
      return "NG_USE_SHORT";
    case SavedUse::textbook:
      return "NG_USE_TEXTBOOK";
    case SavedUse::recomputes:
      return "NG_USE_RECOMPUTES";
    case SavedUse::from_output:
    case SavedUse::undeclared:
      break;
  }
  return "NG_USE_UNDECLARED";
}

}  // namespace

BackwardDiagnosis::BackwardDiagnosis(const Problem& problem, const Inputs& inputs, const Subject& subject,
                                     const runner::Outcome& outcome, std::string_view only)
    : Evidence(problem, inputs, subject, outcome, only) {
  collect_model();
}

Diagnosed BackwardDiagnosis::find() {
  quick_ = true;
  seen_in_parameters();
  if (found_.empty()) seen_at_the_door();
  if (!suspects_.empty() && found_.empty()) {
    zero_or_handed_on();
    dbeta_of_x();
    lost_where_nothing_varies();
    for_each_prediction(
        [&](const std::string& diagnosis, const std::string& sentence, const std::string& advice, const Fit& fit) {
          if (!fit.explains) return;
          found_.push_back({diagnosis, sentence + (fit.in_some_groups ? ", in some of the groups" : ""),
                            fit.in_some_groups ? "" : advice, 1, fit.matched, fit.residual});
        });
    if (beyond_bound_) {
      flushed_subnormals();
      if (only_suspected({Role::dx})) short_output();
      short_parameters();
      if (model_holds_) {
        error_of_a_term();
        common_factor();
      }
      lower_precision();
      other_claims();
    }
  }
  return {!suspects_.empty() || !found_.empty(), found_};
}

bool BackwardDiagnosis::contradicts() {
  return all_contradicted([this](const Visit& visit) { for_each_prediction(visit); });
}

void BackwardDiagnosis::for_each_prediction(const Visit& visit) const {
  // A truth costs much; and what conventions change, they change in dx first.
  if (!quick_ || any_[Role::dx]) conventions(visit);
  other_uses(visit);
  if (!model_holds_) return;
  accumulation(visit);
  other_formulas(visit);
  other_means(visit);
  other_axes(visit);
  other_terms(visit);
  other_channels(visit);
  if (quick_) lost_rows(visit);
  other_inputs(visit);
  clamped_gammas(visit);
  other_statistics(visit);
  other_layouts(visit);
}

// ---- the model

std::vector<double> BackwardDiagnosis::doubles(Role role) const { return {inputs_[role].begin(), inputs_[role].end()}; }

bool BackwardDiagnosis::handed() const { return problem_.phase == Phase::backward_training && problem_.saved; }

StatisticsOf BackwardDiagnosis::statistics_used() const {
  const SavedUse use = subject_.kernel.claim.saved_use;
  const bool as_handed = handed() && (problem_.from_output || use == SavedUse::short_form || use == SavedUse::textbook);
  return [this, as_handed](std::int64_t group) {
    if (!as_handed) return truth_of(group);
    const auto g = static_cast<std::size_t>(group);
    const double mean = inputs_[Role::mean].empty() ? 0 : static_cast<double>(inputs_[Role::mean][g]);
    const auto stat = static_cast<double>(inputs_[Role::stat][g]);
    if (problem_.convention.saved == SavedStatistic::variance) return Statistics{mean, stat, root(stat)};
    return Statistics{mean, std::numeric_limits<double>::quiet_NaN(), stat};
  };
}

Statistics BackwardDiagnosis::statistics_of(const std::vector<double>& x, std::int64_t group) const {
  const auto n = static_cast<std::size_t>(groups_.size());
  const std::size_t* elements = order_.data() + static_cast<std::size_t>(group) * n;
  double sum = 0;
  for (std::size_t p = 0; p < n; ++p) sum += x[elements[p]];
  const double mean = subject_.row.centred ? sum / static_cast<double>(n) : 0;
  double squares = 0;
  for (std::size_t p = 0; p < n; ++p) squares += (x[elements[p]] - mean) * (x[elements[p]] - mean);
  const double variance = squares / divisor(static_cast<double>(n));
  return {mean, variance, root(variance)};
}

double BackwardDiagnosis::response(const Statistics& statistics) const {
  const auto& [mean, variance, factor] = statistics;
  switch (problem_.convention.eps) {
    case EpsPlacement::inside:
      return factor;
    case EpsPlacement::outside: {
      const double deviation = std::isnan(variance) ? 1 / factor - problem_.eps : std::sqrt(variance);
      return deviation == 0 ? 0 : 1 / deviation;
    }
    case EpsPlacement::floor:
      return (std::isnan(variance) ? 1 / (factor * factor) : variance) > problem_.eps ? factor : 0;
  }
  return 0;
}

BackwardDiagnosis::Model BackwardDiagnosis::model_of(const StatisticsOf& statistics, std::vector<double> dy,
                                                     std::vector<double> x, std::vector<double> gamma) const {
  Model model;
  model.gamma = std::move(gamma);
  model.dy = std::move(dy);
  model.x = std::move(x);
  model.xhat.resize(model.dy.size());
  model.direction.resize(model.dy.size());
  const auto n = static_cast<std::size_t>(groups_.size());
  const bool textbook = handed() && subject_.kernel.claim.saved_use == SavedUse::textbook && subject_.row.centred;
  for (std::int64_t group = 0; group < groups_.count(); ++group) {
    const Statistics own = statistics(group);
    model.rstd.push_back(own.factor);
    model.response.push_back(response(own));
    const std::size_t first = static_cast<std::size_t>(group) * n;
    double sum = 0;
    for (std::size_t p = 0; p < n; ++p) {
      const std::size_t i = order_[first + p];
      if (model.x.empty()) {
        const std::size_t c = channel_[i];
        const double beta = inputs_[Role::beta].empty() ? 0 : static_cast<double>(inputs_[Role::beta][c]);
        model.xhat[i] = (static_cast<double>(inputs_[Role::y][i]) - beta) / model.gamma[c];
      } else {
        model.xhat[i] = (model.x[i] - (subject_.row.centred ? own.mean : 0)) * own.factor;
      }
      sum += model.xhat[i];
    }
    for (std::size_t p = 0; p < n; ++p) {
      const std::size_t i = order_[first + p];
      model.direction[i] = model.xhat[i] - (textbook ? sum / static_cast<double>(n) : 0);
    }
  }
  return model;
}

void BackwardDiagnosis::collect_model() {
  const auto size = static_cast<std::size_t>(element_count(problem_.shape));
  if (suspects_.empty() && only_.empty()) return;
  if (size == 0 || truth_.groups.size() != static_cast<std::size_t>(groups_.count())) return;
  order_.reserve(size);
  channel_.resize(size);
  channels_ = static_cast<std::size_t>(element_count(restricted(problem_.shape, affine_)));
  std::vector<double> gamma(channels_, 1);
  for (std::int64_t group = 0; group < groups_.count(); ++group)
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      order_.push_back(static_cast<std::size_t>(i));
      const auto c = static_cast<std::size_t>(dense_index(problem_.shape, affine_, at));
      channel_[static_cast<std::size_t>(i)] = c;
      gamma[c] = gamma_at(at);
    });
  model_ = model_of(statistics_used(), doubles(Role::dy), doubles(Role::x), gamma);
  model_holds_ = model_holds();
}

// Infinities and what overflows are beyond it: nothing is predicted then.
bool BackwardDiagnosis::model_holds() const {
  const Prediction own = all_of(model_, formula());
  const auto near = [&](Role role, std::size_t i, double value) {
    const Exact& truth = truth_.out[role][i];
    const double tolerance = bounds_.tolerance[role][i];
    if (!std::isfinite(tolerance)) return true;
    return distance(value, truth) <= std::max(tolerance / 2, 0x1p-30 * bounds_.scale[role][i]);
  };
  if (written(Role::dx)) {
    std::vector<double> dx;
    for (std::int64_t group = 0; group < groups_.count(); ++group) {
      own.dx(group, dx);
      for (std::size_t p = 0; p < dx.size(); ++p)
        if (!near(Role::dx, order_[static_cast<std::size_t>(group) * dx.size() + p], dx[p])) return false;
    }
  }
  for (const Role role : parameter_roles) {
    if (!written(role)) continue;
    for (std::size_t c = 0; c < own.value[role].size(); ++c)
      if (!near(role, c, own.value[role][c])) return false;
  }
  return true;
}

double BackwardDiagnosis::old_value(Role role, std::size_t c) const {
  return problem_.convention.gradients == Gradients::accumulate && !inputs_[role].empty()
             ? static_cast<double>(inputs_[role][c])
             : 0;
}

void BackwardDiagnosis::sum_terms(Prediction& prediction, Role role, const TermOf& term, double factor) const {
  if (!written(role)) return;
  auto& value = prediction.value[role];
  auto& scale = prediction.scale[role];
  value.assign(channels_, 0);
  scale.assign(channels_, 0);
  for (const std::size_t i : order_) {
    const double one = term(i);
    value[channel_[i]] += one;
    scale[channel_[i]] += std::fabs(one);
  }
  for (std::size_t c = 0; c < value.size(); ++c) {
    value[c] = value[c] * factor + old_value(role, c);
    scale[c] = scale[c] * std::fabs(factor) + std::fabs(old_value(role, c));
  }
}

BackwardDiagnosis::Prediction BackwardDiagnosis::all_of(const Model& model, const Formula& formula) const {
  Prediction prediction;
  prediction.dx = gradient(model, formula);
  sum_terms(prediction, Role::dgamma, [&](std::size_t i) { return model.dy[i] * model.xhat[i]; });
  sum_terms(prediction, Role::dbeta, [&](std::size_t i) { return model.dy[i]; });
  return prediction;
}

// ---- a prediction against the result

Fit BackwardDiagnosis::compare(const Prediction& prediction) const {
  Fit fit;
  fit.explains = !suspects_.empty();
  double before = 0;
  double after = 0;
  // Whether the element is what is predicted, within twice the declared share of the predicted scale: on (nearly)
  // constant groups that is so wide that it would explain anything.
  const auto holds = [&](Role role, std::size_t i, double value, double share, double scale) {
    const double tolerance = bounds_.tolerance[role][i];
    if (!std::isfinite(tolerance)) return true;
    const bool suspect = suspected(role, i);
    const double real = got(role, i);
    if (!std::isfinite(value)) {
      if (suspect) before = infinity;
      if (!std::isfinite(real)) return true;
      fit.contradicted = true;
      return false;
    }
    const double wide = 2 * share * scale + 0x1p-126;
    const double most = std::min(wide, 0x1p-9 * scale + 0x1p-126);
    const double error = distance(real, Exact{value, 0, 0});
    if (error > 4 * wide || std::isnan(error)) fit.contradicted = true;
    if (suspect) {
      before = std::max(before, error_of(role, i) / bounds_.scale[role][i]);
      after = std::max(after, error / bounds_.scale[role][i]);
      if (value != 0 && error <= most && error <= error_of(role, i) / 4) ++fit.matched;
    }
    return error <= most;
  };
  const auto share_of = [&](Role role, std::size_t i) {
    const double tolerance = bounds_.tolerance[role][i];
    const double scale = bounds_.scale[role][i];
    return std::isfinite(tolerance) && scale > 0 ? tolerance / scale : 0.0;
  };
  // What stands in the place of the other has its errors.
  const auto share_of_both = [&](std::size_t c) {
    double share = 4 * unit_float32;
    for (const Role role : parameter_roles)
      if (written(role)) share = std::max(share, share_of(role, c));
    return share;
  };
  for (const Role role : parameter_roles) {
    if (!written(role)) continue;
    const bool predicted = !prediction.value[role].empty();
    for (std::size_t c = 0; c < truth_.out[role].size(); ++c) {
      const bool agrees = predicted
                              ? holds(role, c, prediction.value[role][c], share_of_both(c), prediction.scale[role][c])
                              : !suspected(role, c);
      if (agrees) continue;
      fit.explains = false;
      if (quick_) return {};
    }
  }
  if (written(Role::dx)) {
    const auto n = static_cast<std::size_t>(groups_.size());
    std::vector<double> dx;
    for (std::int64_t group = 0; group < groups_.count(); ++group) {
      const std::size_t* elements = order_.data() + static_cast<std::size_t>(group) * n;
      bool agrees = true;
      if (prediction.dx) {
        const double scale = prediction.dx(group, dx);
        double share = 2 * unit_float32;
        for (std::size_t p = 0; p < n; ++p) share = std::max(share, share_of(Role::dx, elements[p]));
        for (std::size_t p = 0; p < n; ++p) agrees = holds(Role::dx, elements[p], dx[p], share, scale) && agrees;
      } else {
        agrees = !group_suspected_[static_cast<std::size_t>(group)];
      }
      if (agrees) continue;
      fit.in_some_groups = true;
      if (group_suspected_[static_cast<std::size_t>(group)] || !prediction.in_parts) fit.explains = false;
      if (!fit.explains && quick_) return {};
    }
  }
  fit.explains = fit.explains && after <= before / 8;
  fit.residual = before > 0 && std::isfinite(before) ? after / before : 0;
  return fit;
}

// ---- what the door saw, and outputs that are no results

// A gradient that is added to the poison is the poison still.
void BackwardDiagnosis::seen_in_parameters() {
  constexpr std::string_view name = "gradients not written or added where overwrite is declared";
  if (!asked(name) || !has_finding(runner::FindingKind::unwritten) || suspects_.empty() ||
      !only_suspected({Role::dgamma, Role::dbeta}) || problem_.convention.gradients == Gradients::accumulate)
    return;
  for (const Role role : parameter_roles) {
    if (!any_[role]) continue;
    for (std::size_t c = 0; c < truth_.out[role].size(); ++c)
      if (!suspected(role, c) || std::fabs(got(role, c)) < 1e38) return;
  }
  add(0, name,
      fmt::format("{} not written, or added to what was there: the poison laid out before is there still",
                  suspected_roles()),
      "declare `.gradients = NG_GRADIENTS_ACCUMULATE` if they are to be added",
      std::max(matched_at_least, static_cast<std::int64_t>(suspects_.size())));
}

void BackwardDiagnosis::zero_or_handed_on() {
  const auto all_zero = [&](Role role) {
    const auto& values = outcome_.outputs[role];
    return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
  };
  const bool everything = std::all_of(std::begin(gradient_roles), std::end(gradient_roles),
                                      [&](Role role) { return !written(role) || all_zero(role); });
  for (const Role role : gradient_roles) {
    if (!any_[role] || (everything && role != suspects_.front().role)) continue;
    const std::string diagnosis = everything ? "all gradients zero" : fmt::format("{} zero", name_of(role));
    if (!everything && !only_suspected({role})) continue;
    const auto& wanted = truth_.out[role];
    const auto others = static_cast<std::int64_t>(std::count_if(
        wanted.begin(), wanted.end(), [](const Exact& value) { return value.finite() && value.hi != 0; }));
    if (asked(diagnosis) && all_zero(role) && others >= matched_at_least)
      add(2, diagnosis, everything ? "all gradients are zero" : fmt::format("{} is zero everywhere", name_of(role)), "",
          static_cast<std::int64_t>(suspects_.size()));
  }
  if (!any_[Role::dx] || !only_suspected({Role::dx})) return;
  const auto& dx = outcome_.outputs[Role::dx];
  // All of it, not a part (where some elements are right by chance), is another mistake.
  if (asked("tail of dx left as dy") && dx != inputs_[Role::dy]) {
    bool nonzero = false;
    const bool same = std::all_of(suspects_.begin(), suspects_.end(), [&](const Place& place) {
      nonzero = nonzero || dx[place.index] != 0;
      return dx[place.index] == inputs_[Role::dy][place.index];
    });
    if (same && nonzero)
      return add(0, "tail of dx left as dy", "elements that are handed on as they came in: dx is dy there");
  }
  // Zero from one position of the rows on, or from one row on; right before.
  const auto zero_from = [&](const std::string& diagnosis, std::string_view what, const auto& place_of,
                             std::size_t extent) {
    if (!asked(diagnosis)) return;
    std::size_t first = extent;
    for (const Place& place : suspects_) {
      if (dx[place.index] != 0) return;
      first = std::min(first, place_of(place.index));
    }
    if (first == 0 || first >= extent) return;
    for (std::size_t i = 0; i < dx.size(); ++i)
      if (place_of(i) >= first && dx[i] != 0) return;
    add(0, diagnosis, fmt::format("dx is zero from {} {} on (of {})", what, first, extent), "",
        static_cast<std::int64_t>(suspects_.size()));
  };
  const auto n = static_cast<std::size_t>(groups_.size());
  std::vector<std::size_t> position(dx.size());
  std::vector<std::size_t> group(dx.size());
  for (std::size_t p = 0; p < order_.size(); ++p) {
    position[order_[p]] = p % n;
    group[order_[p]] = p / n;
  }
  zero_from(
      "dx zero from an element on", "element", [&](std::size_t i) { return position[i]; }, n);
  zero_from(
      "dx zero from a group on", "group", [&](std::size_t i) { return group[i]; },
      static_cast<std::size_t>(groups_.count()));
}

// dbeta reached by what x holds, through lanes that are masked by a product.
void BackwardDiagnosis::dbeta_of_x() {
  const std::string name = "dbeta depends on x";
  const auto is_nan = [&](const Place& place) { return std::isnan(got(place.role, place.index)); };
  if (!only_suspected({Role::dbeta}) || inputs_[Role::x].empty() || !asked(name) ||
      !std::all_of(suspects_.begin(), suspects_.end(), is_nan))
    return;
  std::vector<bool> reached(channels_);
  for (const std::size_t i : order_) reached[channel_[i]] = reached[channel_[i]] || !std::isfinite(inputs_[Role::x][i]);
  for (std::size_t c = 0; c < channels_; ++c)
    if (truth_.out[Role::dbeta][c].finite() && reached[c] != std::isnan(got(Role::dbeta, c))) return;
  add(2, name, "dbeta is NaN where x of the channel is NaN or infinite, which it does not depend on", "",
      std::max(matched_at_least, static_cast<std::int64_t>(suspects_.size())));
}

// What a kernel makes of groups of equal elements, and of channels whose gamma is 0.
void BackwardDiagnosis::lost_where_nothing_varies() {
  const auto all = [&](const auto& demand) { return std::all_of(suspects_.begin(), suspects_.end(), demand); };
  const auto count = std::max(matched_at_least, static_cast<std::int64_t>(suspects_.size()));
  const auto got_at = [&](const Place& place) { return got(place.role, place.index); };
  if (only_suspected({Role::dgamma}) && !inputs_[Role::gamma].empty() && asked("dgamma 0 where gamma is 0") &&
      all([&](const Place& place) {
        return inputs_[Role::gamma][place.index] == 0 && got_at(place) == old_value(Role::dgamma, place.index);
      }))
    return add(2, "dgamma 0 where gamma is 0", "dgamma lacks the channels whose gamma is 0", "", count);
  if (problem_.phase != Phase::backward_training || !from_x() || !only_suspected({Role::dx})) return;
  const auto n = static_cast<std::size_t>(groups_.size());
  std::vector<bool> constant(order_.size());
  for (std::int64_t group = 0; group < groups_.count(); ++group) {
    const bool varies = statistics_of(model_.x, group).variance != 0;
    for (std::size_t p = 0; p < n; ++p) constant[order_[static_cast<std::size_t>(group) * n + p]] = !varies;
  }
  if (!all([&](const Place& place) { return constant[place.index]; })) return;
  if (asked("dx 0 in groups without a variance") && all([&](const Place& place) { return got_at(place) == 0; }))
    add(2, "dx 0 in groups without a variance", "dx is 0 where all elements of a group are equal", "", count);
  if (asked("dx not finite in groups without a variance") &&
      all([&](const Place& place) { return !std::isfinite(got_at(place)); }))
    add(2, "dx not finite in groups without a variance",
        "dx is NaN or infinite where all elements of a group are equal", "", count);
}

// ---- predictions by the reference

void BackwardDiagnosis::other_uses(const Visit& visit) const {
  if (!handed() || problem_.from_output) return;
  const SavedUse declared = subject_.kernel.claim.saved_use;
  for (const SavedUse use : {SavedUse::short_form, SavedUse::textbook, SavedUse::recomputes}) {
    if (use == declared || (use == SavedUse::textbook && !subject_.row.centred)) continue;
    const std::string diagnosis = name_of_other_use(use, declared);
    if (!asked(diagnosis)) continue;
    runner::KernelInfo kernel = subject_.kernel;
    kernel.claim.saved_use = use;
    const Demand demand = demand_of(case_, Subject{subject_.row, subject_.phase, kernel, subject_.convention});
    visit(diagnosis,
          fmt::format("{} of {}; declared is {}", suspected_roles(), name_of_use(use), name_of_use(declared)),
          fmt::format("declare `.saved_use = {}` in its claim to be held to that", declaration_of(use)),
          whole(*demand.truth, *demand.bounds));
  }
}

// ---- other statistics

// Tensors that stand for each other, and gammas of another sign.
void BackwardDiagnosis::other_inputs(const Visit& visit) const {
  if (from_x() && asked("x and dy swapped")) {
    const SavedUse use = subject_.kernel.claim.saved_use;
    for (const bool own : {true, false}) {
      if (own && (problem_.phase != Phase::backward_training ||
                  (handed() && (use == SavedUse::short_form || use == SavedUse::textbook))))
        continue;
      const StatisticsOf used = statistics_used();
      const StatisticsOf statistics = [&](std::int64_t group) {
        return own ? statistics_of(model_.dy, group) : used(group);
      };
      const Model model = model_of(statistics, model_.x, model_.dy, model_.gamma);
      visit("x and dy swapped", "the gradients with x and dy in each other's place", "",
            compare(all_of(model, formula())));
    }
  }
  const bool negative = std::any_of(model_.gamma.begin(), model_.gamma.end(), [](double value) { return value < 0; });
  if (negative && asked("absolute value of gamma")) {
    std::vector<double> gamma = model_.gamma;
    for (double& value : gamma) value = std::fabs(value);
    const Model everywhere = model_of(statistics_used(), model_.dy, model_.x, gamma);
    visit("absolute value of gamma", "the gradients with |gamma|: its sign is lost", "",
          compare(all_of(everywhere, formula())));
    if (!from_x()) {
      Model in_xhat = everywhere;
      in_xhat.gamma = model_.gamma;
      visit("absolute value of gamma", "xhat is taken from the output with |gamma|: its sign is lost", "",
            compare(all_of(in_xhat, formula())));
    }
  }
}

// xhat taken from the output by a gamma that is kept away from 0.
void BackwardDiagnosis::clamped_gammas(const Visit& visit) const {
  const std::string name = "gamma kept away from 0 in xhat";
  if (from_x() || inputs_[Role::gamma].empty() || !asked(name)) return;
  for (const double least : {1e-2, 1e-3, 1e-4, 1e-5, 1e-6}) {
    Model model = model_;
    bool any = false;
    for (std::size_t i = 0; i < model.xhat.size(); ++i) {
      const double modulus = std::fabs(model.gamma[channel_[i]]);
      if (!(modulus < least)) continue;
      any = true;
      model.xhat[i] *= modulus / least;
      model.direction[i] *= modulus / least;
    }
    if (any)
      visit(name, fmt::format("xhat is taken from the output by a gamma of at least {}", shortest(least)), "",
            compare(all_of(model, formula())));
  }
}

void BackwardDiagnosis::other_statistics(const Visit& visit) const {
  const bool training = problem_.phase == Phase::backward_training;
  const StatisticsOf used = statistics_used();
  const auto with = [&](const std::string& diagnosis, const std::string& sentence, const StatisticsOf& statistics,
                        const Formula& formula) {
    if (!asked(diagnosis)) return;
    const Model model = model_of(statistics, model_.dy, model_.x, model_.gamma);
    Prediction prediction = all_of(model, formula);
    prediction.in_parts = true;
    visit(diagnosis, sentence, "", compare(prediction));
  };
  if (!from_x() || groups_.size() < 3) return;
  if (groups_.count() > 1) {
    for (const std::int64_t step : {-1, 1})
      with(
          "statistics of the neighbouring group", "a group's gradients from its neighbour's statistics",
          [&, step](std::int64_t group) {
            const std::int64_t other = group + step;
            return used(other >= 0 && other < groups_.count() ? other : group - step);
          },
          formula());
    with(
        "statistics of the first group", "all groups' gradients from the first one's statistics",
        [&](std::int64_t) { return used(0); }, formula());
  }
  if (subject_.row.centred)
    with(
        "mean not subtracted", "the gradients of x/D: the mean is not subtracted",
        [&](std::int64_t group) {
          Statistics own = used(group);
          own.mean = 0;
          return own;
        },
        formula());
  const auto own_of = [&](std::int64_t group) { return statistics_of(model_.x, group); };
  if (!training) {
    with("statistics of x in inference", "gradients from the statistics of x in place of the given ones", own_of,
         formula());
    Formula whole_formula = formula();
    whole_formula.xhat_weight = 1;
    whole_formula.mean_weight = subject_.row.centred ? 1 : 0;
    with("training in inference", "the gradients of training, from the statistics of x in place of the given ones",
         own_of, whole_formula);
  }
  if (handed()) {
    const auto handed_of = [&](std::int64_t group) {
      const auto g = static_cast<std::size_t>(group);
      Statistics own = used(group);
      if (!inputs_[Role::mean].empty()) own.mean = static_cast<double>(inputs_[Role::mean][g]);
      const auto stat = static_cast<double>(inputs_[Role::stat][g]);
      const bool variance = problem_.convention.saved == SavedStatistic::variance;
      own.variance = variance ? stat : std::numeric_limits<double>::quiet_NaN();
      own.factor = variance ? root(stat) : stat;
      return own;
    };
    if (subject_.row.centred)
      with(
          "mean of x in place of the handed one", "the gradients of the handed deviation and a mean computed from x",
          [&](std::int64_t group) {
            Statistics own = handed_of(group);
            own.mean = own_of(group).mean;
            return own;
          },
          formula());
    with(
        "deviation of x in place of the handed one", "the gradients of the handed mean and a deviation computed from x",
        [&](std::int64_t group) {
          const Statistics of_x = own_of(group);
          Statistics own = handed_of(group);
          own.variance = of_x.variance;
          own.factor = of_x.factor;
          return own;
        },
        formula());
    for (const ShortType& type : short_types)
      with(
          fmt::format("handed statistics rounded to {}", type.name),
          fmt::format("the gradients of handed statistics rounded to the {} bits of {}", type.bits, type.name),
          [&](std::int64_t group) {
            Statistics own = handed_of(group);
            own.mean = rounded(own.mean, type.bits, type.smallest);
            if (problem_.convention.saved == SavedStatistic::variance)
              own.factor = root(own.variance = rounded(own.variance, type.bits, type.smallest));
            else
              own.factor = rounded(own.factor, type.bits, type.smallest);
            return own;
          },
          formula());
    if (problem_.convention.saved == SavedStatistic::rstd)
      with(
          "eps added to a handed reciprocal deviation",
          "eps is added to the handed reciprocal deviation's variance, where it is already",
          [&](std::int64_t group) {
            Statistics own = handed_of(group);
            own.factor = root(1 / (own.factor * own.factor));
            return own;
          },
          formula());
  }
  const auto with_eps = [&](const std::string& diagnosis, const std::string& sentence, double eps) {
    if (eps == problem_.eps) return;
    with(
        diagnosis, sentence,
        [&, eps](std::int64_t group) {
          Statistics own = used(group);
          if (!std::isnan(own.variance)) own.factor = reciprocal_root(problem_.convention, own.variance, eps);
          return own;
        },
        formula());
  };
  with_eps("eps ignored", "the gradients with eps = 0", 0);
  with_eps("eps 1e-5 whatever is given",
           fmt::format("the gradients with eps = 1e-05; given was {}", shortest(problem_.eps)), Problem{}.eps);
  // With a handed reciprocal that is what was said above.
  if (!handed() || problem_.convention.saved != SavedStatistic::rstd)
    with_eps("twice eps", "the gradients with 2*eps: eps is added twice", 2 * problem_.eps);
}

// ---- other layouts

// The tensor as it looks through the strides of another layout; NaN where there is nothing.
void BackwardDiagnosis::other_layouts(const Visit& visit) const {
  const auto strides_of_role = [&](Role role) {
    return strides_of(problem_.layout[role], problem_.shape, axes_of(Role::x, subject_.row));
  };
  const auto offset = [](const Strides& strides, const Shape& at) {
    std::int64_t result = 0;
    for (std::size_t a = 0; a < axis_count; ++a) result += at[a] * strides.stride[a];
    return static_cast<std::size_t>(result);
  };
  const auto for_each = [&](const auto& use) {
    for (std::int64_t group = 0; group < groups_.count(); ++group)
      groups_.for_each(group, [&](std::int64_t i, const Shape& at) { use(static_cast<std::size_t>(i), at); });
  };
  const auto read_as = [&](const std::vector<double>& dense, const Strides& real, const Strides& taken) {
    std::vector<double> memory(static_cast<std::size_t>(real.span), std::numeric_limits<double>::quiet_NaN());
    for_each([&](std::size_t i, const Shape& at) { memory[offset(real, at)] = dense[i]; });
    std::vector<double> result(dense.size());
    for_each([&](std::size_t i, const Shape& at) {
      const std::size_t where = offset(taken, at);
      result[i] = where < memory.size() ? memory[where] : std::numeric_limits<double>::quiet_NaN();
    });
    return result;
  };
  const Strides contiguous = strides_of(Layout{}, problem_.shape, axes_of(Role::x, subject_.row));
  struct Taken {
    std::string diagnosis;
    std::string sentence;
    Strides strides;
  };
  for (const Role role : {Role::dy, Role::x}) {
    const Role other = role == Role::dy ? Role::x : Role::dy;
    if (inputs_[role].empty() || (role == Role::x && !from_x())) continue;
    const Strides real = strides_of_role(role);
    std::vector<Taken> candidates{{fmt::format("{} read as if contiguous", name_of(role)),
                                   fmt::format("{} is read as if it were contiguous", name_of(role)), contiguous}};
    if (!inputs_[other].empty())
      candidates.push_back({fmt::format("{} read in the layout of {}", name_of(role), name_of(other)),
                            fmt::format("{} is read with the strides of {}", name_of(role), name_of(other)),
                            strides_of_role(other)});
    for (const Taken& taken : candidates) {
      if (taken.strides.stride == real.stride || !asked(taken.diagnosis)) continue;
      std::vector<double> dy = model_.dy;
      std::vector<double> x = model_.x;
      (role == Role::dy ? dy : x) = read_as(role == Role::dy ? dy : x, real, taken.strides);
      if (dy == model_.dy && x == model_.x) continue;
      StatisticsOf statistics = statistics_used();
      const SavedUse use = subject_.kernel.claim.saved_use;
      const bool as_handed = handed() && (use == SavedUse::short_form || use == SavedUse::textbook);
      if (role == Role::x && problem_.phase == Phase::backward_training && !as_handed)
        statistics = [&](std::int64_t group) { return statistics_of(x, group); };
      const Model model = model_of(statistics, dy, x, model_.gamma);
      visit(taken.diagnosis, taken.sentence, "", compare(all_of(model, formula())));
    }
  }
}

// ---- other claims

bool BackwardDiagnosis::large_means() const {
  for (std::int64_t group = 0; group < groups_.count(); ++group) {
    const Statistics own = truth_of(group);
    if (group_suspected_[static_cast<std::size_t>(group)] && !(std::fabs(own.mean * own.factor) >= 8)) return false;
  }
  return std::any_of(group_suspected_.begin(), group_suspected_.end(), [](bool suspected) { return suspected; });
}

// What the claim would have to be for these errors to be roundings.
void BackwardDiagnosis::other_claims() {
  const auto with = [&](const std::string& diagnosis, const std::string& sentence, const std::string& advice,
                        const std::function<void(Claim&)>& change, int rank = 4) {
    if (!asked(diagnosis)) return;
    Claim claim = subject_.kernel.claim;
    change(claim);
    if (claim == subject_.kernel.claim || !covered_by(claim)) return;
    add(rank, diagnosis, sentence, advice);
  };
  with("sequential sums in groups", "errors within the bound of sums of a group one term after the other",
       "declare `.group_sum` in its claim to be held to that", [](Claim& claim) { claim.group_sum = Sum{}; });
  with("sequential sums across groups", "errors within the bound of sums over the groups one after the other",
       "declare `.across_groups` in its claim to be held to that", [](Claim& claim) { claim.across_groups = Sum{}; });
  with(
      "means by a product with 1/n",
      "errors within the bound of products with a rounded 1/n; the claim promises quotients",
      "take NG_DIVIDES_BY_N out of its promises to be held to that", [](Claim& claim) { claim.divides_by_n = false; },
      2);
  const auto none_covers = [&] {
    return std::none_of(found_.begin(), found_.end(), [](const Explanation& one) { return one.rank == 4; });
  };
  // Its bound is wide where means are large, and covers what the others do. What only its sums do is to go wrong in the
  // term along xhat.
  constexpr std::string_view folded = "folded form";
  Claim claim = subject_.kernel.claim;
  claim.form = AffineForm::folded;
  if (asked(folded) && from_x() && subject_.row.centred && claim != subject_.kernel.claim && model_holds_ &&
      large_means() && none_covers()) {
    const std::int64_t matched = multiple_of([&](std::size_t i) { return model_.xhat[i]; });
    if (matched > 0 && covered_by(claim)) {
      std::erase_if(found_, [](const Explanation& one) { return one.diagnosis == "error of dx along xhat"; });
      return add(
          3, folded,
          "errors within the bound of the folded form: the sum of dy*gamma*x less the mean times the sum of dy*gamma",
          "declare `.form = NG_FOLDED` in its claim to be held to that", matched);
    }
  }
  // What another use of the handed statistics would be allowed, where its own roundings hide that it is near.
  const SavedUse declared = subject_.kernel.claim.saved_use;
  if (handed() && declared != SavedUse::undeclared && !problem_.from_output && none_covers())
    for (const SavedUse use : {SavedUse::recomputes, SavedUse::short_form, SavedUse::textbook}) {
      const std::string diagnosis = name_of_other_use(use, declared);
      const bool known =
          std::any_of(found_.begin(), found_.end(), [&](const Explanation& one) { return one.diagnosis == diagnosis; });
      if (use == declared || known || !asked(diagnosis)) continue;
      claim = subject_.kernel.claim;
      claim.saved_use = use;
      if (covered_by(claim)) {
        add(4, diagnosis,
            fmt::format("errors within the bound of {}; declared is {}", name_of_use(use), name_of_use(declared)),
            fmt::format("declare `.saved_use = {}` in its claim to be held to that", declaration_of(use)));
        break;
      }
    }
}

}  // namespace normgate::diagnosis
