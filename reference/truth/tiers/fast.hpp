// The fast tier: the truth in double-double with certificates, hundreds of times faster than the definition at 100
// digits, which stays the judge and computes what is not covered here: empty tensors, a certificate too weak to tell on
// which side of a floor a variance lies, products of infinite statistics whose sign it does not tell, and magnitudes at
// the ends of the range of double.
#pragma once

#include <optional>

#include "reference/problem/claim.hpp"
#include "reference/truth/forward.hpp"

namespace normgate::tiers {

// What forward_truth() and backward_truth() give, or nothing where the problem is not covered. Memory besides the
// result: a few buffers of a group's size, and for the gradients of the parameters six doubles per channel.
[[nodiscard]] std::optional<Truth> fast_forward(const Problem& problem, const Inputs& inputs, Wanted wanted);
[[nodiscard]] std::optional<Truth> fast_backward(const Problem& problem, const Inputs& inputs, SavedUse use);
// Of whichever phase it is; `use` matters backward.
[[nodiscard]] std::optional<Truth> fast_truth(const Problem& problem, const Inputs& inputs, SavedUse use);

// The same, rounded to float32 where it is computed; whether the problem is covered.
class FloatSink;
[[nodiscard]] bool fast_forward(const Problem& problem, const Inputs& inputs, FloatSink& sink);
[[nodiscard]] bool fast_backward(const Problem& problem, const Inputs& inputs, SavedUse use, FloatSink& sink);

}  // namespace normgate::tiers
