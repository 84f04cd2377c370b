// How far a run is, for people who wait. Always on stderr; results never go through it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace normgate {

struct ProgressState {
  std::int64_t done = 0;   // groups of units (variant × phase × convention × property)
  std::int64_t total = 0;  // …
  std::int64_t cases = 0;
  std::int64_t failed_units = 0;
  std::string now;  // "layer_norm forward_training accuracy"
};

class Progress {
 public:
  virtual ~Progress() = default;
  virtual void update(const ProgressState& state) = 0;
  virtual void finish() {}
};

class NoProgress final : public Progress {
 public:
  void update(const ProgressState&) override {}
};

// One line that is written over on a terminal; elsewhere a line at each quarter, so that logs stay short.
[[nodiscard]] std::unique_ptr<Progress> progress_on_stderr();

// One line per update on stdout, for the gate process that started this one; and the reading of such a line.
[[nodiscard]] std::unique_ptr<Progress> progress_for_parent();
[[nodiscard]] bool read_progress_line(std::string_view line, ProgressState& state);

}  // namespace normgate
