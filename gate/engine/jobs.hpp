// Several gate processes that split the problems of every unit. Each has its own workers; this one merges what they
// found, and alone shrinks and reports, so that nothing but the time depends on their number.
#pragma once

#include "gate/engine/stage.hpp"

namespace normgate {

// Fills the tallies of the stage's units. A process that ends without its result is a harness error.
void try_in_processes(Stage& stage, const RunOptions& options, Progress& progress);

// The command line of shard `index`: the verb `check`, the options, and the hidden --shard and --record.
[[nodiscard]] std::vector<std::string> shard_arguments(const RunOptions& options, int index, const std::string& record);

// To be called first in a shard: it ends when its parent does.
void end_with_parent();

}  // namespace normgate
