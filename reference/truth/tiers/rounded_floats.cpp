#include "reference/truth/tiers/rounded_floats.hpp"

#include "reference/truth/tiers/exact.hpp"
#include "reference/truth/tiers/fast.hpp"
#include "reference/truth/tiers/sinks.hpp"

namespace normgate::tiers {

void correctly_rounded_floats(const Problem& problem, const Inputs& inputs, SavedUse use, RoundedFloats& result) {
  if (problem.from_output) use = SavedUse::from_output;
  result.counts = {};
  result.precise_test = 0;
  FloatSink sink(result.out);
  if (!(is_backward(problem.phase) ? fast_backward(problem, inputs, use, sink) : fast_forward(problem, inputs, sink))) {
    const Rounded rounded = correctly_rounded(problem, inputs, use, Format::float32);
    result.counts = rounded.counts;
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      const std::vector<double>& values = rounded.out[role];
      result.out[role].resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) result.out[role][i] = static_cast<float>(values[i]);
    }
    return;
  }
  for (std::size_t r = 0; r < role_count; ++r)
    if (!use_of(problem, static_cast<Role>(r)).write) result.out[static_cast<Role>(r)].clear();
  result.counts.fast = sink.decided();
  result.counts.special = sink.special();
  result.precise_test = sink.decided_precisely();
  if (sink.undecided().empty()) return;
  ExactValues exact(problem, inputs, use);
  for (const FloatSink::Undecided& open : sink.undecided()) {
    const auto at = static_cast<std::size_t>(open.at);
    const ExactValues::Rounding rounding = exact.round(open.role, at, Format::float32, open.ends);
    result.out[open.role][at] = static_cast<float>(rounding.value);
    ++(rounding.by == ExactBy::intervals ? result.counts.intervals : result.counts.exact);
  }
}

}  // namespace normgate::tiers
