// The ways in which a run tells how far it is.
#include "gate/engine/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace normgate {
namespace {

using Clock = std::chrono::steady_clock;

class TerminalProgress final : public Progress {
 public:
  void update(const ProgressState& state) override {
    const auto now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    std::string line =
        fmt::format("[{}/{}] {} cases{}  {}", state.done, state.total, state.cases,
                    state.failed_units == 0 ? "" : fmt::format(", {} failing", state.failed_units), state.now);
    if (line.size() > 110) line.resize(110);
    fmt::print(stderr, "\r{}\x1b[K", line);
    std::fflush(stderr);
    shown_ = true;
  }
  void finish() override {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
  }

 private:
  Clock::time_point last_{};
  bool shown_ = false;
};

class CountingProgress final : public Progress {
 public:
  void update(const ProgressState& state) override {
    const std::int64_t quarter = state.total == 0 ? 0 : 4 * state.done / state.total;
    if (quarter <= last_) return;
    last_ = quarter;
    fmt::print(stderr, "{} % ({} cases{})\n", 25 * quarter, state.cases,
               state.failed_units == 0 ? "" : fmt::format(", {} failing units", state.failed_units));
  }

 private:
  std::int64_t last_ = 0;
};

class ParentProgress final : public Progress {
 public:
  void update(const ProgressState& state) override {
    const auto now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(100) && state.done != state.total) return;
    last_ = now;
    fmt::print("progress {} {} {} {} {}\n", state.done, state.total, state.cases, state.failed_units, state.now);
    std::fflush(stdout);
  }

 private:
  Clock::time_point last_{};
};

}  // namespace

std::unique_ptr<Progress> progress_on_stderr() {
  if (::isatty(STDERR_FILENO) != 0) return std::make_unique<TerminalProgress>();
  return std::make_unique<CountingProgress>();
}

std::unique_ptr<Progress> progress_for_parent() { return std::make_unique<ParentProgress>(); }

bool read_progress_line(std::string_view line, ProgressState& state) {
  long long done = 0;
  long long total = 0;
  long long cases = 0;
  long long failed = 0;
  int used = 0;
  const std::string copy(line);
  if (std::sscanf(copy.c_str(), "progress %lld %lld %lld %lld %n", &done, &total, &cases, &failed, &used) != 4)
    return false;
  state = ProgressState{done, total, cases, failed, copy.substr(static_cast<std::size_t>(used))};
  return true;
}

}  // namespace normgate
