// The museum: which pieces the plugin has, in the order in which they are reported.
//
// To add one: the file (piece.hpp says how) and its line in NORMGATE_PIECES. CMakeLists.txt reads the lines of this
// list for what it builds, and the first line of each file for what must reject the piece. Pieces that are wrong on one
// target only are in a plugin of their own, which has two targets: the others would only take twice the time there.
#include <cstddef>

#include "kernels/broken/own_forward.hpp"
#include "kernels/broken/piece.hpp"

// clang-format off
#define NORMGATE_PIECES \
  BROKEN(one_pass_variance) \
  BROKEN(one_pass_variance_unclamped) \
  BROKEN(one_pass_variance_large_rows_only) \
  BROKEN(clamped_variance) \
  BROKEN(divisor_n_minus_1) \
  BROKEN(welford_merge_of_equal_counts) \
  BROKEN(welford_merge_of_empty_lanes) \
  BROKEN(sequential_sum_claimed_pairwise) \
  BROKEN(float_sum_claimed_double) \
  BROKEN(float16_statistics) \
  BROKEN(bfloat16_accumulator) \
  BROKEN(output_rounded_before_gamma) \
  BROKEN(statistics_from_every_second_element) \
  BROKEN(intermediate_overflow) \
  BROKEN(eps_outside) \
  BROKEN(eps_floor) \
  BROKEN(eps_ignored) \
  BROKEN(eps_default) \
  BROKEN(eps_clamped_below_1e5) \
  BROKEN(eps_rounded_to_half) \
  BROKEN(eps_scaled_by_the_maximum) \
  BROKEN(std_instead_of_var) \
  BROKEN(variance_not_rooted) \
  BROKEN(approximate_rsqrt) \
  BROKEN(newton_from_a_bad_seed) \
  BROKEN(rsqrt_one_ulp_off) \
  BROKEN(reciprocal_of_n) \
  BROKEN(folded_form) \
  BROKEN(scale_not_covariant) \
  BROKEN(integers_summed_in_32_bits) \
  BROKEN(saved_mean_without_correction) \
  BROKEN(last_addition_rounds_upwards) \
  BROKEN(sign_of_small_outputs_lost) \
  BROKEN(all_gammas_zero_skips_beta) \
  BROKEN(gamma_saturates_at_65504) \
  BROKEN(group_of_one_channel_in_tiles) \
  BROKEN(subnormal_outputs_flushed) \
  BROKEN(subnormal_inputs_read_as_zero) \
  BROKEN(finite_by_the_sum_of_squares) \
  BROKEN(crash_on_an_infinite_variance) \
  BROKEN(last_vector_lost) \
  BROKEN(tail_left_out_of_statistics) \
  BROKEN(padding_in_statistics) \
  BROKEN(wrong_above_1024) \
  BROKEN(rows_beyond_48_not_processed) \
  BROKEN(channels_beyond_a_power_of_two) \
  BROKEN(zero_at_multiples_of_64_without_beta) \
  BROKEN(single_row_forgets_beta) \
  BROKEN(index_wraps_at_16384) \
  BROKEN(statistics_of_the_neighbour) \
  BROKEN(statistics_of_first_row_only) \
  BROKEN(statistics_per_column) \
  BROKEN(last_axis_only) \
  BROKEN(group_norm_as_instance_norm) \
  BROKEN(gamma_ignored_when_beta_absent) \
  BROKEN(optional_parameter_in_the_wrong_slot) \
  BROKEN(crash_without_beta) \
  BROKEN(gamma_scalar) \
  BROKEN(gamma_per_group) \
  BROKEN(gamma_abs) \
  BROKEN(gamma_plus_one) \
  BROKEN(beta_before_gamma) \
  BROKEN(rms_centred) \
  BROKEN(rms_by_standard_deviation) \
  BROKEN(layer_norm_not_centred) \
  BROKEN(last_element_lost_at_15_mod_16) \
  BROKEN(one_pass_variance_in_whole_vectors) \
  BROKEN(one_pass_variance_beyond_1e4) \
  BROKEN(not_centred_without_gamma) \
  BROKEN(one_newton_step_too_few) \
  BROKEN(two_newton_steps_from_the_exponent) \
  BROKEN(compensation_with_the_wrong_sign) \
  BROKEN(mean_rounded_before_the_subtraction) \
  BROKEN(shift_not_corrected) \
  BROKEN(eps_behind_a_clamp) \
  BROKEN(eps_at_least_machine_epsilon) \
  BROKEN(axis_taken_for_eps) \
  BROKEN(eps_only_without_variance) \
  BROKEN(count_in_bfloat16) \
  BROKEN(last_vector_counted_twice) \
  BROKEN(divided_by_the_padded_length) \
  BROKEN(saved_mean_and_rstd_swapped) \
  BROKEN(beta_and_gamma_swapped) \
  BROKEN(two_elements_swapped_in_the_tail) \
  BROKEN(gamma_one_early_in_odd_channels) \
  BROKEN(gamma_one_early_in_the_tail) \
  BROKEN(gamma_in_the_order_k_g) \
  BROKEN(gamma_of_the_sample) \
  BROKEN(channels_of_a_group_interleaved) \
  BROKEN(variance_within_the_samples) \
  BROKEN(divided_by_the_positions) \
  BROKEN(normalized_value_clipped) \
  BROKEN(rstd_at_most_1000) \
  BROKEN(welford_with_the_old_mean_twice) \
  BROKEN(welford_by_a_short_table) \
  BROKEN(mean_square_over_n_minus_1) \
  BROKEN(gamma_before_the_mean_square) \
  BROKEN(mean_square_of_the_first_half) \
  BROKEN(zero_row_makes_nan) \
  BROKEN(folded_without_gamma) \
  BROKEN(folded_tail) \
  BROKEN(float_blocks_claimed_double) \
  BROKEN(odd_row_left_without_its_pair) \
  BROKEN(last_lane_not_reduced) \
  BROKEN(vector_lost_behind_the_unrolled_loop) \
  BROKEN(mean_absolute_deviation) \
  BROKEN(single_value_handed_on) \
  BROKEN(gamma_in_tf32) \
  BROKEN(gamma_in_bfloat16_from_1024) \
  BROKEN(mean_of_the_previous_row) \
  BROKEN(squares_scaled_into_underflow) \
  BROKEN(saved_variance_instead_of_rstd) \
  BROKEN(saved_rstd_without_eps) \
  BROKEN(mean_added_to_what_was_there) \
  BROKEN(running_var_biased) \
  BROKEN(bessel_before_the_mean_is_subtracted) \
  BROKEN(bessel_with_eps) \
  BROKEN(bessel_with_batch_count) \
  BROKEN(momentum_reversed) \
  BROKEN(running_var_with_eps) \
  BROKEN(running_var_recovered_from_rstd) \
  BROKEN(running_average_of_rstd) \
  BROKEN(running_never_updated) \
  BROKEN(running_updated_twice) \
  BROKEN(running_mean_stale_at_single) \
  BROKEN(single_value_makes_nan) \
  BROKEN(empty_batch_makes_nan) \
  BROKEN(cumulative_count_before_the_increment) \
  BROKEN(momentum_in_y) \
  BROKEN(inference_updates_state) \
  BROKEN(inference_uses_batch_statistics) \
  BROKEN(inference_eps_fixed) \
  BROKEN(inference_shift_lost) \
  BROKEN(accumulated_weight_ignored) \
  BROKEN(divides_by_the_number_of_channels) \
  BROKEN(nan_gradients_of_an_empty_batch) \
  BROKEN(recomputation_guessed_from_the_data) \
  BROKEN(accumulated_weight_not_updated) \
  BROKEN(accumulated_weight_updated_per_channel) \
  BROKEN(bessel_in_integers) \
  BROKEN(bessel_inverted) \
  BROKEN(bessel_twice_from_the_second_step) \
  BROKEN(bessel_with_all_values_of_the_channel) \
  BROKEN(count_of_the_first_part_for_all) \
  BROKEN(count_of_the_last_training_in_inference) \
  BROKEN(counts_of_parts_in_eight_bits) \
  BROKEN(cumulative_count_in_eight_bits) \
  BROKEN(cumulative_taken_for_momentum_zero) \
  BROKEN(cumulative_weight_kept_in_the_plan) \
  BROKEN(empty_batch_decays_the_state) \
  BROKEN(empty_batch_resets_the_state) \
  BROKEN(empty_part_counts_as_one) \
  BROKEN(fails_on_an_empty_tensor) \
  BROKEN(gradients_unwritten_for_an_empty_batch) \
  BROKEN(inference_makes_the_state_biased) \
  BROKEN(inference_takes_zero_variance_for_none) \
  BROKEN(instance_running_var_biased) \
  BROKEN(momentum_warms_up) \
  BROKEN(running_average_of_deviations) \
  BROKEN(running_var_around_the_running_mean) \
  BROKEN(running_var_floored) \
  BROKEN(saved_mean_is_the_running_mean) \
  BROKEN(saved_rstd_of_the_sample_variance) \
  BROKEN(saved_statistics_only_with_a_state) \
  BROKEN(state_kept_in_the_plan) \
  BROKEN(unwritten_tail) \
  BROKEN(write_past_the_end) \
  BROKEN(vector_store_into_the_next_row) \
  BROKEN(write_before_the_start) \
  BROKEN(read_past_the_end_of_the_page) \
  BROKEN(read_past_the_end_inside) \
  BROKEN(clobbered_input) \
  BROKEN(clobbered_gamma) \
  BROKEN(crash) \
  BROKEN(crash_on_an_empty_row) \
  BROKEN(hang) \
  BROKEN(exits) \
  BROKEN(late_write) \
  BROKEN(flushes_subnormals_undeclared) \
  BROKEN(workspace_taken_for_zeros) \
  BROKEN(nondeterministic) \
  BROKEN(stale_plan) \
  BROKEN(order_depends_on_batch) \
  BROKEN(order_depends_on_the_neighbour) \
  BROKEN(leaks_nan_between_rows) \
  BROKEN(nan_becomes_zero) \
  BROKEN(variance_hides_nan) \
  BROKEN(inf_becomes_finite) \
  BROKEN(strides_ignored_in_second_pass) \
  BROKEN(layout_taken_from_y) \
  BROKEN(gamma_assumed_contiguous) \
  BROKEN(padding_gap_in_statistics) \
  BROKEN(in_place_corrupts) \
  BROKEN(misaligned) \
  BROKEN(dx_without_xhat_term) \
  BROKEN(gradient_of_another_forward) \
  BROKEN(dx_without_mean_term) \
  BROKEN(mean_of_g_subtracted_twice) \
  BROKEN(dgamma_and_dbeta_swapped) \
  BROKEN(dgamma_from_x) \
  BROKEN(dgamma_without_rstd) \
  BROKEN(means_over_n_minus_1) \
  BROKEN(inference_formula_in_training) \
  BROKEN(training_formula_in_inference) \
  BROKEN(dgamma_loses_rows_beyond_256) \
  BROKEN(dgamma_loses_the_last_rows) \
  BROKEN(dgamma_of_first_sample_only) \
  BROKEN(dgamma_added_where_overwrite_is_asked) \
  BROKEN(dgamma_overwritten_where_accumulate_is_asked) \
  BROKEN(dbeta_accumulates_without_gamma) \
  BROKEN(only_the_first_cotangent) \
  BROKEN(dx_tail_zeroed_at_long_rows) \
  BROKEN(last_vector_of_dx_lost) \
  BROKEN(wrong_without_gamma) \
  BROKEN(zero_gradients_without_beta_at_1024) \
  BROKEN(sums_of_dy_without_gamma) \
  BROKEN(gamma_applied_twice) \
  BROKEN(parentheses_around_rstd) \
  BROKEN(rms_norm_with_a_mean_term) \
  BROKEN(gradient_passed_through) \
  BROKEN(dy_and_x_swapped) \
  BROKEN(sums_per_column) \
  BROKEN(divides_by_the_width) \
  BROKEN(means_over_the_positions) \
  BROKEN(means_over_the_padded_length) \
  BROKEN(tail_left_out_of_the_sums) \
  BROKEN(dgamma_averaged_over_the_samples) \
  BROKEN(dgamma_per_group) \
  BROKEN(rstd_by_column_in_dgamma) \
  BROKEN(dgamma_of_the_last_axis) \
  BROKEN(dgamma_forgotten) \
  BROKEN(dgamma_in_float16) \
  BROKEN(wrong_dgamma_in_channels_last) \
  BROKEN(dy_assumed_contiguous) \
  BROKEN(expanded_dy_read_out_of_bounds) \
  BROKEN(layout_of_x_taken_from_dy) \
  BROKEN(dx_over_dy_before_dgamma) \
  BROKEN(dx_written_into_dy) \
  BROKEN(wrong_above_768_samples_of_one_position) \
  BROKEN(single_row_indexes_mean_by_column) \
  BROKEN(rows_wrap_at_4096) \
  BROKEN(partial_sums_of_two_rows) \
  BROKEN(root_of_a_handed_rstd) \
  BROKEN(variance_taken_for_rstd) \
  BROKEN(eps_added_to_a_handed_rstd) \
  BROKEN(handed_statistics_ignored) \
  BROKEN(statistics_rounded_to_bfloat16) \
  BROKEN(textbook_declared_short_computed) \
  BROKEN(short_declared_textbook_computed) \
  BROKEN(tiny_gamma_clamped) \
  BROKEN(gamma_taken_for_positive) \
  BROKEN(eps_outside_cubes_rstd) \
  BROKEN(eps_outside_divides_by_no_deviation) \
  BROKEN(eps_floor_keeps_the_xhat_term) \
  BROKEN(divisor_n_in_a_sample_variance) \
  BROKEN(gamma_plus_one_forgotten_in_g) \
  BROKEN(inference_gradient_from_batch_statistics) \
  BROKEN(inference_dgamma_from_x) \
  BROKEN(folded_sums_undeclared) \
  BROKEN(sequential_gradient_sums_claimed_pairwise) \
  BROKEN(small_gradients_dropped) \
  BROKEN(means_by_reciprocal_of_n) \
  BROKEN(single_element_dx_not_zero) \
  BROKEN(constant_group_has_no_gradient) \
  BROKEN(nan_row_zeroed) \
  BROKEN(dbeta_sees_x) \
  BROKEN(nan_row_left_out_of_dgamma) \
  BROKEN(infinite_cotangent_becomes_finite) \
  BROKEN(sums_go_on_into_the_next_row) \
  BROKEN(parts_of_equal_counts_assumed) \
  BROKEN(empty_part_poisons) \
  BROKEN(variances_averaged_without_the_means) \
  BROKEN(means_of_parts_averaged_unweighted) \
  BROKEN(count_of_the_first_part) \
  BROKEN(parts_merged_from_raw_moments) \
  BROKEN(last_part_lost_beyond_eight) \
  BROKEN(statistics_of_parts_over_n_minus_1) \
  BROKEN(mean_term_lost_on_the_middle_path) \
  BROKEN(first_row_without_gradient_ends_the_batch) \
  BROKEN(table_of_single_lanes) \
  BROKEN(jacobian_transposed) \
  BROKEN(dgamma_loses_rows_beyond_65536) \
  BROKEN(empty_batch_leaves_dgamma) \
  BROKEN(dgamma_in_the_order_of_arrival) \
  BROKEN(evaluation_writes_dx_only) \
  BROKEN(rows_counted_by_the_first_axis) \
  BROKEN(zero_row_divides_by_its_norm) \
  BROKEN(xhat_term_lost_beyond_row_4096) \
  BROKEN(dgamma_in_bfloat16_beyond_1024_rows) \
  BROKEN(both_paths_at_ambiguous_strides) \
  BROKEN(dgamma_of_the_modulus) \
  BROKEN(pruned_channel_has_no_dgamma) \
  BROKEN(mean_of_its_own_beside_a_handed_rstd) \
  BROKEN(dbeta_overwritten_beside_an_accumulated_dgamma) \
  BROKEN(evaluation_forgets_eps) \
  BROKEN(double_backward_without_the_term_of_the_variance) \
  BROKEN(double_backward_with_the_curvature_of_the_first_order) \
  BROKEN(double_backward_without_the_mean) \
  BROKEN(double_backward_without_ddgamma) \
  BROKEN(double_backward_ddy_without_gamma) \
  BROKEN(double_backward_dgamma_forgotten) \
  SOUND(double_backward_multiplied_out) \
  SOUND(parts_merged_in_a_chain) \
  SOUND(parts_merged_in_a_tree) \
  SOUND(raw_moments_of_parts_claimed) \
  SOUND(layer_norm_of_sharded_rows) \
  BROKEN(threads_lose_the_last_row) \
  BROKEN(threads_change_the_order_of_sums) \
  BROKEN(threads_lose_updates_of_dgamma) \
  BROKEN(in_place_across_threads) \
  BROKEN(environment_reset_to_default) \
  BROKEN(relies_on_the_callers_state) \
  BROKEN(guarded_by_a_subnormal) \
  BROKEN(rounding_mode_changed_when_refusing) \
  BROKEN(refuses_after_supports) \
  BROKEN(eps_of_the_last_shape) \
  BROKEN(gamma_kept_by_its_address) \
  BROKEN(step_of_the_first_call) \
  BROKEN(sums_over_the_longest_row_so_far) \
  BROKEN(mean_of_the_first_call_on_a_plan) \
  BROKEN(alignment_compared_modulo_32) \
  BROKEN(aligned_loads_of_gamma) \
  BROKEN(last_block_of_65536_rows_dropped) \
  BROKEN(row_65536_takes_the_first) \
  BROKEN(length_of_65536_taken_for_empty) \
  BROKEN(scratch_sized_by_the_last_axis) \
  BROKEN(declines_padding_and_misreads_channels_last) \
  BROKEN(aborts_on_padded_rows) \
  BROKEN(one_position_taken_for_channels_last) \
  BROKEN(offset_of_a_slice_ignored) \
  BROKEN(channels_last_gradient_read_as_channels_first) \
  BROKEN(handed_mean_assumed_contiguous) \
  BROKEN(workspace_overrun) \
  BROKEN(workspace_underrun) \
  BROKEN(workspace_read_before_its_start) \
  BROKEN(statistics_stored_by_fours) \
  BROKEN(beta_read_behind_gamma) \
  BROKEN(rows_of_a_block_unmasked) \
  BROKEN(pairs_of_channels_past_the_end) \
  BROKEN(scratch_of_a_single_row_uninitialized) \
  BROKEN(handed_mean_overwritten) \
  BROKEN(order_changes_at_256_rows) \
  BROKEN(order_changes_at_2000_rows) \
  BROKEN(one_ulp_in_one_lane_of_an_odd_row) \
  BROKEN(reduction_buffer_reused) \
  BROKEN(padded_channels_in_group_statistics) \
  BROKEN(wrong_at_15_modulo_16) \
  BROKEN_ON_A_TARGET(wrong_on_the_wide_target) \
  SOUND(reversed_order) \
  SOUND(rows_on_threads) \
  SOUND(threads_share_a_row) \
  SOUND(gradients_on_threads) \
  SOUND(own_floating_point_state) \
  SOUND(scalar_tail_behind_fused_body) \
  SOUND(range_guard_in_double) \
  SOUND(declines_padding) \
  SOUND(running_statistics) \
  SOUND(accumulated_weight) \
  SOUND(cumulative_average) \
  SOUND(instance_running_statistics) \
  SOUND(plan_across_steps) \
  SOUND(welford) \
  SOUND(pairwise_sums) \
  SOUND(compensated_sums) \
  SOUND(mean_around_a_first_estimate) \
  SOUND(double_where_the_range_is_large) \
  SOUND(fused_body_and_scalar_tail) \
  SOUND(welford_in_lanes) \
  SOUND(blocked_sums) \
  SOUND(double_accumulators) \
  SOUND(double_throughout) \
  SOUND(promises_kept) \
  SOUND(folded_form_declared) \
  SOUND(one_pass_variance_declared) \
  SOUND(output_through_a_copy) \
  SOUND(flushes_subnormals_declared) \
  SOUND(refuses_odd_lengths) \
  SOUND(saves_the_variance) \
  SOUND(sample_variance) \
  SOUND(eps_outside_declared) \
  SOUND(momentum_of_the_old_value) \
  SOUND(prints_a_line_per_call) \
  SOUND(prints_megabytes) \
  SOUND(approximate_rsqrt_declared) \
  SOUND(plan_and_workspace) \
  SOUND(nondeterministic_declared) \
  SOUND(alignment_declared) \
  SOUND(reads_whole_vectors_declared) \
  SOUND(gradients_by_the_short_formula) \
  SOUND(gradients_of_rms_norm) \
  SOUND(gradients_times_n) \
  SOUND(gradients_folded_declared) \
  SOUND(gradients_from_those_of_the_parameters) \
  SOUND(gradients_textbook_declared) \
  SOUND(gradients_short_undeclared) \
  SOUND(gradients_recomputed) \
  SOUND(gradients_from_x_alone) \
  SOUND(gradients_from_the_output) \
  SOUND(gradients_summed_in_double_pairwise) \
  SOUND(gradients_accumulated) \
  SOUND(dx_over_dy) \
  SOUND(any_strides_of_dy) \
  SOUND(gradients_flush_subnormals_declared) \
  SOUND(gradients_keep_promises) \
  SOUND(gradients_of_a_handed_variance) \
  SOUND(gradients_with_eps_outside) \
  SOUND(gradients_with_eps_as_a_floor) \
  SOUND(gradients_of_a_sample_variance) \
  SOUND(gradients_of_one_plus_w) \
  SOUND(dgamma_by_blocks_of_rows)
// clang-format on

namespace normgate::broken {

#define BROKEN(name) extern const ng_kernel name;
#define BROKEN_ON_A_TARGET(name) extern const ng_kernel name;
#define SOUND(name) extern const ng_kernel name;
NORMGATE_PIECES
#undef BROKEN
#undef BROKEN_ON_A_TARGET
#undef SOUND

namespace {

#ifdef NORMGATE_MUSEUM_OF_TARGETS
#define BROKEN(name)
#define BROKEN_ON_A_TARGET(name) &name,
#define SOUND(name)
#else
#define BROKEN(name) &name,
#define BROKEN_ON_A_TARGET(name)
#define SOUND(name) &name,
#endif
constexpr const ng_kernel* pieces[] = {NORMGATE_PIECES};
#undef BROKEN
#undef BROKEN_ON_A_TARGET
#undef SOUND
constexpr std::size_t piece_count = sizeof(pieces) / sizeof(pieces[0]);

template <std::size_t... i>
const std::array<ng_kernel, piece_count>& kernels(std::index_sequence<i...>) {
  static const std::array<ng_kernel, piece_count> all{with_own_forward<pieces, i>()...};
  return all;
}

const ng_kernel* kernel(std::int32_t index) {
  const auto i = static_cast<std::size_t>(index);
  return i < piece_count ? &kernels(std::make_index_sequence<piece_count>{})[i] : nullptr;
}

#ifdef NORMGATE_MUSEUM_OF_TARGETS
constexpr ng_target targets[] = {{sizeof(ng_target), "narrow", "NORMGATE_MUSEUM_TARGET=narrow", nullptr},
                                 {sizeof(ng_target), "wide", "NORMGATE_MUSEUM_TARGET=wide", nullptr}};
const ng_target* target(std::int32_t index) { return index == 0 || index == 1 ? &targets[index] : nullptr; }
constexpr ng_plugin plugin{sizeof(ng_plugin),
                           NG_ABI_VERSION,
                           static_cast<std::int32_t>(piece_count),
                           "broken on a target",
                           nullptr,
                           kernel,
                           2,
                           0,
                           target};
#else
constexpr ng_plugin plugin{sizeof(ng_plugin),
                           NG_ABI_VERSION,
                           static_cast<std::int32_t>(piece_count),
                           "broken",
                           nullptr,
                           kernel,
                           0,
                           0,
                           nullptr};
#endif

}  // namespace
}  // namespace normgate::broken

extern "C" NG_EXPORT const ng_plugin* normgate_plugin_v1(std::size_t) { return &normgate::broken::plugin; }
