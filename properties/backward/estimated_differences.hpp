// Differences of the forward of a kernel that has no reference and no claim to derive a bound from: the noise of the
// forward is estimated (estimated_differences.cpp), and findings say so.
#pragma once

#include "properties/backward/own_differences.hpp"

namespace normgate {

[[nodiscard]] Judgement judge_estimated_differences(const Case& c, const Subject& subject, Bench& bench);
[[nodiscard]] DifferenceCurve worst_estimated_curve(const Case& c, const Subject& subject, Bench& bench);

}  // namespace normgate
