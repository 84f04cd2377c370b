// What was found: the record of a run. Formats (reports/formats, one per file) are written from it and nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace normgate {

enum class Verdict : std::int32_t { passed, failed, crashed, timed_out, mistrusted, refused, skipped };
inline constexpr std::size_t verdict_count = 7;
[[nodiscard]] std::string_view name_of(Verdict verdict);  // "PASSED", …

// The rows of a failure in their order (DESIGN §8); an empty row is left out when printed. `says`, `problem` and
// `again` are never empty.
struct FindingRows {
  std::string says;     // the property as a sentence
  std::string problem;  // the shrunk problem line
  std::string in;   // of a small problem: all that the kernel reads, as a declaration that can be pasted into a test
  std::string at;   // "y[n=0 g=0 k=3 s=0]  neighbours …"
  std::string got;  // hexfloat and decimal
  std::string want;
  std::string error;       // row ulp, share of the bound, the bound's formula with numbers
  std::string looks_like;  // the convention or algorithm that would explain it
  std::string again;       // the replay command
  std::string diagnosis;   // short and stable ("one-pass variance"): groups findings; may be empty
};

struct Worst {
  double share_of_bound = 0;
  double row_ulp = 0;
  std::string problem;
  std::string output;  // the role
};

// The property that compares gradients with the kernel's own forward; an audit tells it apart from the others.
inline constexpr std::string_view self_consistency_name = "self_consistency";

// Of a backward: the worst of one output under one family of upstream gradients.
struct WorstOfOutput {
  std::string output;
  std::string cotangent;
  double share_of_bound = 0;
  std::string at;
  std::string problem;
  std::int64_t index = -1;  // of its case in the plan
};

// One kernel × target × phase × convention × property.
struct Unit {
  std::string kernel;
  std::string plugin;  // path as given
  std::string source;  // "file:line" or empty
  std::string variant;
  std::string target;
  std::string phase;
  std::string convention;
  std::string dtype = "float32";
  std::string property;
  Verdict verdict = Verdict::passed;
  std::string reason;      // for skipped, refused and mistrusted
  std::int64_t cases = 0;  // tried, the refused ones among them
  std::int64_t refused_cases = 0;
  std::int64_t failed_cases = 0;
  std::int64_t elements = 0;    // compared
  std::int64_t not_judged = 0;  // elements whose bound is infinite
  double seconds = 0;
  Worst worst;
  std::vector<WorstOfOutput> worst_of_outputs;  // of backward phases, by output and cotangent
  // Bits 1 << ng_saved_use of what an undeclared use of saved statistics may be, by all cases; -1: nothing is known.
  std::int32_t fitting_uses = -1;
  std::optional<FindingRows> finding;
  std::int64_t finding_index = -1;  // of its case in the plan: the first in plan order is reported
};

struct SkippedTarget {
  std::string plugin;
  std::string target;
  std::string reason;
};

// What an audit of gradients shows beside its units: the data of its tables and plots.
struct Audit {
  // How fast differences of the forward's definition come near the closed gradient.
  struct Witness {
    std::string variant{};
    std::string method{};
    std::int32_t order = 0;  // expected
    double observed = 0;
    std::string problem{};
    std::vector<double> steps{};   // of the deviation
    std::vector<double> errors{};  // of dx, relative to the largest
  };
  // What a family of upstream gradients can show of dx: shares of Σ g², g = dy·gamma, in the mean over the groups.
  struct Sight {
    std::string variant{};
    std::string phase{};
    std::string cotangent{};
    double along_one = 0;   // lies along 1
    double along_xhat = 0;  // … and along x̂ beside that
    double seen = 0;        // Σ dx² over Σ (g/D)²: what the operator leaves of it
  };
  // Error against step at the element of dx that is nearest to its tolerance, the V-shaped curve.
  struct Curve {
    std::string kernel{};
    std::string target{};
    std::string phase{};
    std::string problem{};
    std::string at{};
    double scale = 0;
    struct Point {
      double step = 0;                            // in deviations
      double second_order = 0, fourth_order = 0;  // dx less the quotient
      double noise = 0, truncation = 0, tolerance = 0;
    };
    std::vector<Point> points{};
    std::int64_t chosen = -1;  // of the points, by the model alone
    bool estimated = false;    // the model is estimated, not proved
  };
  // The Jacobian of a small problem: dx of each unit vector.
  struct Jacobian {
    std::string kernel{};
    std::string target{};
    std::string phase{};
    std::string problem{};
    std::int64_t size = 0;
    std::vector<double> truth{};  // row-major, dy by row: the certified gradient
    std::vector<double> error{};  // what the kernel gives less that
    std::vector<double> bound{};
  };
  std::vector<Witness> witness{};
  std::vector<Sight> sight{};
  std::vector<Curve> curves{};
  std::vector<Jacobian> jacobians{};
};

struct Record {
  std::int32_t schema = 1;
  std::string version;
  std::string cpu;
  std::uint64_t seed = 0;
  std::string effort;
  std::vector<std::string> targets;  // tried
  std::vector<SkippedTarget> skipped_targets;
  std::vector<std::string> required_missing;  // --require-target that could not be tried
  std::vector<std::string> not_claimed;       // "simd/layer_norm: threads, …"
  std::vector<std::string> harness_errors;
  std::vector<Unit> units;
  double seconds = 0;
  std::int32_t jobs = 1;
  std::optional<Audit> audit;
};

// The verdict of a whole run, and the exit code: 2, 3, 1, 5, 4, 0 in this order of precedence (DESIGN §8).
struct Summary {
  std::string verdict;  // "PASSED on 4 of 5 targets (avx3: not on this CPU)"
  std::int32_t exit_code = 0;
  std::array<std::int64_t, verdict_count> counts{};
};
[[nodiscard]] Summary summarize(const Record& record);

}  // namespace normgate
