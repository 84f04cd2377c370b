// Wrong forwards that do not follow from statistics of the groups: other axes, and elements that take what belongs to
// others.
//
// To add one: a function here that predicts every element that is wrong, asked for in forward.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "gate/engine/diagnosis/forward.hpp"

namespace normgate::diagnosis {
namespace {

std::string letters(AxisSet axes, const Shape& shape) {
  constexpr std::array<char, axis_count> names{'N', 'G', 'K', 'S'};
  std::string text;
  for (std::size_t a = 0; a < axis_count; ++a) {
    if (!axes.has(a) || shape[a] == 1) continue;
    if (!text.empty()) text += ' ';
    text += names[a];
  }
  return text;
}

}  // namespace

// y of x with other statistics than the group's, each element its own. The tolerance is the declared one, relative to
// the group's scale, grown with the factor as a bound of that problem would be.
Fit ForwardDiagnosis::elements(const std::function<Statistics(const Shape&)>& statistics_at) const {
  Fit fit;
  if (!written(Role::y) || !only_suspected({Role::y, Role::mean, Role::stat, Role::running_mean, Role::running_var}))
    return fit;
  fit.explains = any_[Role::y];
  double before = 0;
  double after = 0;
  for (std::int64_t group = 0; group < groups_.count(); ++group) {
    double scale = 0;
    double share = 2 * unit_float32;
    double growth = 1;
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      const Statistics s = statistics_at(at);
      growth = std::max(growth, std::pow(s.factor / truth_.groups[static_cast<std::size_t>(group)].rstd.hi, 3.0));
      const double size = std::fabs((x(i) - s.mean) * s.factor * gamma_at(at)) + std::fabs(beta_at(at));
      if (std::isfinite(size)) scale = std::max(scale, size);
      const double tolerance = bounds_.tolerance[Role::y][index];
      if (std::isfinite(tolerance) && bounds_.scale[Role::y][index] > 0)
        share = std::max(share, tolerance / bounds_.scale[Role::y][index]);
    });
    const double most = std::min(2 * share * growth, 0x1p-9) * scale + 0x1p-126;
    const double least_other = 8 * share * growth * scale + 0x1p-124;
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      const bool suspect = suspected(Role::y, index);
      if (!std::isfinite(bounds_.tolerance[Role::y][index])) {
        if (suspect) fit.explains = false;
        return;
      }
      const Statistics s = statistics_at(at);
      const double value = (x(i) - s.mean) * s.factor * gamma_at(at) + beta_at(at);
      const double error = std::isfinite(value) ? distance(got(Role::y, index), Exact{value, 0, 0}) : infinity;
      if (!(error <= most)) fit.explains = false;
      if (error > least_other) fit.contradicted = true;
      if (!suspect) return;
      before = std::max(before, error_of(Role::y, index) / bounds_.scale[Role::y][index]);
      after = std::max(after, error / bounds_.scale[Role::y][index]);
      const bool telling = std::fabs(value - beta_at(at)) > most;
      if (telling && error <= most && error <= error_of(Role::y, index) / 4) ++fit.matched;
    });
    if (!fit.explains && quick_) return {};
  }
  fit.explains = fit.explains && after <= before / 8;
  fit.residual = before > 0 && std::isfinite(before) ? after / before : 0;
  return fit;
}

void ForwardDiagnosis::other_axes(const Visit& visit) const {
  constexpr std::string_view name = "statistics over other axes";
  if (!asked(name) || (!any_[Role::y] && only_.empty())) return;
  const auto same = [&](AxisSet a, AxisSet b) {
    return restricted(problem_.shape, a) == restricted(problem_.shape, b);
  };
  std::vector<AxisSet> seen{subject_.row.reduced};
  for (unsigned bits = 1; bits < 16; ++bits) {
    AxisSet axes;
    for (std::size_t a = 0; a < axis_count; ++a)
      if (((bits >> a) & 1U) != 0) axes.insert(static_cast<Axis>(a));
    // Axes of extent 1 make no difference; of one or two values too many statistics give the same, so that they confirm
    // nothing, but they do not contradict either.
    const std::int64_t size = element_count(restricted(problem_.shape, axes));
    if ((size < 3 && only_.empty()) ||
        std::any_of(seen.begin(), seen.end(), [&](AxisSet other) { return same(axes, other); }))
      continue;
    seen.push_back(axes);
    const AxisSet kept = axes.complement();
    std::vector<Statistics> statistics(static_cast<std::size_t>(element_count(problem_.shape) / size));
    const auto each = [&](const auto& add) {
      for (std::int64_t group = 0; group < groups_.count(); ++group)
        groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
          add(statistics[static_cast<std::size_t>(dense_index(problem_.shape, kept, at))], x(i));
        });
    };
    if (subject_.row.centred) each([](Statistics& s, double value) { s.mean += value; });
    for (Statistics& s : statistics) s.mean /= static_cast<double>(size);
    each([](Statistics& s, double value) { s.variance += (value - s.mean) * (value - s.mean); });
    for (Statistics& s : statistics) {
      s.variance /= divisor(static_cast<double>(size));
      s.factor = root(s.variance);
    }
    visit(std::string(name),
          fmt::format("statistics over {}, where they are over {}", letters(axes, problem_.shape),
                      letters(subject_.row.reduced, problem_.shape)),
          "", elements([&](const Shape& at) {
            return statistics[static_cast<std::size_t>(dense_index(problem_.shape, kept, at))];
          }));
  }
}

bool ForwardDiagnosis::affine_possible() const {
  return any_[Role::y] && only_suspected({Role::y}) &&
         truth_.groups.size() == static_cast<std::size_t>(groups_.count()) &&
         std::all_of(truth_.groups.begin(), truth_.groups.end(),
                     [](const GroupTruth& truth) { return truth.mean.finite() && truth.rstd.finite(); });
}

// Whether each wrong element of y is what `value` makes of its place, to the relative error of the group's bounds: an
// element's own bound is that of its own gamma.
void ForwardDiagnosis::elements_that_take(std::string_view diagnosis, const std::string& sentence,
                                          const ElementOf& value) {
  if (!asked(diagnosis)) return;
  bool all = true;
  std::int64_t matched = 0;
  double before = 0;
  double after = 0;
  for (std::int64_t group = 0; group < groups_.count() && all; ++group) {
    const Statistics truth = truth_of(group);
    double share = 2 * unit_float32;
    groups_.for_each(group, [&](std::int64_t i, const Shape&) {
      const auto index = static_cast<std::size_t>(i);
      const double tolerance = bounds_.tolerance[Role::y][index];
      if (std::isfinite(tolerance)) share = std::max(share, tolerance / bounds_.scale[Role::y][index]);
    });
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      if (!all || !suspected(Role::y, index)) return;
      const std::optional<double> predicted = value(group, i, at, truth);
      all = predicted && std::isfinite(*predicted);
      if (!all) return;
      const double scale = std::max(bounds_.scale[Role::y][index], std::fabs(*predicted));
      const double error = distance(got(Role::y, index), Exact{*predicted, 0, 0});
      all = error <= std::min(4 * share, 0x1p-9) * scale;
      before = std::max(before, error_of(Role::y, index) / bounds_.scale[Role::y][index]);
      after = std::max(after, error / bounds_.scale[Role::y][index]);
      if (error <= error_of(Role::y, index) / 4) ++matched;
    });
  }
  if (!all || matched == 0 || !(after <= before / 8)) return;
  add(2, diagnosis, sentence, "", matched);
  found_.back().residual = after / before;
}

void ForwardDiagnosis::of_other_channels() {
  if (!affine_possible()) return;
  const std::int64_t channels = element_count(restricted(problem_.shape, affine_));
  const auto take = [&](bool gamma, bool beta, const std::function<std::int64_t(std::int64_t, const Shape&)>& from) {
    return [this, gamma, beta, from, channels](std::int64_t, std::int64_t i, const Shape& at,
                                               const Statistics& truth) -> std::optional<double> {
      const std::int64_t other = from(dense_index(problem_.shape, affine_, at), at);
      if (other < 0 || other >= channels) return std::nullopt;
      const auto value_at = [&](Role role, double own) {
        return inputs_[role].empty() ? own : static_cast<double>(inputs_[role][static_cast<std::size_t>(other)]);
      };
      const double plus = problem_.convention.gamma == GammaOffset::plus_one && !inputs_[Role::gamma].empty() ? 1 : 0;
      const double scale = gamma ? value_at(Role::gamma, 1) + plus : gamma_at(at);
      const double shift = beta ? value_at(Role::beta, 0) : beta_at(at);
      return (x(i) - truth.mean) * truth.factor * scale + shift;
    };
  };
  struct Source {
    std::string_view diagnosis;
    std::string_view sentence;
    std::function<std::int64_t(std::int64_t channel, const Shape& at)> from;
  };
  const std::int64_t per_group = affine_.has(Axis::k) ? problem_.shape[2] : 1;
  const std::int64_t group_count = affine_.has(Axis::g) ? problem_.shape[1] : 1;
  const std::array<Source, 5> sources{{
      {"of the channel before", "wrong elements have the {} of the channel before theirs",
       [](std::int64_t c, const Shape&) { return c - 1; }},
      {"of the channel behind", "wrong elements have the {} of the channel behind theirs",
       [](std::int64_t c, const Shape&) { return c + 1; }},
      {"of the first channel", "wrong elements have the {} of the first channel",
       [](std::int64_t, const Shape&) { return 0; }},
      {"of the group's first channel", "wrong elements have the {} of the first channel of their group",
       [per_group, group_count](std::int64_t, const Shape& at) {
         // With one group it is the first channel of all.
         return group_count > 1 && per_group > 1 ? at[1] * per_group : -1;
       }},
      {"in the order K G", "wrong elements have the {} of channel k*G+g, where g*K+k is theirs",
       [per_group, group_count](std::int64_t, const Shape& at) {
         return group_count > 1 && per_group > 1 ? at[2] * group_count + at[1] : -1;
       }},
  }};
  for (const Source& source : sources)
    for (const auto& [gamma, beta] : {std::pair{true, false}, {false, true}, {true, true}}) {
      if ((gamma && inputs_[Role::gamma].empty()) || (beta && inputs_[Role::beta].empty())) continue;
      const std::string_view which = gamma && beta ? "gamma and beta" : gamma ? "gamma" : "beta";
      elements_that_take(fmt::format("parameters {}", source.diagnosis),
                         fmt::format(fmt::runtime(source.sentence), which), take(gamma, beta, source.from));
    }
}

// Elements of a group that have changed places, two by two.
void ForwardDiagnosis::swapped_elements() {
  if (!affine_possible() || groups_.size() < 3) return;
  std::vector<std::vector<std::int64_t>> members(static_cast<std::size_t>(groups_.count()));
  std::vector<std::int64_t> position(outcome_.outputs[Role::y].size());
  for (std::int64_t group = 0; group < groups_.count(); ++group)
    groups_.for_each(group, [&](std::int64_t i, const Shape&) {
      auto& of_group = members[static_cast<std::size_t>(group)];
      position[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(of_group.size());
      of_group.push_back(i);
    });
  elements_that_take(
      "elements swapped", "wrong elements are y of the wrong element beside them: they have changed places",
      [&](std::int64_t group, std::int64_t i, const Shape& at, const Statistics& truth) -> std::optional<double> {
        const auto& of_group = members[static_cast<std::size_t>(group)];
        const std::int64_t p = position[static_cast<std::size_t>(i)];
        std::optional<double> best;
        for (const std::int64_t q : {p - 1, p + 1}) {
          if (q < 0 || q >= groups_.size()) continue;
          const std::int64_t j = of_group[static_cast<std::size_t>(q)];
          if (!suspected(Role::y, static_cast<std::size_t>(j))) continue;
          const double value = (x(j) - truth.mean) * truth.factor * gamma_at(at) + beta_at(at);
          const double y = got(Role::y, static_cast<std::size_t>(i));
          if (!best || std::fabs(y - value) < std::fabs(y - *best)) best = value;
        }
        return best;
      });
}

// The same limit in every wrong element, and none beyond it that is right.
void ForwardDiagnosis::clipped() {
  if (!asked("normalized value clipped") || !affine_possible()) return;
  double limit = 0;
  for (const Place& place : suspects_) {
    if (limit > 0) break;
    for (std::int64_t group = 0; group < groups_.count() && limit == 0; ++group)
      groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
        if (static_cast<std::size_t>(i) == place.index && std::fabs(gamma_at(at)) > 0x1p-10)
          limit = std::fabs((got(Role::y, place.index) - beta_at(at)) / gamma_at(at));
      });
  }
  // A limit is a number that somebody wrote down.
  const double written_down = std::nearbyint(limit * 4) / 4;
  if (!(written_down >= 1) || !(std::fabs(limit - written_down) <= 0x1p-16 * limit)) return;
  limit = written_down;
  bool beyond = true;
  for (std::int64_t group = 0; group < groups_.count(); ++group) {
    const Statistics truth = truth_of(group);
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const double value = std::fabs((x(i) - truth.mean) * truth.factor);
      const bool wrong = suspected(Role::y, static_cast<std::size_t>(i));
      if (wrong ? value < limit : value > limit * (1 + 0x1p-8) && std::fabs(gamma_at(at)) > 0x1p-10) beyond = false;
    });
  }
  if (!beyond) return;
  elements_that_take("normalized value clipped", fmt::format("xhat is held between -{} and {}", limit, limit),
                     [&](std::int64_t, std::int64_t i, const Shape& at, const Statistics& truth) {
                       const double value = x(i) > truth.mean ? limit : -limit;
                       return std::optional<double>(value * gamma_at(at) + beta_at(at));
                     });
}

}  // namespace normgate::diagnosis
