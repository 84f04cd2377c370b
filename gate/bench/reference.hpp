// What the truth costs: nanoseconds per element of correctly rounded and decided outputs, beside those of the
// definition with types of 50 digits and of a kernel.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/runner/runner.hpp"
#include "reference/problem/problem.hpp"
#include "reference/truth/tiers/correctly_rounded.hpp"

namespace normgate::bench {

inline constexpr std::int64_t benchmark_lengths[] = {64, 768, 4096, 65536};

// A benchmark's problem: groups of `n` elements, with gamma and beta (rms_norm without beta), of about `elements` in
// all. Inference is given running statistics in batch_norm, saved ones in the other rows.
[[nodiscard]] Problem problem_of(Variant variant, Phase phase, std::int64_t n, std::int64_t elements);

// A kernel and the target that it is timed on. The plugin must outlive what refers to it.
struct TimedKernel {
  const runner::Plugin* plugin = nullptr;
  const runner::TargetInfo* target = nullptr;
  std::int32_t index = 0;
};

struct ReferenceRow {
  Variant variant{};
  Phase phase{};
  std::int64_t n = 0;
  // Per element; the median of the repetitions.
  double certified_ns = 0;         // every output as a float, correctly rounded and decided
  double certified_stored_ns = 0;  // every output as an Exact, in memory
  double cpp_bin_float_50_ns = 0;
  double mpfr_50_ns = 0;
  std::optional<double> kernel_ns;  // nothing if there is no kernel, or it did not run
  std::string kernel;               // its name, or why it did not run
  // Of one run of the certified path, by the tier that decided.
  tiers::TierCounts counts;
  std::int64_t precise_test = 0;
};

struct ReferenceOptions {
  std::vector<Variant> variants;  // empty: all
  std::vector<Phase> phases;
  std::vector<std::int64_t> lengths;
  std::int64_t elements = std::int64_t{1} << 18;  // of a problem
  int repetitions = 5;
  double seconds = 0.01;                                                // at least, of each way in each repetition
  std::function<std::optional<TimedKernel>(const Problem&)> kernel_of;  // may be empty
  runner::Options runner;
};

// One row after the other, told as they come. One thread, which the ways share in turn.
void measure_reference(const ReferenceOptions& options, const std::function<void(const ReferenceRow&)>& tell);

}  // namespace normgate::bench
