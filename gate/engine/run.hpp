// A run of the gate: which kernels are tried on what, and the record of it.
//
//   Gate gate = open_gate(options);                          // probes the plugins
//   if (auto sentence = wrong_names(gate, options); …)       // exit code 2
//   Record record = run(gate, options, *progress);
//
// Plan, data, reference and the order of the record are functions of version, seed, effort and target list; the number
// of jobs changes nothing but the seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gate/engine/progress.hpp"
#include "gate/engine/trial.hpp"
#include "kernels/runner/runner.hpp"
#include "properties/property.hpp"
#include "reports/record.hpp"

namespace normgate {

struct RunOptions {
  std::vector<std::string> plugins;  // paths
  // Names or patterns; empty: all.
  std::vector<std::string> kernels;
  std::vector<std::string> targets;
  std::vector<std::string> properties;
  std::vector<std::string> phases;
  std::vector<std::string> required_targets;
  Effort effort = Effort::quick;
  std::uint64_t seed = 1;
  int jobs = 1;
  runner::Options runner;
  bool dry_run = false;                      // plan only
  bool shrink = true;                        // the reported cases
  std::function<bool(const Unit&)> explain;  // which failures are diagnosed and shrunk; empty: all
  int grave_cases_per_unit = 3;              // crashes and hangs, then the unit is not tried further
  int hangs_per_kernel = 6;                  // then the kernel's further units on this target are not tried
  bool first_failure_only = false;           // a unit is not tried further once a case of it has failed
  int shard = 0;                             // the problems with index ≡ shard modulo shard_count
  int shard_count = 1;
  std::vector<std::string> built_in_plugins;                          // need no --plugin in a replay command
  std::span<const Property* const> all_properties = property_list();  // that there are; tests leave some out
};

[[nodiscard]] std::string_view name_of(Effort effort);
[[nodiscard]] std::string version();
// The processor's name, from /proc/cpuinfo.
[[nodiscard]] std::string cpu_name();
// Hardware threads, at least 1.
[[nodiscard]] int default_jobs();

class Station;

// The workers of all stations. A worker runs one kernel only: what a kernel breaks in its process can never be taken
// for the fault of another. The longest unused ones end when there are too many (a worker costs memory, three file
// descriptors, and some milliseconds to start).
class WorkerPool {
 public:
  explicit WorkerPool(std::size_t most = 16) : most_(most) {}
  [[nodiscard]] std::size_t size() const { return workers_.size(); }

 private:
  friend class Station;
  struct Entry {
    Station* station;
    std::int32_t kernel;  // unused_: it has run none yet
    std::int32_t threads;
    runner::Worker worker;
  };
  static constexpr std::int32_t unused_ = -1;
  std::size_t most_;
  std::list<Entry> workers_;  // the last used first
};

// A plugin on a target: its kernels as the target's manifest says, and their workers.
class Station {
 public:
  // Throws runner::HarnessError if no worker can be started.
  Station(const runner::Plugin& plugin, const runner::TargetInfo& target, const runner::Options& options,
          std::shared_ptr<WorkerPool> pool = std::make_shared<WorkerPool>());
  ~Station();
  Station(const Station&) = delete;
  Station& operator=(const Station&) = delete;
  [[nodiscard]] const runner::Plugin& plugin() const { return plugin_; }
  [[nodiscard]] const runner::TargetInfo& target() const { return target_; }
  [[nodiscard]] const std::vector<runner::KernelInfo>& kernels() const { return kernels_; }
  // A worker for each kernel and number of threads that the calls ask for.
  [[nodiscard]] std::vector<runner::Outcome> run(std::span<const runner::Call> calls);
  // Ends the workers of a kernel: its next call is the first in its process.
  void start_afresh(std::int32_t kernel);
  [[nodiscard]] std::int64_t restarts() const;

 private:
  runner::Worker& worker(std::int32_t kernel, std::int32_t threads);
  void end_all();
  const runner::Plugin& plugin_;
  const runner::TargetInfo& target_;
  runner::Options options_;
  std::shared_ptr<WorkerPool> pool_;
  std::int64_t former_restarts_ = 0;  // of workers that have ended
  std::vector<runner::KernelInfo> kernels_;
};

struct Gate {
  std::vector<std::unique_ptr<runner::Plugin>> plugins;
  std::vector<std::string> harness_errors;
};

// Probes the plugins; those that cannot be read become harness errors, and the others go on.
[[nodiscard]] Gate open_gate(const RunOptions& options);

// "" or a sentence: a kernel, target, property or phase that no plugin has, with the nearest right names.
[[nodiscard]] std::string wrong_names(const Gate& gate, const RunOptions& options);

[[nodiscard]] Record run(const Gate& gate, const RunOptions& options, Progress& progress);

// What one process of several found; the parent merges it.
struct ShardResult {
  std::vector<UnitTally> tallies;  // in the order of the units
  std::vector<std::string> harness_errors;
};
[[nodiscard]] ShardResult run_shard(const Gate& gate, const RunOptions& options, Progress& progress);

// A single problem on each kernel, target and property selected, `repeat` times in one process or until it fails;
// nothing is shrunk. The problem has passed check().
[[nodiscard]] Record replay(const Gate& gate, const RunOptions& options, const Problem& problem,
                            std::int64_t repeat = 1);

}  // namespace normgate
