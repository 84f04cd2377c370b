// Bytes taken as a problem, its dials and the bit patterns of its tensors; and the tiers of the truth tried on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "gate/proof/agreement.hpp"

namespace normgate::fuzz {

// The problem that the bytes mean, what is missing being 0; nothing where they mean none (a handed y beside a gamma of
// 0).
//
//   phase, variant, four extents, use and format, seven conventions, flags, eps, momentum, step: a byte each; then the
//   tensors that are read, by role: a byte that says how, and its elements. Even: four bytes, a bit pattern. Odd: one
//   byte, an integer from -128 to 127, times a power of two; such numbers meet boundaries.
[[nodiscard]] std::optional<proof::Trial> trial_of(const std::uint8_t* bytes, std::size_t size);

// What is wrong, or "": the fast tier has the same bits on all instruction sets of this CPU, and the tiers agree.
[[nodiscard]] std::string complaint_about(const proof::Trial& trial);

}  // namespace normgate::fuzz
