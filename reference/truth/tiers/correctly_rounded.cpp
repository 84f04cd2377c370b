// The tiers in order: an enclosure by the fast tier, or by the definition where the fast one does not cover the
// problem; where that enclosure has a boundary of the format in it, the exact tier, element by element.
#include "reference/truth/tiers/correctly_rounded.hpp"

#include <optional>

#include "reference/truth/backward.hpp"
#include "reference/truth/forward.hpp"
#include "reference/truth/tiers/exact.hpp"
#include "reference/truth/tiers/fast.hpp"

namespace normgate::tiers {

Rounded correctly_rounded(const Problem& problem, const Inputs& inputs, SavedUse use, Format format) {
  if (problem.from_output) use = SavedUse::from_output;
  std::optional<Truth> truth = fast_truth(problem, inputs, use);
  Rounded result;
  std::int64_t& decided = truth ? result.counts.fast : result.counts.definition;
  if (!truth) truth = definition_truth(problem, inputs, use);

  ExactValues exact(problem, inputs, use);
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    const std::vector<Exact>& values = truth->out[role];
    result.out[role].reserve(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      double value = values[i].hi;
      if (!values[i].finite()) {
        ++result.counts.special;
      } else if (const RoundedEnds ends = rounded_ends(values[i], format); ends.low == ends.high) {
        value = ends.high;
        ++decided;
      } else {
        const ExactValues::Rounding rounding = exact.round(role, i, format, ends);
        value = rounding.value;
        ++(rounding.by == ExactBy::intervals ? result.counts.intervals : result.counts.exact);
      }
      result.out[role].push_back(value);
    }
  }
  return result;
}

}  // namespace normgate::tiers
