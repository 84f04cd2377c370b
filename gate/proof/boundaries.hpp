// Problems built backwards from a boundary: one element of an output stands exactly on a midpoint of a format or on 0,
// or a hair beside it, where random problems never are. What it rounds to is known without any tier.
//
// To add a family: a function in boundaries.cpp and its line in the list there. To add one case found by hand: a line
// in known_cases.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "gate/proof/agreement.hpp"
#include "reference/problem/draw.hpp"

namespace normgate::proof {

struct Family {
  std::string_view name;
  // A draw, or nothing where the numbers drawn do not fit float32; to be tried again then.
  std::optional<Trial> (*draw)(Draw&);
};
[[nodiscard]] std::span<const Family> families();

// Cases found by hand, `known` in each.
[[nodiscard]] const std::vector<Trial>& known_cases();

// Of any family, or one of the cases.
[[nodiscard]] Trial draw_boundary(Draw& draw);

}  // namespace normgate::proof
