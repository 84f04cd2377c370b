// Bounds of dgamma and dbeta: sums over a channel, group by group.
#pragma once

#include "reference/bounds/gradient_group.hpp"

namespace normgate::bounds {

class ParameterGradients {
 public:
  explicit ParameterGradients(const GradientModel& model);
  // Adds a group's terms to the channels' sums. `range`: nothing of the group's own sums overflows.
  void take_in(const Frame& frame, const std::vector<Element>& elements, bool range);
  // Enters what follows once all groups are in.
  void judge(Bounds& bounds) const;

 private:
  // What is summed up over a channel for its parameter gradients.
  struct Channel {
    double terms = 0;     // Σ|dy x̂|
    double computed = 0;  // Σ of what is summed in the end, in moduli
    double error = 0;     // what the terms are off by together
    double products = 0;  // Σ|dy| (|d| + |x̂|): may overflow
    double upstream = 0;  // Σ|dy|
    double upstream_error = 0;
    double term_grid = infinity;
    double upstream_grid = infinity;
    bool exact = true;
    bool judged = true;
    bool finite = true;  // what dgamma depends on
    bool upstream_finite = true;
  };

  const GradientModel& model_;
  std::vector<Channel> channels_;
  std::vector<double> sum_of_products_;  // of the group at hand, by channel
  std::vector<double> sum_of_dy_;
};

}  // namespace normgate::bounds
