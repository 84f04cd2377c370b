// Makes a failing problem small. `smaller` lists the next steps of one problem, as a pure function of it; `smallest`
// walks the tree of them that RapidCheck spans, under the caller's budget.
//
// To add a step: one line in `smaller`; large steps come first, and the key comes last, since another key means other
// data and says less about the failure that was seen.
#pragma once

#include <functional>
#include <vector>

#include "reference/problem/problem.hpp"

namespace normgate {

// Problems that differ from `problem` in one respect (or, as the first entries, in several) and are smaller in it:
// extents, optional roles, layouts, place, dials, scalars, key. All pass check(); phase, variant and convention stay,
// and profile exact keeps the eps that makes it exact.
[[nodiscard]] std::vector<Problem> smaller(const Problem& problem);

struct Shrunk {
  Problem problem;
  int tries = 0;  // problems that were asked about
};
// Greedy descent: the first smaller problem that `still_fails` is gone on from, until none does or `tries` are used up
// or `go_on` (asked before each try) says no. `problem` itself is taken to fail. `inside`, where there is one, brings a
// step back inside what the kernel claims: a tensor that may not have its own layout follows the others.
[[nodiscard]] Shrunk smallest(const Problem& problem, const std::function<bool(const Problem&)>& still_fails, int tries,
                              const std::function<bool()>& go_on,
                              const std::function<Problem(const Problem&)>& inside = {});

}  // namespace normgate
