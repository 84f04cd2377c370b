// What the backward phases are by definition.
#pragma once

#include "reference/problem/claim.hpp"
#include "reference/problem/data.hpp"
#include "reference/problem/problem.hpp"
#include "reference/truth/forward.hpp"

namespace normgate {

// The gradients by role, dense and row-major: dx; dgamma and dbeta if the problem has gamma and beta, with what they
// are added to where the convention accumulates. `groups` are the statistics: of x in training (NaN with from_output,
// which has no x), as given in inference.
//
// `use` says which function of the inputs is meant in backward_training with saved statistics; it does not matter
// elsewhere. `recomputes` and `undeclared` are the derivative of the forward, whatever is handed; `short_form` and
// `textbook` take the handed mean and stat for exact inputs; `from_output` takes y, beta, gamma and stat for such.
// `problem` must pass check() and be of a backward phase. By the fast tier (tiers/fast.hpp) where it covers the
// problem, else by the definition at 100 digits; the bounds tell how exact it is.
[[nodiscard]] Truth backward_truth(const Problem& problem, const Inputs& inputs, SavedUse use);
// The definition itself, computed with 100 decimal digits: bounds are at most 2^-104 of a value and 2^-254 of its
// terms.
[[nodiscard]] Truth definition_backward(const Problem& problem, const Inputs& inputs, SavedUse use);
// Of whichever phase it is; `use` matters backward.
[[nodiscard]] Truth definition_truth(const Problem& problem, const Inputs& inputs, SavedUse use);

}  // namespace normgate
