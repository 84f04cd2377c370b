#include "gate/engine/audit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "gate/engine/names.hpp"
#include "gate/engine/stage.hpp"
#include "properties/backward/own_differences.hpp"
#include "properties/backward/terms.hpp"
#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "reference/problem/groups.hpp"

namespace normgate {
namespace {

constexpr std::array<std::string_view, 13> gradient_properties{
    "gradients",           "finite_differences",  "dot_product",         "jacobian",
    self_consistency_name, "gradient_identities", "cotangent_linearity", "training_and_inference",
    "split_rows",          "exact_gradients",     "single_value",        "special_gradients",
    "double_backward"};

constexpr std::array all_cotangents{Cotangent::random,     Cotangent::ones,  Cotangent::pooled,
                                    Cotangent::normalized, Cotangent::mixed, Cotangent::unit};

std::array<std::string_view, 3> gradient_phases() {
  return {name_of(Phase::backward_training), name_of(Phase::backward_inference), name_of(Phase::double_backward)};
}

template <typename All>
std::vector<std::string> chosen(const std::vector<std::string>& wanted, const All& all) {
  std::vector<std::string> result;
  for (const std::string_view name : all)
    if (selected(wanted, name)) result.emplace_back(name);
  return result;
}

// A problem that a unit's kernel takes, with small data that are far from any kink.
Problem plain_problem(const Subject& subject, std::int64_t length, std::int64_t groups, std::uint64_t key) {
  Problem problem;
  problem.phase = subject.phase;
  problem.shape = shape_with(subject.row, length, groups, 0);
  problem.given = Given::running;
  problem.saved = true;
  problem.eps = 0x1p-10;
  problem.key = key;
  return inside_claim(std::move(problem), subject);
}

// ---- the definition

std::vector<Audit::Witness> witness_of(const VariantRow& row, const RunOptions& options) {
  Problem problem;
  problem.phase = Phase::backward_training;
  problem.variant = row.variant;
  problem.shape = shape_with(row, 6, 2, 0);
  problem.eps = 0x1p-4;
  problem.key = options.seed;
  std::vector<Audit::Witness> result;
  for (const Convergence& method : convergence(problem, make_inputs(problem)))
    result.push_back({std::string(row.name), std::string(method.method), method.order, method.observed, print(problem),
                      method.steps, method.errors});
  return result;
}

// ---- what upstream gradients show

std::vector<Audit::Sight> sight_of(const VariantRow& row, Phase phase, const RunOptions& options) {
  std::vector<Audit::Sight> result;
  for (const Cotangent cotangent : all_cotangents) {
    Problem problem;
    problem.phase = phase;
    problem.variant = row.variant;
    problem.shape = shape_with(row, 64, 8, 0);
    problem.given = is_training(phase) ? Given::none : row.running.empty() ? Given::saved : Given::running;
    problem.cotangent = cotangent;
    problem.gamma = false;  // the null space is spanned by 1 and nearly x̂ where gamma is absent
    problem.key = options.seed;
    const Case c(problem);
    const Truth& truth = c.gradient(SavedUse::recomputes);
    Audit::Sight sight{std::string(row.name), std::string(name_of(phase)), std::string(name_of(cotangent))};
    std::int64_t groups = 0;
    for (std::size_t q = 0; q < truth.groups.size(); ++q) {
      const GroupTerms terms = terms_of(c, truth.groups[q], static_cast<std::int64_t>(q));
      double squares = 0, hat = 0, dx = 0, mean_d = 0;
      const auto n = static_cast<double>(terms.index.size());
      for (const double d : terms.d) mean_d += d / n;
      for (std::size_t p = 0; p < terms.index.size(); ++p) {
        squares += terms.g[p] * terms.g[p];
        // What of x̂ is not along 1 (all of it, where rows are centred by their own mean).
        hat += (terms.d[p] - mean_d) * (terms.d[p] - mean_d);
        dx += truth.out[Role::dx][terms.index[p]].hi * truth.out[Role::dx][terms.index[p]].hi;
      }
      if (!(squares > 0) || !(hat > 0)) continue;
      const double along = terms.sum_gd - mean_d * terms.sum_g;
      sight.along_one += terms.sum_g * terms.sum_g / (n * squares);
      sight.along_xhat += along * along / (hat * squares);
      sight.seen += dx / (terms.r * terms.r * squares);
      ++groups;
    }
    if (groups == 0) continue;
    for (double* share : {&sight.along_one, &sight.along_xhat, &sight.seen}) *share /= static_cast<double>(groups);
    result.push_back(std::move(sight));
  }
  return result;
}

// ---- plots

const WorstOfOutput* worst_of_dx(const Unit& unit) {
  const WorstOfOutput* worst = nullptr;
  for (const WorstOfOutput& one : unit.worst_of_outputs)
    if (one.output == name_of(Role::dx) && (worst == nullptr || one.share_of_bound > worst->share_of_bound))
      worst = &one;
  return worst;
}

void add_curve(const StagedUnit& staged, const Unit& unit, Audit& audit) {
  const WorstOfOutput* worst = worst_of_dx(unit);
  if (worst == nullptr) return;
  const ProblemOrError parsed = parse_problem(worst->problem);
  if (!parsed.problem) return;
  const Case c(*parsed.problem);
  const Subject subject = staged.subject();
  const Door door = [&](std::span<const runner::Call> calls) { return staged.station->run(calls); };
  DifferenceCurve curve;
  if (!on_bench(door, *staged.kernel, [&](Bench& bench) { curve = worst_difference_curve(c, subject, bench); })) return;
  Audit::Curve result{unit.kernel, unit.target, unit.phase, worst->problem, curve.at, curve.scale};
  result.estimated = curve.estimated;
  for (const DifferenceStep& step : curve.steps)
    result.points.push_back({step.relative, step.second, step.fourth, step.noise, step.truncation, step.tolerance()});
  if (!result.points.empty()) result.chosen = static_cast<std::int64_t>(curve.chosen);
  audit.curves.push_back(std::move(result));
}

void add_jacobian(const StagedUnit& staged, const Unit& unit, const RunOptions& options, Audit& audit) {
  constexpr std::int64_t size = 12;
  const Subject subject = staged.subject();
  Problem problem = plain_problem(subject, size, 1, options.seed);
  problem.cotangent = Cotangent::unit;
  if (element_count(problem.shape) != size || problem.from_output || !check(problem).empty()) return;
  Inputs inputs = make_inputs(problem);
  std::vector<Case> cases;
  std::vector<runner::Call> calls;
  for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
    std::fill(inputs[Role::dy].begin(), inputs[Role::dy].end(), 0.0F);
    inputs[Role::dy][i] = 1;
    cases.emplace_back(problem, inputs);
    calls.push_back(call_of(problem, inputs, subject));
  }
  const Door door = [&](std::span<const runner::Call> some) { return staged.station->run(some); };
  std::vector<runner::Outcome> outcomes;
  if (!on_bench(door, *staged.kernel, [&](Bench& bench) { outcomes = bench.run(calls); })) return;
  Audit::Jacobian result{unit.kernel, unit.target, unit.phase, print(problem), size, {}, {}, {}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Demand demand = demand_of(cases[i], subject);
    for (std::size_t j = 0; j < cases.size(); ++j) {
      const Exact& truth = demand.truth->out[Role::dx][j];
      result.truth.push_back(truth.hi);
      result.error.push_back(minus(static_cast<double>(outcomes[i].outputs[Role::dx][j]), truth));
      result.bound.push_back(demand.bounds->tolerance[Role::dx][j]);
    }
  }
  audit.jacobians.push_back(std::move(result));
}

void add_plots(const Gate& gate, const RunOptions& options, Record& record, Audit& audit) {
  RunOptions narrowed = options;
  narrowed.properties = {std::string(self_consistency_name)};
  Stage stage = set_stage(gate, narrowed);
  for (const auto& staged : stage.units) {
    if (staged->station == nullptr || !is_primary(staged->subject())) continue;
    const Unit& key = staged->tally.unit;
    const auto unit = std::find_if(record.units.begin(), record.units.end(), [&](const Unit& other) {
      return other.plugin == key.plugin && other.kernel == key.kernel && other.target == key.target &&
             other.phase == key.phase && other.convention == key.convention && other.property == key.property;
    });
    // A kernel that has just crashed or hung is not asked again.
    if (unit == record.units.end() || (unit->verdict != Verdict::passed && unit->verdict != Verdict::failed)) continue;
    try {
      add_curve(*staged, *unit, audit);
      if (staged->kernel->variant) add_jacobian(*staged, *unit, options, audit);
    } catch (const runner::HarnessError& error) {
      record.harness_errors.push_back(error.sentence);
    }
  }
}

}  // namespace

std::string nothing_to_audit(const RunOptions& options) {
  const auto amiss = [](const std::vector<std::string>& wanted, const auto& all, std::string_view what) {
    for (const std::string& name : wanted)
      if (chosen({name}, all).empty())
        return fmt::format("{} '{}' is not about gradients; an audit takes {}", what, name, fmt::join(all, ", "));
    return std::string();
  };
  std::string sentence = amiss(options.phases, gradient_phases(), "phase");
  return sentence.empty() ? amiss(options.properties, gradient_properties, "property") : sentence;
}

Record audit(const Gate& gate, const RunOptions& options, Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  RunOptions narrowed = options;
  narrowed.properties = chosen(options.properties, gradient_properties);
  narrowed.phases = chosen(options.phases, gradient_phases());
  Record record = run(gate, narrowed, progress);
  if (options.dry_run) return record;
  Audit audit;
  std::set<std::pair<std::string, std::string>> seen;
  for (const Unit& unit : record.units) {
    const auto variant = variant_named(unit.variant);
    const auto phase = phase_named(unit.phase);
    if (!variant || !phase || !is_backward(*phase) || !seen.emplace(unit.variant, unit.phase).second) continue;
    const VariantRow& row = row_of(*variant);
    for (Audit::Sight& sight : sight_of(row, *phase, options)) audit.sight.push_back(std::move(sight));
    if (!is_training(*phase)) continue;
    for (Audit::Witness& witness : witness_of(row, options)) {
      if (!(std::fabs(witness.observed - witness.order) < 0.05))
        record.harness_errors.push_back(
            fmt::format("{} differences of {} show an order of {:.3f} instead of {}: the reference is in doubt, on {}",
                        witness.method, witness.variant, witness.observed, witness.order, witness.problem));
      audit.witness.push_back(std::move(witness));
    }
  }
  add_plots(gate, narrowed, record, audit);
  record.audit = std::move(audit);
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return record;
}

}  // namespace normgate
