// The list of properties, explicit so that none can be lost by a linker. The order is that of trial and report: what
// touches memory first, then values, then promises.
#include "properties/list.hpp"

namespace normgate {

std::span<const Property* const> property_list() {
  static constexpr const Property* list[] = {
      &memory,
      &accuracy,
      &saved_statistics,
      &gain_and_offset,
      &exact_data,
      &zero_mean_unit_variance,
      &epsilon,
      &special_values,
      &scaling,
      &shift_invariance,
      &sign_symmetry,
      &affine,
      &coincidence,
      &range,
      &running_statistics,
      &sequences,
      &momentum_independence,
      &inference_state,
      &own_statistics,
      &partition_and_merge,
      &gradients,
      &finite_differences_of_the_forward,
      &dot_product,
      &jacobian,
      &self_consistency,
      &gradient_identities,
      &cotangent_linearity,
      &training_and_inference,
      &split_rows,
      &exact_gradients,
      &single_value,
      &special_gradients,
      &double_backward,
      &batch_mates,
      &row_independence,
      &layouts,
      &alignments,
      &extents,
      &determinism,
      &repeated_calls,
      &caller_environment,
      &threads,
  };
  return list;
}

}  // namespace normgate
