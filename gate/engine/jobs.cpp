// Starting gate processes, following their progress, merging their results.
#include "gate/engine/jobs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "gate/engine/record_transfer.hpp"

extern char** environ;  // NOLINT: POSIX

namespace normgate {
namespace {

// The number under which a gate process inherits the file for its result.
constexpr int result_descriptor = 3;

struct Shard {
  pid_t process = -1;
  int progress = -1;  // the reading end of its stdout
  int record = -1;    // in memory, so that nothing is left over however this process ends
  std::string unread;
  ProgressState state;
};

std::string start(Shard& shard, const std::vector<std::string>& arguments) {
  shard.record = ::memfd_create("normgate-record", MFD_CLOEXEC);
  if (shard.record < 0) return fmt::format("no memory for the result of a gate process: {}", std::strerror(errno));
  // dup2 onto itself would leave the inherited one closed.
  if (shard.record == result_descriptor) {
    shard.record = ::fcntl(result_descriptor, F_DUPFD_CLOEXEC, result_descriptor + 1);
    ::close(result_descriptor);
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fmt::format("no pipe for a gate process: {}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, shard.record, result_descriptor);
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const int failed = ::posix_spawn(&shard.process, "/proc/self/exe", &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failed != 0) {
    ::close(ends[0]);
    shard.process = -1;
    return fmt::format("a gate process cannot be started: {}", std::strerror(failed));
  }
  shard.progress = ends[0];
  return {};
}

void follow(std::vector<Shard>& shards, Progress& progress) {
  for (;;) {
    std::vector<pollfd> open;
    std::vector<Shard*> of;
    for (Shard& shard : shards) {
      if (shard.progress < 0) continue;
      open.push_back({shard.progress, POLLIN, 0});
      of.push_back(&shard);
    }
    if (open.empty()) return;
    if (::poll(open.data(), open.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (open[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t count = ::read(open[i].fd, buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        ::close(open[i].fd);
        of[i]->progress = -1;
        continue;
      }
      of[i]->unread.append(buffer, static_cast<std::size_t>(count));
      for (std::size_t end = 0; (end = of[i]->unread.find('\n')) != std::string::npos;) {
        (void)read_progress_line(of[i]->unread.substr(0, end), of[i]->state);
        of[i]->unread.erase(0, end + 1);
      }
      ProgressState all = of[i]->state;
      all.cases = 0;
      all.failed_units = 0;
      for (const Shard& shard : shards) {
        all.done = std::min(all.done, shard.state.done);
        all.cases += shard.state.cases;
        all.failed_units = std::max(all.failed_units, shard.state.failed_units);
      }
      progress.update(all);
    }
  }
}

std::string content_of(int file) {
  std::string text;
  char buffer[65536];
  for (ssize_t count = 0; (count = ::pread(file, buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  return text;
}

std::string wait_for(const Shard& shard, std::size_t index, std::size_t count) {
  int status = 0;
  while (::waitpid(shard.process, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    return fmt::format("gate process {} of {} ended with signal {}", index + 1, count, WTERMSIG(status));
  if (WEXITSTATUS(status) != 0)
    return fmt::format("gate process {} of {} ended with exit code {}", index + 1, count, WEXITSTATUS(status));
  return {};
}

bool same_unit(const Unit& a, const Unit& b) {
  return a.kernel == b.kernel && a.plugin == b.plugin && a.target == b.target && a.phase == b.phase &&
         a.convention == b.convention && a.property == b.property;
}

}  // namespace

std::vector<std::string> shard_arguments(const RunOptions& options, int index, const std::string& record) {
  std::vector<std::string> words{"normgate", "check"};
  const auto add = [&](std::string_view option, const std::string& value) {
    words.emplace_back(option);
    words.push_back(value);
  };
  const auto add_all = [&](std::string_view option, const std::vector<std::string>& values) {
    for (const std::string& value : values) add(option, value);
  };
  add_all("--plugin", options.plugins);
  add_all("--kernel", options.kernels);
  add_all("--target", options.targets);
  add_all("--property", options.properties);
  add_all("--phase", options.phases);
  add("--effort", std::string(name_of(options.effort)));
  add("--seed", std::to_string(options.seed));
  add("--timeout", fmt::format("{}", options.runner.cpu_seconds));
  add("--wall-timeout", fmt::format("{}", options.runner.wall_seconds));
  if (!options.runner.worker_path.empty()) add("--worker", options.runner.worker_path);
  add("--grave-cases-per-unit", std::to_string(options.grave_cases_per_unit));
  add("--hangs-per-kernel", std::to_string(options.hangs_per_kernel));
  add("--shard", fmt::format("{}/{}", index, options.jobs));
  add("--record", record);
  return words;
}

void end_with_parent() {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A parent that ended before that line no longer reads the progress.
  pollfd progress{STDOUT_FILENO, 0, 0};
  if (::poll(&progress, 1, 0) > 0 && (progress.revents & POLLERR) != 0) ::_exit(1);
}

void try_in_processes(Stage& stage, const RunOptions& options, Progress& progress) {
  std::vector<Shard> shards(static_cast<std::size_t>(options.jobs));
  std::vector<std::string> errors;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string record = fmt::format("/proc/self/fd/{}", result_descriptor);
    std::string error = start(shards[i], shard_arguments(options, static_cast<int>(i), record));
    if (!error.empty()) errors.push_back(std::move(error));
  }
  follow(shards, progress);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].process < 0) continue;
    if (std::string error = wait_for(shards[i], i, shards.size()); !error.empty()) {
      errors.push_back(std::move(error));
      continue;
    }
    ShardOrError parsed = parse_shard(content_of(shards[i].record));
    if (!parsed.result) {
      errors.push_back(parsed.error);
      continue;
    }
    stage.harness_errors.insert(stage.harness_errors.end(), parsed.result->harness_errors.begin(),
                                parsed.result->harness_errors.end());
    const std::vector<UnitTally>& tallies = parsed.result->tallies;
    bool same = tallies.size() == stage.units.size();
    for (std::size_t u = 0; same && u < tallies.size(); ++u)
      same = same_unit(tallies[u].unit, stage.units[u]->tally.unit);
    if (!same) {
      errors.push_back(
          fmt::format("gate process {} of {} saw other kernels or targets than this one", i + 1, shards.size()));
      continue;
    }
    for (std::size_t u = 0; u < tallies.size(); ++u) stage.units[u]->tally.merge(tallies[u]);
  }
  for (const Shard& shard : shards)
    if (shard.record >= 0) ::close(shard.record);
  // Parts of the plan are missing then: no unit may count as passed.
  if (!errors.empty())
    for (const auto& staged : stage.units)
      if (staged->tally.given_up.empty()) staged->tally.given_up = errors.front();
  stage.harness_errors.insert(stage.harness_errors.end(), errors.begin(), errors.end());
}

}  // namespace normgate
