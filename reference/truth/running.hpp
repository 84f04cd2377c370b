// Running statistics: a state machine of its own, since no normalization's output depends on it in training.
#pragma once

#include <cstdint>

#include "reference/problem/convention.hpp"

namespace normgate {

// new = keep * old + take * batch.
template <typename T>
struct UpdateWeights {
  T keep;
  T take;
};

// The exact rational weights of one step (step >= 1), from the momentum that the call carries.
template <typename T>
UpdateWeights<T> update_weights(MomentumForm form, const T& momentum, std::int64_t step) {
  switch (form) {
    case MomentumForm::new_weight:
      return {T(1) - momentum, momentum};
    case MomentumForm::old_weight:
      return {momentum, T(1) - momentum};
    case MomentumForm::cumulative:
      return {T(step - 1) / T(step), T(1) / T(step)};
    case MomentumForm::accumulated_weight:
      break;
  }
  return {momentum, T(1)};
}

// Whether an empty batch leaves the state as it is: always. A mean over nothing has no value to take in.
constexpr bool updates_state(std::int64_t values_per_statistic) { return values_per_statistic > 0; }

// Whether running_var is kept although running_mean moves: one value under n-1 where the convention says "unchanged".
constexpr bool keeps_variance(const Convention& convention, std::int64_t n) {
  return n == 1 && convention.stored == StoredDivisor::n_minus_1 && convention.single == SingleCount::unchanged;
}

}  // namespace normgate
