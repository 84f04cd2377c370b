// Whether a reported failure comes back in a fresh process in which only its kernel runs, so that the command under the
// finding does what it says: a replay line, one that repeats, or the check of the whole property.
#pragma once

#include "gate/engine/shrinking.hpp"

namespace normgate {

// How often a case failed again.
struct Recurrence {
  std::int64_t fresh = 0;  // processes started for it
  std::int64_t failed_fresh = 0;
  std::int64_t repeated = 0;  // tries in one more process
  std::int64_t failed_repeated = 0;
  bool plan_failed = false;  // the cases of the property failed when tried again in their order
  [[nodiscard]] bool always() const { return failed_fresh == fresh; }
};

// Sets `again`, and says in `looks_like` if the failure depends on more than the call.
void tell_recurrence(const Recurrence& recurrence, const Unit& unit, const RunOptions& options, FindingRows& rows);

// Tries the case of `rows` again, and does the above. A hang is left as it is: it costs a deadline each time.
void confirm(const FailedUnit& failed, const RunOptions& options, FindingRows& rows);

// normgate check --kernel K --target T --property P … for what no single line repeats.
[[nodiscard]] std::string check_command(const Unit& unit, const RunOptions& options, bool whole_kernel);

}  // namespace normgate
