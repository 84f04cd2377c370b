// Opening the plugins, checking names, and the ways of running: alone, as one of several processes, one problem only.
#include "gate/engine/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "gate/engine/jobs.hpp"
#include "gate/engine/names.hpp"
#include "gate/engine/shrinking.hpp"
#include "gate/engine/stage.hpp"

namespace normgate {

std::string_view name_of(Effort effort) {
  switch (effort) {
    case Effort::quick:
      return "quick";
    case Effort::standard:
      return "standard";
    case Effort::thorough:
      return "thorough";
  }
  return "quick";
}

std::string version() { return NORMGATE_VERSION; }

std::string cpu_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name") && !line.starts_with("Model")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

int default_jobs() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

Station::Station(const runner::Plugin& plugin, const runner::TargetInfo& target, const runner::Options& options,
                 std::shared_ptr<WorkerPool> pool)
    : plugin_(plugin), target_(target), options_(options), pool_(std::move(pool)) {
  kernels_ = worker(WorkerPool::unused_, 1).kernels();
  // Units of all targets are listed by the first target's kernels.
  const auto check_names = [&]() -> std::string {
    if (kernels_.size() != plugin.kernels.size())
      return fmt::format("{} lists {} kernels on target {} and {} on another: the list must be the same", plugin.path,
                         kernels_.size(), target.name, plugin.kernels.size());
    for (std::size_t k = 0; k < kernels_.size(); ++k)
      if (kernels_[k].name != plugin.kernels[k].name || kernels_[k].variant != plugin.kernels[k].variant)
        return fmt::format("{} names kernel {} {} on target {} and {} on another", plugin.path, k, kernels_[k].name,
                           target.name, plugin.kernels[k].name);
    return {};
  };
  if (std::string wrong = check_names(); !wrong.empty()) {
    end_all();
    throw runner::HarnessError{std::move(wrong)};
  }
}

Station::~Station() { end_all(); }

void Station::end_all() {
  std::erase_if(pool_->workers_, [&](const WorkerPool::Entry& entry) { return entry.station == this; });
}

runner::Worker& Station::worker(std::int32_t kernel, std::int32_t threads) {
  std::list<WorkerPool::Entry>& workers = pool_->workers_;
  // In this process there is nothing to keep kernels apart.
  if (options_.in_process) kernel = WorkerPool::unused_;
  auto found = std::find_if(workers.begin(), workers.end(), [&](const WorkerPool::Entry& entry) {
    return entry.station == this && entry.kernel == kernel && entry.threads == threads;
  });
  // The worker that the manifest was read from has run no kernel yet.
  if (found == workers.end())
    found = std::find_if(workers.begin(), workers.end(), [&](const WorkerPool::Entry& entry) {
      return entry.station == this && entry.kernel == WorkerPool::unused_ && entry.threads == threads;
    });
  if (found != workers.end()) {
    found->kernel = kernel;
    workers.splice(workers.begin(), workers, found);
    return workers.front().worker;
  }
  while (!workers.empty() && workers.size() >= pool_->most_) {
    WorkerPool::Entry& oldest = workers.back();
    oldest.station->former_restarts_ += oldest.worker.restarts();
    workers.pop_back();
  }
  workers.push_front({this, kernel, threads, runner::Worker(plugin_, target_, threads, options_)});
  return workers.front().worker;
}

std::vector<runner::Outcome> Station::run(std::span<const runner::Call> calls) {
  std::vector<runner::Outcome> outcomes;
  outcomes.reserve(calls.size());
  for (std::size_t begin = 0; begin < calls.size();) {
    const std::int32_t kernel = calls[begin].kernel;
    const std::int32_t threads = calls[begin].problem.threads;
    std::size_t end = begin + 1;
    while (end < calls.size() && calls[end].kernel == kernel && calls[end].problem.threads == threads) ++end;
    std::vector<runner::Outcome> some = worker(kernel, threads).run(calls.subspan(begin, end - begin));
    std::move(some.begin(), some.end(), std::back_inserter(outcomes));
    begin = end;
  }
  return outcomes;
}

void Station::start_afresh(std::int32_t kernel) {
  for (auto entry = pool_->workers_.begin(); entry != pool_->workers_.end();) {
    if (entry->station == this && entry->kernel == kernel) {
      former_restarts_ += entry->worker.restarts();
      entry = pool_->workers_.erase(entry);
    } else {
      ++entry;
    }
  }
}

std::int64_t Station::restarts() const {
  std::int64_t count = former_restarts_;
  for (const WorkerPool::Entry& entry : pool_->workers_)
    if (entry.station == this) count += entry.worker.restarts();
  return count;
}

Gate open_gate(const RunOptions& options) {
  Gate gate;
  std::set<std::string> seen;
  for (const std::string& path : options.plugins) {
    if (!seen.insert(path).second) continue;
    auto probed = runner::probe(path, options.runner);
    if (auto* error = std::get_if<runner::HarnessError>(&probed))
      gate.harness_errors.push_back(error->sentence);
    else
      gate.plugins.push_back(std::make_unique<runner::Plugin>(std::move(std::get<runner::Plugin>(probed))));
  }
  return gate;
}

std::string wrong_names(const Gate& gate, const RunOptions& options) {
  std::vector<std::string> kernels;
  std::vector<std::string> targets;
  for (const auto& plugin : gate.plugins) {
    for (const runner::KernelInfo& kernel : plugin->kernels) kernels.push_back(kernel.name);
    for (const runner::TargetInfo& target : plugin->targets) targets.push_back(target.name);
  }
  std::vector<std::string> properties;
  for (const Property* property : options.all_properties) properties.emplace_back(property->name);
  std::vector<std::string> phases;
  for (const Phase phase : judged_phases) phases.emplace_back(name_of(phase));
  if (std::string wrong = unknown_name("property", options.properties, properties); !wrong.empty()) return wrong;
  if (std::string wrong = unknown_name("phase", options.phases, phases); !wrong.empty()) return wrong;
  // A plugin that could not be opened might have had the name: that error tells more.
  if (!gate.harness_errors.empty()) return {};
  if (std::string wrong = unknown_name("kernel", options.kernels, kernels); !wrong.empty()) return wrong;
  if (std::string wrong = unknown_name("target", options.targets, targets); !wrong.empty()) return wrong;
  return unknown_name("target", options.required_targets, targets);
}

ShardResult run_shard(const Gate& gate, const RunOptions& options, Progress& progress) {
  Stage stage = set_stage(gate, options);
  try_units(stage, options, progress);
  ShardResult result;
  result.tallies.reserve(stage.units.size());
  for (const auto& staged : stage.units) result.tallies.push_back(staged->tally);
  result.harness_errors = stage.harness_errors;
  return result;
}

Record run(const Gate& gate, const RunOptions& options, Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  Stage stage = set_stage(gate, options);
  stage.harness_errors.insert(stage.harness_errors.begin(), gate.harness_errors.begin(), gate.harness_errors.end());
  if (options.dry_run) {
    plan_units(stage, options);
    for (const auto& staged : stage.units)
      if (staged->station != nullptr) staged->tally.given_up = "planned only";
  } else if (options.jobs > 1 && !options.runner.in_process && !stage.stations.empty()) {
    // The other processes need not find out again which plugins cannot be opened.
    RunOptions opened = options;
    opened.plugins.clear();
    for (const auto& plugin : gate.plugins) opened.plugins.push_back(plugin->path);
    try_in_processes(stage, opened, progress);
  } else {
    try_units(stage, options, progress);
  }
  Record record = close_stage(stage, options, progress);
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return record;
}

Record replay(const Gate& gate, const RunOptions& options, const Problem& problem, std::int64_t repeat) {
  const auto start = std::chrono::steady_clock::now();
  RunOptions narrowed = options;
  narrowed.phases = {std::string(name_of(problem.phase))};
  narrowed.shrink = false;
  Stage stage = set_stage(gate, narrowed);
  stage.harness_errors.insert(stage.harness_errors.begin(), gate.harness_errors.begin(), gate.harness_errors.end());
  std::erase_if(stage.units, [&](const auto& staged) {
    return row_for(*staged->kernel).variant != problem.variant || staged->convention != problem.convention ||
           !tensors_amiss(*staged->kernel, problem).empty();
  });
  const Case one_case(problem);
  NoProgress progress;
  for (const auto& staged : stage.units) {
    if (staged->station == nullptr) continue;
    try {
      const Door door = [&](std::span<const runner::Call> calls) { return staged->station->run(calls); };
      for (std::int64_t i = 0; i < repeat && !staged->tally.failure; ++i) {
        const TriedCase tried = try_case(*staged->property, one_case, staged->subject(), door);
        staged->tally.add(i, problem, tried.result);
      }
    } catch (const runner::HarnessError& error) {
      stage.harness_errors.push_back(error.sentence);
      staged->tally.given_up = error.sentence;
    }
  }
  Record record = close_stage(stage, narrowed, progress);
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return record;
}

}  // namespace normgate
