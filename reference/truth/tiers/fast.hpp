// The fast tier: the truth in double-double with certificates, hundreds of times faster than the definition at 100
// digits, which stays the judge and computes what is not covered here: inputs that are not finite, D = 0 or a
// variance that is not a number, a certificate too weak to tell on which side of a floor a variance lies, and
// magnitudes at the ends of the range of double.
#pragma once

#include <optional>

#include "reference/problem/claim.hpp"
#include "reference/truth/forward.hpp"

namespace normgate::tiers {

// What forward_truth() and backward_truth() give, or nothing where the problem is not covered. Memory besides the
// result: a few buffers of a group's size, and for the gradients of the parameters six doubles per channel.
[[nodiscard]] std::optional<Truth> fast_forward(const Problem& problem, const Inputs& inputs, Wanted wanted);
[[nodiscard]] std::optional<Truth> fast_backward(const Problem& problem, const Inputs& inputs, SavedUse use);

}  // namespace normgate::tiers
