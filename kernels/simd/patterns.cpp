// The list of access patterns.
#include "kernels/simd/patterns.hpp"

namespace normgate::simd {

std::span<const Pattern* const> patterns() {
  static const Pattern* const list[] = {&columns, &rows, &planes, &channels, &strided};
  return list;
}

}  // namespace normgate::simd
