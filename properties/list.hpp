// The properties, one declaration each; list.cpp orders them.
#pragma once

#include <array>
#include <utility>

#include "properties/property.hpp"

namespace normgate {

extern const Property accuracy;
extern const Property saved_statistics;
extern const Property gain_and_offset;
extern const Property exact_data;
extern const Property zero_mean_unit_variance;
extern const Property epsilon;
extern const Property special_values;
extern const Property scaling;
extern const Property shift_invariance;
extern const Property sign_symmetry;
extern const Property affine;
extern const Property coincidence;
extern const Property range;
extern const Property running_statistics;
extern const Property sequences;
extern const Property own_statistics;
extern const Property momentum_independence;
extern const Property inference_state;
extern const Property partition_and_merge;
extern const Property gradients;
extern const Property finite_differences_of_the_forward;
extern const Property dot_product;
extern const Property jacobian;
extern const Property gradient_identities;
extern const Property cotangent_linearity;
extern const Property training_and_inference;
extern const Property split_rows;
extern const Property self_consistency;
extern const Property exact_gradients;
extern const Property single_value;
extern const Property special_gradients;
extern const Property double_backward;
extern const Property determinism;
extern const Property memory;
extern const Property row_independence;
extern const Property batch_mates;
extern const Property layouts;
extern const Property alignments;
extern const Property extents;
extern const Property repeated_calls;
extern const Property caller_environment;
extern const Property threads;

}  // namespace normgate
