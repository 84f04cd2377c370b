// The list that the build makes of the pieces' first lines: name, property that must reject it, expected diagnosis.
#include "gate/verbs/museum.hpp"

namespace normgate::verbs {

std::span<const MuseumPiece> museum() {
  static constexpr MuseumPiece pieces[] = {
#include "museum.inc"
  };
  return pieces;
}

}  // namespace normgate::verbs
