// The trial: for each variant, phase, convention and property the problems of all kernels and targets together, so that
// a reference is computed once.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>
#include <unordered_map>

#include "gate/engine/stage.hpp"

namespace normgate {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A chunk of the plan goes to a worker as one batch; the limits keep its tensors in memory.
constexpr std::size_t problems_per_chunk = 32;
constexpr std::int64_t elements_per_chunk = std::int64_t{1} << 19;

// A unit's place in a problem of the group.
struct Place {
  std::size_t unit;    // in the group
  std::int64_t index;  // in the unit's plan
};
struct GroupProblem {
  Problem problem;
  std::vector<Place> places;
};

struct Group {
  std::vector<StagedUnit*> units;
  std::string name;
};

std::vector<Group> groups_of(Stage& stage) {
  std::map<std::tuple<Variant, Phase, std::size_t, std::string>, Group> groups;
  for (const auto& staged : stage.units) {
    if (staged->station == nullptr) continue;
    const Variant variant = row_for(*staged->kernel).variant;
    Group& group = groups[std::tuple(variant, staged->phase, staged->property_index, staged->tally.unit.convention)];
    group.units.push_back(staged.get());
    group.name = fmt::format("{} {} {}", row_of(variant).name, name_of(staged->phase), staged->property->name);
  }
  std::vector<Group> result;
  result.reserve(groups.size());
  for (auto& [key, group] : groups) result.push_back(std::move(group));
  return result;
}

// The problems of a group without repetitions, in the order in which they first occur in the units' plans.
std::vector<GroupProblem> plan_of(const Group& group, const RunOptions& options) {
  std::vector<GroupProblem> problems;
  std::unordered_map<std::string, std::size_t> by_line;
  std::vector<Problem> previous_plan;
  std::vector<std::size_t> previous_places;
  for (std::size_t u = 0; u < group.units.size(); ++u) {
    const StagedUnit& staged = *group.units[u];
    std::vector<Problem> plan = staged.property->plan(staged.subject(), options.effort, options.seed);
    // Plans depend on capabilities only, so that of the next target is usually the same.
    if (u == 0 || plan != previous_plan) {
      previous_places.clear();
      for (Problem& problem : plan) {
        const auto [at, fresh] = by_line.emplace(print(problem), problems.size());
        if (fresh) problems.push_back({problem, {}});
        previous_places.push_back(at->second);
      }
      previous_plan = std::move(plan);
    }
    for (std::size_t i = 0; i < previous_places.size(); ++i)
      problems[previous_places[i]].places.push_back({u, static_cast<std::int64_t>(i)});
  }
  return problems;
}

class GroupTrial {
 public:
  GroupTrial(const Group& group, Stage& stage, const RunOptions& options, std::map<std::string, int>& hangs,
             ProgressState& state, Progress& progress)
      : group_(group), stage_(stage), options_(options), hangs_(hangs), state_(state), progress_(progress) {}

  void run() {
    const std::vector<GroupProblem> problems = plan_of(group_, options_);
    std::vector<const GroupProblem*> mine;
    for (std::size_t i = 0; i < problems.size(); ++i)
      if (i % static_cast<std::size_t>(options_.shard_count) == static_cast<std::size_t>(options_.shard))
        mine.push_back(&problems[i]);
    for (std::size_t begin = 0; begin < mine.size();) {
      std::size_t end = begin;
      std::int64_t elements = 0;
      while (end < mine.size() && end - begin < problems_per_chunk) {
        const std::int64_t more = element_count(mine[end]->problem.shape);
        if (end > begin && elements + more > elements_per_chunk) break;
        elements += more;
        ++end;
      }
      try_chunk(std::span(mine).subspan(begin, end - begin));
      begin = end;
    }
  }

 private:
  struct Waiting {
    std::size_t problem;  // in the chunk
    std::int64_t index;   // in the unit's plan
    std::size_t first_call;
    std::size_t call_count;
  };

  void try_chunk(std::span<const GroupProblem* const> chunk) {
    std::vector<Case> cases;
    cases.reserve(chunk.size());
    for (const GroupProblem* problem : chunk)
      cases.emplace_back(problem->problem, group_.units.front()->property->wanted);
    for (std::size_t u = 0; u < group_.units.size(); ++u) {
      try_unit(chunk, cases, u);
      progress_.update(state_);
    }
  }

  void try_unit(std::span<const GroupProblem* const> chunk, const std::vector<Case>& cases, std::size_t u) {
    StagedUnit& staged = *group_.units[u];
    UnitTally& tally = staged.tally;
    const std::string kernel_on_target =
        fmt::format("{}\n{}\n{}", tally.unit.plugin, tally.unit.kernel, tally.unit.target);
    if (!may_go_on(staged, kernel_on_target)) return;
    const auto start = Clock::now();
    const Subject subject = staged.subject();
    std::vector<runner::Call> calls;
    std::vector<Waiting> waiting;
    for (std::size_t c = 0; c < chunk.size(); ++c) {
      for (const Place& place : chunk[c]->places) {
        if (place.unit != u) continue;
        std::vector<runner::Call> more = staged.property->calls(cases[c], subject);
        waiting.push_back({c, place.index, calls.size(), more.size()});
        std::move(more.begin(), more.end(), std::back_inserter(calls));
      }
    }
    const Door door = [&](std::span<const runner::Call> batch) { return staged.station->run(batch); };
    try {
      // One batch for the chunk. A unit that crashes or hangs in it goes on case by case, so that it is tried no
      // further than it may be.
      const bool careful = tally.grave > 0 || hangs_[kernel_on_target] > 0;
      std::vector<runner::Outcome> outcomes;
      if (!careful) outcomes = first_outcomes(door, calls);
      for (const Waiting& one : waiting) {
        if (!may_go_on(staged, kernel_on_target)) break;
        const std::span<const runner::Call> its_calls = std::span(calls).subspan(one.first_call, one.call_count);
        CaseResult result;
        if (one.first_call + one.call_count <= outcomes.size()) {
          result = judge_case(*staged.property, cases[one.problem], subject,
                              std::span(outcomes).subspan(one.first_call, one.call_count), door);
        } else {
          result = judge_case(*staged.property, cases[one.problem], subject, door(its_calls), door);
        }
        if (result.end == CaseEnd::timed_out) ++hangs_[kernel_on_target];
        const bool failed_before = tally.failure.has_value();
        tally.add(one.index, cases[one.problem].problem(), result);
        if (!failed_before && tally.failure) ++state_.failed_units;
        ++state_.cases;
      }
    } catch (const runner::HarnessError& error) {
      stage_.harness_errors.push_back(error.sentence);
      tally.given_up = error.sentence;
    }
    tally.unit.seconds += seconds_since(start);
  }

  // The chunk in pieces, ended after a piece in which a call crashed or hung. Pieces grow and stay short: a kernel that
  // hangs in every call costs a deadline for each of a piece.
  static std::vector<runner::Outcome> first_outcomes(const Door& door, std::span<const runner::Call> calls) {
    std::vector<runner::Outcome> outcomes;
    std::size_t piece = 1;
    for (std::size_t begin = 0; begin < calls.size();) {
      const std::size_t size = std::min(piece, calls.size() - begin);
      std::vector<runner::Outcome> some = door(calls.subspan(begin, size));
      begin += size;
      piece = std::min<std::size_t>(2 * piece, 4);
      const bool grave = std::any_of(some.begin(), some.end(), [](const runner::Outcome& outcome) {
        return outcome.status == runner::Status::crashed || outcome.status == runner::Status::exited ||
               outcome.status == runner::Status::timed_out;
      });
      std::move(some.begin(), some.end(), std::back_inserter(outcomes));
      if (grave) break;
    }
    return outcomes;
  }

  bool may_go_on(StagedUnit& staged, const std::string& kernel_on_target) {
    UnitTally& tally = staged.tally;
    if (!tally.given_up.empty() && tally.skipped == 0) return false;
    if (options_.first_failure_only && tally.failure) return false;
    if (tally.grave >= options_.grave_cases_per_unit) {
      tally.stopped = true;
      return false;
    }
    if (hangs_[kernel_on_target] >= options_.hangs_per_kernel) {
      if (tally.failure)
        tally.stopped = true;
      else
        tally.given_up = fmt::format("not tried: the kernel hung in {} cases before", options_.hangs_per_kernel);
      return false;
    }
    return true;
  }

  const Group& group_;
  Stage& stage_;
  const RunOptions& options_;
  std::map<std::string, int>& hangs_;
  ProgressState& state_;
  Progress& progress_;
};

}  // namespace

void try_units(Stage& stage, const RunOptions& options, Progress& progress) {
  const std::vector<Group> groups = groups_of(stage);
  ProgressState state;
  state.total = static_cast<std::int64_t>(groups.size());
  std::map<std::string, int> hangs;
  for (const Group& group : groups) {
    state.now = group.name;
    progress.update(state);
    GroupTrial(group, stage, options, hangs, state, progress).run();
    ++state.done;
  }
  progress.update(state);
}

void plan_units(Stage& stage, const RunOptions& options) {
  for (const auto& staged : stage.units) {
    if (staged->station == nullptr) continue;
    staged->tally.unit.cases =
        static_cast<std::int64_t>(staged->property->plan(staged->subject(), options.effort, options.seed).size());
  }
}

}  // namespace normgate
