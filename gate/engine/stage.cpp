// Which units a run has: every kernel that a filter selects, on every target, with every property that applies.
#include "gate/engine/stage.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "gate/engine/names.hpp"
#include "gate/engine/recurrence.hpp"
#include "gate/engine/shrinking.hpp"

namespace normgate {
namespace {

// Of one gate process.
constexpr int workers_at_most = 160;

constexpr std::string_view undeclared_use = "the use of saved statistics";

// Of the kernels that do not declare it, what they may be doing, since a declared use is gated more sharply.
void tell_fitting_uses(const Stage& stage, std::vector<std::string>& not_claimed) {
  for (std::string& entry : not_claimed) {
    const std::size_t at = entry.find(undeclared_use);
    if (at == std::string::npos) continue;
    std::int32_t fitting = -1;
    for (const auto& staged : stage.units)
      if (entry.starts_with(staged->tally.unit.kernel + ": ")) fitting &= staged->tally.unit.fitting_uses;
    if (fitting < 0) continue;
    std::vector<std::string_view> names;
    for (const auto& [use, name] : {std::pair{SavedUse::short_form, "NG_USE_SHORT"},
                                    {SavedUse::textbook, "NG_USE_TEXTBOOK"},
                                    {SavedUse::recomputes, "NG_USE_RECOMPUTES"}})
      if ((fitting >> static_cast<std::int32_t>(use) & 1) != 0) names.emplace_back(name);
    entry.insert(at + undeclared_use.size(), names.empty() ? " (no single use fits all cases)"
                                                           : fmt::format(" (what fits: {})", fmt::join(names, " or ")));
  }
}

// The capabilities that a manifest leaves undeclared, told once at the end of a report; "" if there are none. What
// belongs to a phase that the kernel does not have is not told beside the phase.
std::string not_claimed_by(const runner::KernelInfo& kernel) {
  std::vector<std::string> missing;
  const auto want = [&](bool claimed, std::string_view name) {
    if (!claimed) missing.emplace_back(name);
  };
  const auto has = [&](Phase phase) {
    return std::find(kernel.phases.begin(), kernel.phases.end(), phase) != kernel.phases.end();
  };
  const auto supports = [&](Phase phase, Role role) {
    return ((kernel.roles[static_cast<std::size_t>(phase)].supported >> index_of(role)) & 1U) != 0;
  };
  const bool forward = has(Phase::forward_training) || has(Phase::forward_inference);
  const bool backward = has(Phase::backward_training) || has(Phase::backward_inference);
  for (const Phase phase : judged_phases) want(has(phase), name_of(phase));
  if (has(Phase::forward_training)) {
    want(supports(Phase::forward_training, Role::stat), "saved statistics");
    if (kernel.variant && !row_of(*kernel.variant).running.empty())
      want(supports(Phase::forward_training, Role::running_var), "running statistics");
  }
  if (has(Phase::backward_training)) {
    const bool handed = supports(Phase::backward_training, Role::stat);
    want(handed, "saved statistics in backward_training");
    if (handed) want(kernel.claim.saved_use != SavedUse::undeclared, undeclared_use);
  }
  if (forward) want(kernel.in_place, "in place");
  if (backward) want(kernel.gradient_in_place, "dx over dy");
  want(kernel.channels_last, "channels last");
  want(kernel.padded, "padding");
  want(kernel.strided, "strides");
  want(kernel.mixed, "mixed layouts");
  if (backward) want(kernel.strided && kernel.mixed, "expanded dy");
  want(kernel.max_threads > 1, "threads");
  want(kernel.claim.row_independent, "row independence");
  want(kernel.claim.batch_invariant, "batch invariance");
  if (forward) want(kernel.claim.constant_exact, "exact constants");
  want(kernel.claim.scale_covariant, "scale covariance");
  want(kernel.claim.ieee_specials, "infinities");
  want(kernel.claim.layout_invariant, "layout invariance");
  if (kernel.max_threads > 1) want(kernel.claim.thread_invariant, "thread invariance");
  want(kernel.claim.caller_state_invariant, "invariance to the caller's FTZ and DAZ");
  if (missing.empty()) return {};
  return fmt::format("{}: {}", kernel.name, fmt::join(missing, ", "));
}

Unit unit_of(const runner::Plugin& plugin, const runner::TargetInfo& target, const runner::KernelInfo& kernel,
             Phase phase, const Convention& convention, const Property& property) {
  Unit unit;
  unit.kernel = kernel.name;
  unit.plugin = plugin.path;
  unit.source = kernel.source;
  unit.variant = kernel.variant ? std::string(row_of(*kernel.variant).name) : "custom";
  unit.target = target.name;
  unit.phase = std::string(name_of(phase));
  unit.convention = print(convention);
  unit.property = std::string(property.name);
  return unit;
}

// Failures that nothing explains in their own case: perhaps they are what was seen in another property.
void explain_the_rest(Stage& stage, const RunOptions& options, std::map<std::string, GraveBudget>& budgets) {
  constexpr std::size_t lines_at_most = 6;
  const auto kernel_of = [](const Unit& unit) {
    return fmt::format("{}\n{}\n{}\n{}", unit.plugin, unit.kernel, unit.phase, unit.convention);
  };
  std::map<std::string, std::vector<ExplainedLine>> explained;
  for (const auto& staged : stage.units) {
    const Unit& unit = staged->tally.unit;
    if (unit.verdict != Verdict::failed || !unit.finding || unit.finding->looks_like.empty()) continue;
    std::vector<ExplainedLine>& lines = explained[kernel_of(unit)];
    const auto known = std::count_if(lines.begin(), lines.end(), [&](const ExplainedLine& line) {
      return line.diagnosis == unit.finding->diagnosis;
    });
    if (known != 0 || unit.finding->diagnosis.empty() || lines.size() >= lines_at_most) continue;
    // The smallest line may be too small for another property; the line as it was found is not.
    lines.push_back({unit.finding->problem, unit.finding->diagnosis});
    lines.push_back({staged->tally.failure->problem, unit.finding->diagnosis});
  }
  for (const auto& staged : stage.units) {
    UnitTally& tally = staged->tally;
    Unit& unit = tally.unit;
    if (unit.verdict != Verdict::failed || !unit.finding || !unit.finding->diagnosis.empty()) continue;
    const auto lines = explained.find(kernel_of(unit));
    if (lines == explained.end()) continue;
    try {
      auto rows = explain_by_another({*staged->property, staged->subject(), *staged->station, unit, *tally.failure},
                                     options, lines->second, budgets[unit.plugin + "\n" + unit.kernel]);
      if (rows) unit.finding = std::move(rows);
    } catch (const runner::HarnessError& error) {
      stage.harness_errors.push_back(error.sentence);
    }
  }
}

// The command under each finding must fail when it is run.
void confirm_findings(Stage& stage, const RunOptions& options) {
  for (const auto& staged : stage.units) {
    UnitTally& tally = staged->tally;
    if (!tally.failure || !tally.unit.finding || (options.explain && !options.explain(tally.unit))) continue;
    try {
      confirm({*staged->property, staged->subject(), *staged->station, tally.unit, *tally.failure}, options,
              *tally.unit.finding);
    } catch (const runner::HarnessError& error) {
      stage.harness_errors.push_back(error.sentence);
    }
  }
}

}  // namespace

Stage set_stage(const Gate& gate, const RunOptions& options) {
  Stage stage;
  const auto properties = options.all_properties;
  // Many gate processes share the machine.
  const auto pool = std::make_shared<WorkerPool>(
      static_cast<std::size_t>(std::clamp(2 * workers_at_most / std::max(options.shard_count, 1), 8, workers_at_most)));
  for (const auto& plugin : gate.plugins) {
    const bool any_kernel = std::any_of(plugin->kernels.begin(), plugin->kernels.end(),
                                        [&](const auto& kernel) { return selected(options.kernels, kernel.name); });
    if (!any_kernel) continue;
    // Null where the target cannot be tried; the reason beside it.
    std::vector<std::pair<Station*, std::string>> stations;
    for (const runner::TargetInfo& target : plugin->targets) {
      stations.emplace_back(nullptr, std::string());
      if (!selected(options.targets, target.name)) continue;
      if (!target.unavailable.empty()) {
        stations.back().second = target.unavailable;
        stage.skipped_targets.push_back({plugin->path, target.name, target.unavailable});
        continue;
      }
      try {
        stage.stations.push_back(std::make_unique<Station>(*plugin, target, options.runner, pool));
        stations.back().first = stage.stations.back().get();
        if (std::find(stage.targets.begin(), stage.targets.end(), target.name) == stage.targets.end())
          stage.targets.push_back(target.name);
      } catch (const runner::HarnessError& error) {
        stage.harness_errors.push_back(error.sentence);
        stations.back().second = error.sentence;
        stage.skipped_targets.push_back({plugin->path, target.name, error.sentence});
      }
    }
    for (std::size_t k = 0; k < plugin->kernels.size(); ++k) {
      if (!selected(options.kernels, plugin->kernels[k].name)) continue;
      if (!plugin->kernels[k].variant) {
        stage.not_claimed.push_back(fmt::format(
            "{}: a variant with a reference (of custom kernels only the gradients are judged, by their own forward)",
            plugin->kernels[k].name));
      } else if (std::string text = not_claimed_by(plugin->kernels[k]); !text.empty()) {
        stage.not_claimed.push_back(text);
      }
      for (std::size_t t = 0; t < plugin->targets.size(); ++t) {
        const auto& [station, reason] = stations[t];
        if (station == nullptr && reason.empty()) continue;
        const runner::KernelInfo& kernel = station != nullptr ? station->kernels()[k] : plugin->kernels[k];
        for (const Phase phase : kernel.phases) {
          if (!selected(options.phases, name_of(phase))) continue;
          for (const Convention& convention : kernel.conventions) {
            for (std::size_t p = 0; p < properties.size(); ++p) {
              if (!selected(options.properties, properties[p]->name)) continue;
              if (!kernel.variant && properties[p]->needs_reference) continue;
              auto staged = std::make_unique<StagedUnit>();
              staged->station = station;
              staged->kernel = &kernel;
              staged->convention = convention;
              staged->phase = phase;
              staged->property = properties[p];
              staged->property_index = p;
              if (!properties[p]->applies(staged->subject())) continue;
              staged->tally.unit = unit_of(*plugin, plugin->targets[t], kernel, phase, convention, *properties[p]);
              staged->tally.judged_at_least = properties[p]->judged_at_least;
              if (station == nullptr) staged->tally.given_up = reason;
              stage.units.push_back(std::move(staged));
            }
          }
        }
      }
    }
  }
  for (const std::string& required : options.required_targets) {
    const bool tried = std::any_of(stage.targets.begin(), stage.targets.end(),
                                   [&](const std::string& target) { return matches(required, target); });
    if (!tried) stage.required_missing.push_back(required);
  }
  return stage;
}

Record close_stage(Stage& stage, const RunOptions& options, Progress& progress) {
  Record record;
  record.version = version();
  record.cpu = cpu_name();
  record.seed = options.seed;
  record.effort = std::string(name_of(options.effort));
  record.jobs = options.jobs;
  record.targets = stage.targets;
  record.skipped_targets = stage.skipped_targets;
  record.required_missing = stage.required_missing;
  record.not_claimed = stage.not_claimed;

  tell_fitting_uses(stage, record.not_claimed);

  std::int64_t failures = 0;
  for (const auto& staged : stage.units) failures += staged->tally.failure ? 1 : 0;
  std::int64_t explained = 0;
  // The shrunk line of a kernel and property on one target usually fails on the next in the same way, and a line that
  // crashes does so whatever the property.
  std::map<std::string, std::vector<std::string>> shrunk_lines;
  std::map<std::string, GraveBudget> budgets;
  for (const auto& staged : stage.units) {
    UnitTally& tally = staged->tally;
    tally.settle();
    if (tally.failure && options.explain && !options.explain(tally.unit)) {
      tally.unit.finding = plain_finding(*staged->property, tally.unit, *tally.failure, options);
    } else if (tally.failure) {
      const Unit& unit = tally.unit;
      progress.update({explained++, failures, 0, failures,
                       fmt::format("shrinking {} {} {}", unit.kernel, unit.target, unit.property)});
      const std::string kernel = fmt::format("{}\n{}\n{}\n{}", unit.plugin, unit.kernel, unit.phase, unit.convention);
      const bool grave = tally.failure->verdict != Verdict::failed;
      std::vector<std::string>& lines =
          shrunk_lines[kernel + "\n" + (grave ? std::string(name_of(tally.failure->verdict)) : unit.property)];
      try {
        // What an earlier case left behind in the process must not explain this one.
        staged->station->start_afresh(staged->kernel->index);
        tally.unit.finding =
            explain_failure({*staged->property, staged->subject(), *staged->station, unit, *tally.failure}, options,
                            lines, budgets[unit.plugin + "\n" + unit.kernel]);
        if (std::find(lines.begin(), lines.end(), tally.unit.finding->problem) == lines.end())
          lines.push_back(tally.unit.finding->problem);
      } catch (const runner::HarnessError& error) {
        stage.harness_errors.push_back(error.sentence);
        tally.unit.finding = plain_finding(*staged->property, unit, *tally.failure, options);
      }
    }
  }
  if (options.shrink) {
    explain_the_rest(stage, options, budgets);
    confirm_findings(stage, options);
  }
  for (const auto& staged : stage.units) record.units.push_back(staged->tally.unit);
  // The same plugin fails to load on every target with the same sentence.
  for (const std::string& error : stage.harness_errors)
    if (std::find(record.harness_errors.begin(), record.harness_errors.end(), error) == record.harness_errors.end())
      record.harness_errors.push_back(error);
  progress.finish();
  return record;
}

}  // namespace normgate
