// The units of a run and the stations on which they are tried; inside the engine only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gate/engine/run.hpp"

namespace normgate {

// The axes of a kernel's tensors; a custom one's are layer_norm's.
[[nodiscard]] inline const VariantRow& row_for(const runner::KernelInfo& kernel) {
  return row_of(kernel.variant.value_or(Variant::layer_norm));
}

struct StagedUnit {
  Station* station = nullptr;  // null: the target cannot be tried; the tally says why
  const runner::KernelInfo* kernel = nullptr;
  Convention convention;
  Phase phase{};
  const Property* property = nullptr;
  std::size_t property_index = 0;
  UnitTally tally;
  [[nodiscard]] Subject subject() const { return Subject{row_for(*kernel), phase, *kernel, convention}; }
};

struct Stage {
  std::vector<std::unique_ptr<Station>> stations;
  // unique_ptr: subjects refer to the convention inside.
  std::vector<std::unique_ptr<StagedUnit>> units;
  std::vector<std::string> targets;  // tried
  std::vector<SkippedTarget> skipped_targets;
  std::vector<std::string> required_missing;
  std::vector<std::string> not_claimed;
  std::vector<std::string> harness_errors;
};

// Units in the order of the record: plugin, kernel, target, phase, convention, property.
[[nodiscard]] Stage set_stage(const Gate& gate, const RunOptions& options);

// Tries the units of a stage: all problems, or those of the shard.
void try_units(Stage& stage, const RunOptions& options, Progress& progress);

// Counts the planned cases of each unit and tries nothing.
void plan_units(Stage& stage, const RunOptions& options);

// Shrinks and explains the reported failures, settles the verdicts and makes the record.
[[nodiscard]] Record close_stage(Stage& stage, const RunOptions& options, Progress& progress);

}  // namespace normgate
