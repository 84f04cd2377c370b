// What the museum of broken kernels is made of, known when the command was built: neither the plugin nor its sources
// need be there.
#pragma once

#include <span>

#include "gate/engine/self_check.hpp"

namespace normgate::verbs {

// The broken kernels and the sound ones, by name.
[[nodiscard]] std::span<const MuseumPiece> museum();

}  // namespace normgate::verbs
