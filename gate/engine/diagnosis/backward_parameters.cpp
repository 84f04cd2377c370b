// Wrong gradients of the parameters: other terms, other channels, terms that are not reduced, and what they are added
// to.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gate/engine/diagnosis/backward.hpp"

namespace normgate::diagnosis {

void BackwardDiagnosis::other_terms(const Visit& visit) const {
  if (!asks_for_parameters()) return;
  std::vector<std::size_t> group(order_.size());
  for (std::size_t p = 0; p < order_.size(); ++p) group[order_[p]] = p / static_cast<std::size_t>(groups_.size());
  const auto with = [&](Role role, const std::string& diagnosis, const std::string& sentence, const TermOf& term,
                        double factor = 1) {
    if (!written(role) || !asked(diagnosis)) return;
    Prediction prediction;
    sum_terms(prediction, role, term, factor);
    visit(diagnosis, sentence, "", compare(prediction));
  };
  const TermOf product = [&](std::size_t i) { return product_of(i); };
  const TermOf dy = [&](std::size_t i) { return model_.dy[i]; };
  const auto gamma = [&](std::size_t i) { return model_.gamma[channel_[i]]; };
  const auto rstd = [&](std::size_t i) { return model_.rstd[group[i]]; };
  const auto beta = [&](std::size_t i) {
    return inputs_[Role::beta].empty() ? 0.0 : static_cast<double>(inputs_[Role::beta][channel_[i]]);
  };
  if (from_x()) {
    with(Role::dgamma, "dgamma from x instead of xhat", "dgamma sums dy*x, not dy*xhat",
         [&](std::size_t i) { return model_.dy[i] * model_.x[i]; });
    if (subject_.row.centred)
      with(Role::dgamma, "mean not subtracted in dgamma", "dgamma sums dy*x/D: the mean is not subtracted",
           [&](std::size_t i) { return model_.dy[i] * model_.x[i] * rstd(i); });
  }
  with(Role::dgamma, "dgamma lacks 1/D", "dgamma sums dy*(x - mean), which is not divided by D",
       [&](std::size_t i) { return product_of(i) / rstd(i); });
  with(Role::dgamma, "dgamma divided by D twice", "dgamma sums dy*xhat/D",
       [&](std::size_t i) { return product_of(i) * rstd(i); });
  with(Role::dgamma, "dgamma of the modulus of xhat", "dgamma sums dy*|xhat|: the sign of xhat is lost",
       [&](std::size_t i) { return model_.dy[i] * std::fabs(model_.xhat[i]); });
  // A factor per row that is broadcast along the columns of a block of rows.
  const std::string by_column = "dgamma with 1/D by column instead of by row";
  if (groups_.count() > 1 && groups_.size() > 1 && asked(by_column)) {
    std::vector<std::size_t> position(order_.size());
    for (std::size_t p = 0; p < order_.size(); ++p) position[order_[p]] = p % static_cast<std::size_t>(groups_.size());
    const auto rows = static_cast<std::size_t>(groups_.count());
    for (const std::size_t block :
         {std::size_t{2}, std::size_t{4}, std::size_t{8}, std::size_t{16}, std::size_t{32}, rows})
      with(Role::dgamma, by_column,
           fmt::format("dgamma takes the 1/D of row i in column i, in blocks of {} rows", block), [&](std::size_t i) {
             const std::size_t first = group[i] / block * block;
             return product_of(i) / rstd(i) * model_.rstd[first + position[i] % std::min(block, rows - first)];
           });
  }
  if (!inputs_[Role::gamma].empty()) {
    with(Role::dgamma, "dgamma of dy*gamma", "dgamma sums dy*gamma*xhat: gamma does not belong there",
         [&](std::size_t i) { return product_of(i) * gamma(i); });
    with(Role::dbeta, "dbeta of dy*gamma", "dbeta sums dy*gamma: gamma does not belong there",
         [&](std::size_t i) { return model_.dy[i] * gamma(i); });
  }
  if (!inputs_[Role::gamma].empty() && !inputs_[Role::beta].empty())
    with(Role::dgamma, "dgamma from y instead of xhat", "dgamma sums dy*y, not dy*xhat",
         [&](std::size_t i) { return model_.dy[i] * (model_.xhat[i] * gamma(i) + beta(i)); });
  if (problem_.in_place && asked("gradients of the parameters from dx instead of dy")) {
    const TermOf dx = [&](std::size_t i) { return got(Role::dx, i); };
    Prediction prediction;
    sum_terms(prediction, Role::dgamma, [&](std::size_t i) { return dx(i) * model_.xhat[i]; });
    sum_terms(prediction, Role::dbeta, dx);
    visit("gradients of the parameters from dx instead of dy",
          fmt::format("{} of dx in place of dy, which it was written over", suspected_roles()), "",
          compare(prediction));
  }
  with(Role::dgamma, "dgamma negated", "dgamma with the other sign", product, -1);
  with(Role::dbeta, "dbeta negated", "dbeta with the other sign", dy, -1);
  with(Role::dgamma, "dgamma holds dbeta", "dgamma is the sum of dy, which is dbeta", dy);
  with(Role::dbeta, "dbeta holds dgamma", "dbeta is the sum of dy*xhat, which is dgamma", product);
  if (asked("dgamma and dbeta swapped") && written(Role::dgamma) && written(Role::dbeta)) {
    Prediction prediction;
    sum_terms(prediction, Role::dgamma, dy);
    sum_terms(prediction, Role::dbeta, product);
    visit("dgamma and dbeta swapped", "dgamma and dbeta stand in each other's place", "", compare(prediction));
  }
  if (asked("gradients of the parameters counted twice")) {
    Prediction prediction;
    if (written(Role::dgamma)) sum_terms(prediction, Role::dgamma, product, 2);
    if (written(Role::dbeta)) sum_terms(prediction, Role::dbeta, dy, 2);
    visit("gradients of the parameters counted twice", fmt::format("each term is added to {} twice", suspected_roles()),
          "", compare(prediction));
  }
  struct LeftOut {
    std::string_view diagnosis;
    std::string_view kept;
    bool (*leaves_out)(double value);
  };
  for (const LeftOut& lost :
       {LeftOut{"NaN left out", "what is not NaN", [](double value) { return std::isnan(value); }},
        LeftOut{"values that are not finite left out", "what is finite",
                [](double value) { return !std::isfinite(value); }}}) {
    if (!asked(lost.diagnosis)) continue;
    std::vector<bool> kept(order_.size());
    const auto n = static_cast<std::size_t>(groups_.size());
    for (const bool whole_groups : {true, false}) {
      for (const std::size_t i : order_) kept[i] = !lost.leaves_out(model_.dy[i]) && !lost.leaves_out(product_of(i));
      for (std::size_t first = 0; whole_groups && first < order_.size(); first += n) {
        bool all = true;
        for (std::size_t p = 0; p < n; ++p) all = all && kept[order_[first + p]];
        for (std::size_t p = 0; p < n; ++p) kept[order_[first + p]] = all;
      }
      Prediction prediction;
      for (const Role role : {Role::dgamma, Role::dbeta})
        if (any_[role])
          sum_terms(prediction, role, [&](std::size_t i) {
            if (!kept[i]) return 0.0;
            return role == Role::dgamma ? product_of(i) : model_.dy[i];
          });
      visit(std::string(lost.diagnosis), fmt::format("{} of {} only", suspected_roles(), lost.kept), "",
            compare(prediction));
    }
  }
  // Averages.
  const auto samples = static_cast<double>(problem_.shape[0]);
  const auto positions = static_cast<double>(problem_.shape[3]);
  struct Count {
    std::string_view name;
    double value;
  };
  for (const Count& count : {Count{"N", samples}, Count{"S", positions}, Count{"N*S", samples * positions},
                             Count{"n", static_cast<double>(groups_.size())}}) {
    const std::string diagnosis = fmt::format("gradients of the parameters averaged over {}", count.name);
    if (count.value <= 1 || !asked(diagnosis)) continue;
    if ((count.name == "N*S" && (samples == 1 || positions == 1)) ||
        (count.name == "n" &&
         (count.value == samples || count.value == positions || count.value == samples * positions)))
      continue;
    for (const auto& [gammas, betas] : {std::pair{true, true}, {true, false}, {false, true}}) {
      if ((gammas && !written(Role::dgamma)) || (betas && !written(Role::dbeta))) continue;
      Prediction prediction;
      if (gammas) sum_terms(prediction, Role::dgamma, product, 1 / count.value);
      if (betas) sum_terms(prediction, Role::dbeta, dy, 1 / count.value);
      visit(diagnosis, fmt::format("{} divided by {} = {}", suspected_roles(), count.name, shortest(count.value)), "",
            compare(prediction));
    }
  }
}

// Sums that go into the wrong channels.
void BackwardDiagnosis::other_channels(const Visit& visit) const {
  if (!asks_for_parameters()) return;
  const auto gather = [&](const std::string& diagnosis, const std::string& sentence, AxisSet kept) {
    if (!asked(diagnosis)) return;
    const auto place_of = [&](const Shape& at) {
      return static_cast<std::size_t>(dense_index(problem_.shape, kept, at));
    };
    Prediction prediction;
    bool other = false;
    for (const Role role : {Role::dgamma, Role::dbeta}) {
      if (!written(role) || (quick_ && !any_[role])) continue;
      const auto places = static_cast<std::size_t>(element_count(restricted(problem_.shape, kept)));
      std::vector<double> sum(places);
      std::vector<double> size(places);
      std::vector<std::size_t> place(channels_);
      for (std::int64_t group = 0; group < groups_.count(); ++group)
        groups_.for_each(group, [&](std::int64_t e, const Shape& at) {
          const auto i = static_cast<std::size_t>(e);
          const double term = role == Role::dgamma ? product_of(i) : model_.dy[i];
          sum[place_of(at)] += term;
          size[place_of(at)] += std::fabs(term);
          place[channel_[i]] = place_of(at);
        });
      for (std::size_t c = 0; c < place.size(); ++c) {
        prediction.value[role].push_back(sum[place[c]] + old_value(role, c));
        prediction.scale[role].push_back(size[place[c]] + std::fabs(old_value(role, c)));
      }
      other = other || places != channels_;
    }
    if (other) visit(diagnosis, sentence, "", compare(prediction));
  };
  if (problem_.shape[2] > 1)
    gather("dgamma per group instead of per channel",
           fmt::format("{} summed over the channels of a group: all of them get the sum", suspected_roles()),
           {Axis::g});
  if (problem_.shape[1] > 1) {
    gather("dgamma over all groups", fmt::format("{} summed over G: all groups get the sum", suspected_roles()),
           {Axis::k});
    if (problem_.shape[2] > 1)
      gather("dgamma over all channels", fmt::format("{} summed over all channels", suspected_roles()), {});
  }
}

void BackwardDiagnosis::accumulation(const Visit& visit) const {
  if (problem_.convention.gradients != Gradients::accumulate || !asks_for_parameters()) return;
  const bool both = written(Role::dgamma) && written(Role::dbeta);
  // Where there are both and one alone is wrong, it is no mistake of both.
  const bool one_alone = quick_ && both && any_[Role::dgamma] != any_[Role::dbeta];
  const auto with = [&](const std::string& diagnosis, const std::string& sentence, const std::string& advice,
                        double weight, std::initializer_list<Role> roles = {Role::dgamma, Role::dbeta}) {
    if (!asked(diagnosis) || (roles.size() > 1 && one_alone)) return;
    Prediction prediction;
    for (const Role role : roles) {
      if (!written(role) || (quick_ && !any_[role])) continue;
      sum_terms(prediction, role, [&](std::size_t i) { return role == Role::dgamma ? product_of(i) : model_.dy[i]; });
      for (std::size_t c = 0; c < prediction.value[role].size(); ++c)
        prediction.value[role][c] += weight * old_value(role, c);
    }
    visit(diagnosis, sentence, advice, compare(prediction));
  };
  with("gradients overwritten; declared accumulate",
       fmt::format("{} overwritten where they are to be added to what was there", suspected_roles()),
       "to be held to that, declare `.gradients = NG_GRADIENTS_OVERWRITE` in the kernel's convention", -1);
  for (const Role role : {Role::dgamma, Role::dbeta})
    if (both)
      with(fmt::format("{} overwritten; declared accumulate", name_of(role)),
           fmt::format("{} alone is overwritten; both are to be added to what was there", name_of(role)), "", -1,
           {role});
  with("gradients added twice to what was there", fmt::format("{} added to twice what was there", suspected_roles()),
       "", 1);
}

// Slices of the terms of a channel (along N, along S, or of both together) from one on, or up to one, that are missing.
// Any number may be, so the running sums are compared slice by slice with what came.
void BackwardDiagnosis::lost_rows(const Visit& visit) const {
  if (!only_suspected({Role::dgamma, Role::dbeta})) return;
  // Any few terms that are left out leave out a NaN.
  if (!std::all_of(suspects_.begin(), suspects_.end(),
                   [&](const Place& place) { return truth_.out[place.role][place.index].finite(); }))
    return;
  const std::int64_t samples = problem_.shape[0];
  const std::int64_t positions = problem_.shape[3];
  struct Slicing {
    std::string_view what;
    std::int64_t count;
    std::function<std::int64_t(const Shape&)> slice;
  };
  // Groups are rows of a channel's terms where neither samples nor positions are.
  const bool by_groups = groups_.count() != samples && groups_.count() != positions &&
                         groups_.count() != samples * positions && groups_.count() < 4096 &&
                         groups_.count() * static_cast<std::int64_t>(channels_) < (std::int64_t{1} << 20U);
  const std::array<Slicing, 4> slicings{
      {{"sample", samples, [](const Shape& at) { return at[0]; }},
       {"position", positions, [](const Shape& at) { return at[3]; }},
       {"value of a channel", samples * positions, [positions](const Shape& at) { return at[0] * positions + at[3]; }},
       {"group", by_groups ? groups_.count() : 0, [this](const Shape& at) { return group_index(problem_, at); }}}};
  // Where one of the two is absent it cannot be told whether that would lose rows as well.
  std::vector<std::string> names_of_roles{suspected_roles()};
  if (written(Role::dgamma) != written(Role::dbeta)) names_of_roles.emplace_back("dgamma, dbeta");
  for (const Slicing& slicing : slicings) {
    const bool both = slicing.what == "value of a channel";
    if (slicing.count < 2 || (both && (samples == 1 || positions == 1))) continue;
    const auto slices = static_cast<std::size_t>(slicing.count);
    const std::size_t channels = channels_;
    PerRole<std::vector<double>> sums, sizes;  // by slice and channel
    for (const Role role : {Role::dgamma, Role::dbeta}) {
      if (!any_[role]) continue;
      sums[role].resize(slices * channels);
      sizes[role].resize(slices * channels);
    }
    for (std::int64_t group = 0; group < groups_.count(); ++group)
      groups_.for_each(group, [&](std::int64_t e, const Shape& at) {
        const auto i = static_cast<std::size_t>(e);
        const std::size_t where = static_cast<std::size_t>(slicing.slice(at)) * channels + channel_[i];
        for (const Role role : {Role::dgamma, Role::dbeta}) {
          if (!any_[role]) continue;
          const double term = role == Role::dgamma ? product_of(i) : model_.dy[i];
          sums[role][where] += term;
          sizes[role][where] += std::fabs(term);
        }
      });
    // `kept` slices from the beginning, or from the end.
    for (const bool from_end : {false, true}) {
      Prediction prediction;
      for (const Role role : {Role::dgamma, Role::dbeta}) {
        if (!any_[role]) continue;
        for (std::size_t c = 0; c < channels; ++c) {
          prediction.value[role].push_back(old_value(role, c));
          prediction.scale[role].push_back(std::fabs(old_value(role, c)));
        }
      }
      for (std::size_t kept = 1; kept < slices; ++kept) {
        const std::size_t slice = from_end ? slices - kept : kept - 1;
        for (const Role role : {Role::dgamma, Role::dbeta})
          for (std::size_t c = 0; any_[role] && c < channels; ++c) {
            prediction.value[role][c] += sums[role][slice * channels + c];
            prediction.scale[role][c] += sizes[role][slice * channels + c];
          }
        const std::size_t lost = slices - kept;
        // Of two slices, the first alone and all but the last are one.
        const bool first_alone = kept == 1 && !from_end;
        const std::string plural = both ? "values" : fmt::format("{}s", slicing.what);
        const std::string whose = fmt::format("(of {})", slices);
        const std::string lost_ones = lost == 1 ? fmt::format("the {} {} is", from_end ? "first" : "last", slicing.what)
                                      : from_end ? fmt::format("the first {} {}s are", lost, slicing.what)
                                                 : fmt::format("{}s from {} on are", slicing.what, kept);
        struct Name {
          std::string diagnosis;
          std::string sentence;
        };
        std::vector<Name> names;
        for (const std::string& roles : names_of_roles) {
          if (first_alone)
            names.push_back({fmt::format("only the first {} reduced into {}", slicing.what, roles),
                             fmt::format("{} of the first {} only {}", suspected_roles(), slicing.what, whose)});
          if (!first_alone || lost == 1)
            names.push_back({fmt::format("{} not reduced into {}", plural, roles),
                             fmt::format("{} not reduced into {} {}", lost_ones, suspected_roles(), whose)});
        }
        std::erase_if(names, [&](const Name& name) { return !asked(name.diagnosis); });
        if (names.empty()) continue;
        const Fit fit = compare(prediction);
        if (!fit.explains) continue;
        for (const Name& name : names) visit(name.diagnosis, name.sentence, "", fit);
      }
    }
  }
}

// Sums that were kept or handed over in a shorter type: far more of its values than exact sums would have.
void BackwardDiagnosis::short_parameters() {
  if (!only_suspected({Role::dgamma, Role::dbeta})) return;
  // The shortest first: what has its bits has those of a longer one.
  for (const ShortType& type : {short_types[1], short_types[0]}) {
    const std::string diagnosis = fmt::format("gradients of the parameters in {}", type.name);
    if (!asked(diagnosis)) continue;
    std::int64_t longer = 0;  // true values that the shorter type does not have
    std::int64_t count = 0;
    bool all = true;
    for (const Role role : {Role::dgamma, Role::dbeta}) {
      if (!any_[role]) continue;
      for (std::size_t c = 0; c < truth_.out[role].size(); ++c) {
        const double truth = truth_.out[role][c].hi;
        if (!truth_.out[role][c].finite() || truth == 0) continue;
        ++count;
        const auto nearest = static_cast<double>(static_cast<float>(truth));
        longer += rounded(nearest, type.bits) != nearest ? 1 : 0;
        all = all && got(role, c) != 0 && rounded(got(role, c), type.bits) == got(role, c);
      }
    }
    if (all && 2 * longer > count && longer >= matched_at_least)
      return add(
          2, diagnosis,
          fmt::format("no element of {} has more than the {} bits of {}", suspected_roles(), type.bits, type.name), "",
          static_cast<std::int64_t>(suspects_.size()));
  }
}

// Not why, but what: the same factor on all of it.
void BackwardDiagnosis::common_factor() {
  for (const Role role : {Role::dgamma, Role::dbeta}) {
    const std::string diagnosis = fmt::format("{} off by a factor", name_of(role));
    if (!any_[role] || !only_suspected({role}) || !asked(diagnosis)) continue;
    const std::size_t size = truth_.out[role].size();
    double along = 0;
    double norm = 0;
    double largest = 0;
    bool all = size >= static_cast<std::size_t>(2 * matched_at_least);
    const auto error = [&](std::size_t i) {
      const Exact& truth = truth_.out[role][i];
      return (got(role, i) - truth.hi) - truth.lo;
    };
    for (std::size_t i = 0; i < size; ++i) {
      const double truth = truth_.out[role][i].hi;
      all = all && std::isfinite(error(i)) && std::isfinite(bounds_.tolerance[role][i]);
      along += error(i) * truth;
      norm += truth * truth;
      largest = std::max(largest, std::fabs(error(i)));
    }
    if (!all || !(norm > 0)) continue;
    const double gain = along / norm;
    std::int64_t moved = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const double expected = gain * truth_.out[role][i].hi;
      moved += std::fabs(expected) > bounds_.tolerance[role][i] / 4 ? 1 : 0;
      all = all && std::fabs(error(i) - expected) <= largest / 64;
    }
    if (all && moved >= 2 * matched_at_least)
      add(3, diagnosis, fmt::format("all of {} is off by a factor of {:.6g}", name_of(role), 1 + gain), "", moved);
  }
}

}  // namespace normgate::diagnosis
