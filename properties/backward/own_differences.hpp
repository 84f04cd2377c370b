// Differences of a kernel's own forward, float32 noise and all, beside the gradients of its own backward. Derivations
// stand in own_differences.cpp (what it compares) and reference/bounds/differences.cpp (the truncation).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "properties/property.hpp"

namespace normgate {

// One step of the ladder at one element (or block of elements) of dx.
struct DifferenceStep {
  double step = 0;        // h, in units of x
  double relative = 0;    // h over the deviation
  double second = 0;      // the kernel's dx less the quotient of order 2
  double fourth = 0;      // … and of order 4
  double noise = 0;       // bounds: of the forward's rounding,
  double truncation = 0;  // of the quotient of order 4,
  double own = 0;         // and of the backward's rounding
  [[nodiscard]] double tolerance() const { return noise + truncation + own; }
};
// Error against step, the V-shaped curve.
struct DifferenceCurve {
  std::string at;
  double scale = 0;                   // what errors are compared with: max(|dx|, r rms(g))
  std::vector<DifferenceStep> steps;  // ascending; empty: nothing could be compared
  std::size_t chosen = 0;             // by the model alone
  bool estimated = false;             // noise and truncation are, for want of a reference; else they are proved
};

// The forward phase that a backward subject is the gradient of: of the kernel that it names, else its own.
[[nodiscard]] Subject forward_subject(const Subject& subject);

// What of a backward case that forward is called with, its problem and its data (beta, which a backward is not handed,
// follows from the key); nothing if it cannot be asked for the same tensors.
struct OwnForward {
  Problem problem;
  Inputs inputs;
};
[[nodiscard]] std::optional<OwnForward> own_forward(const Case& c, const Subject& in_forward);

// Whether the kernel has a forward to take differences of in this phase.
[[nodiscard]] bool has_own_forward(const Subject& subject);

// Judges dx, dgamma and dbeta of `c`, at all elements of small groups and at a spread of large ones. A case that says
// nothing is discarded.
[[nodiscard]] Judgement judge_own_differences(const Case& c, const Subject& subject, Bench& bench);

// The curve at the element with the largest share of its tolerance.
[[nodiscard]] DifferenceCurve worst_difference_curve(const Case& c, const Subject& subject, Bench& bench);

}  // namespace normgate
