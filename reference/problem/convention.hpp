// What frameworks disagree on, as data. To add a preset: one entry with the source of the fact in convention.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace normgate {

// Value 0 of every field is PyTorch's and the C ABI's default; the numbers are those of the C ABI.
enum class NormalizingDivisor : std::int32_t { n = 0, n_minus_1 = 1 };
enum class StoredDivisor : std::int32_t { n_minus_1 = 0, n = 1 };
enum class SingleCount : std::int32_t { nan = 0, unchanged = 1, zero = 2 };
enum class MomentumForm : std::int32_t { new_weight = 0, old_weight = 1, cumulative = 2, accumulated_weight = 3 };
enum class EpsPlacement : std::int32_t { inside = 0, outside = 1, floor = 2 };
enum class GammaOffset : std::int32_t { plain = 0, plus_one = 1 };
enum class SavedStatistic : std::int32_t { rstd = 0, variance = 1 };
enum class Gradients : std::int32_t { overwrite = 0, accumulate = 1 };
enum class Scalars : std::int32_t { float32 = 0, float64 = 1 };

struct Convention {
  NormalizingDivisor normalizing{};  // divisor of the variance that normalizes (centred rows; a mean square is over n)
  StoredDivisor stored{};            // divisor of the variance that running_var takes in
  SingleCount single{};              // a variance under n-1 of one value. `nan`: 0/0. `unchanged` and `zero` concern
                                     // running_var; where it normalizes, both mean 0
  MomentumForm momentum{};
  EpsPlacement eps{};      // sqrt(v+eps), sqrt(v)+eps, sqrt(max(v,eps))
  GammaOffset gamma{};     // w, or 1+w
  SavedStatistic saved{};  // 1/D, or the normalizing variance
  Gradients gradients{};
  Scalars scalars{};  // the type in which eps and momentum are used
  friend bool operator==(const Convention&, const Convention&) = default;
};

struct ConventionPreset {
  std::string_view name;
  Convention convention;
  std::string_view source;  // where the facts are stated
};
[[nodiscard]] std::span<const ConventionPreset> convention_table();

// "pytorch", or a preset with differences: "pytorch,normalizing:n_minus_1,eps:outside". Printing uses the preset with
// the fewest differences (the first of the table among equals); parsing returns a sentence on failure.
[[nodiscard]] std::string print(const Convention& convention);
struct ConventionOrError {
  std::optional<Convention> convention;
  std::string error;
};
[[nodiscard]] ConventionOrError parse_convention(std::string_view text);

// The conventions that differ from `convention` in one field (normalizing, stored, momentum, eps, gamma, saved), with
// the text of the difference: "stored divisor n; declared n-1". For diagnosis.
struct NamedConvention {
  Convention convention;
  std::string difference;
};
[[nodiscard]] std::vector<NamedConvention> one_field_away(const Convention& convention);

}  // namespace normgate
