// What the tests of the tiers share.
#pragma once

#include "gate/proof/problems.hpp"
#include "reference/truth/backward.hpp"
#include "reference/truth/tiers/fast.hpp"
#include "tests/reference/truth/drawn.hpp"

namespace normgate {

using proof::draw_problem;
using proof::draw_shape;
using proof::spoil_some;
using proof::sprinkle;

}  // namespace normgate
