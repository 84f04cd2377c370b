// The audit of gradients: both of its answers reject what is wrong, each alone, at any size, and say what it is.
#include "gate/engine/audit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "gate/engine/self_check.hpp"
#include "properties/generators/plan.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

constexpr MuseumPiece museum[] = {
#include "museum.inc"
};

std::string_view expected_diagnosis(std::string_view name) {
  const auto piece =
      std::find_if(std::begin(museum), std::end(museum), [&](const MuseumPiece& one) { return one.name == name; });
  return piece == std::end(museum) ? std::string_view() : piece->diagnosis;
}

RunOptions options_with(const std::string& plugin) {
  RunOptions options;
  options.plugins = {NORMGATE_PLUGINS "/normgate_" + plugin + ".so"};
  options.runner.worker_path = NORMGATE_WORKER;
  return options;
}

// ---- the comparison with the certified gradient, one size at a time

std::int64_t length_tried = 0;

std::vector<Problem> problems_of_a_length(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "audit_test");
  // Five channels at least, since fewer wrong values are a coincidence to the diagnosis.
  Shape shape{5, 1, length_tried, 1};
  if (!subject.row.reduced.has(Axis::k))
    shape = subject.row.reduced.has(Axis::n) ? Shape{length_tried, 1, 5, 1} : Shape{2, 1, 5, length_tried};
  for (const Cotangent cotangent : {Cotangent::mixed, Cotangent::random}) {
    Problem problem;
    problem.shape = shape;
    problem.eps = 0x1p-10;
    problem.saved = true;
    problem.cotangent = cotangent;
    planner.add(problem);
  }
  return planner.take();
}

// Pieces whose mistake is a formula or a loss in dx, dgamma or dbeta, and what is looked at is the mathematics of
// backward_training: whenever an output is off by more than twice its bound the audit must reject it and name it.
const std::set<std::string>& pieces_of_mathematics() {
  static const std::set<std::string> pieces{"broken/dx_without_xhat_term",
                                            "broken/dx_without_mean_term",
                                            "broken/mean_of_g_subtracted_twice",
                                            "broken/dgamma_and_dbeta_swapped",
                                            "broken/dgamma_from_x",
                                            "broken/dgamma_without_rstd",
                                            "broken/inference_formula_in_training",
                                            "broken/means_over_n_minus_1",
                                            "broken/gradient_passed_through",
                                            "broken/sums_of_dy_without_gamma",
                                            "broken/rms_norm_with_a_mean_term",
                                            "broken/variance_taken_for_rstd",
                                            "broken/dgamma_of_first_sample_only",
                                            "broken/dx_tail_zeroed_at_long_rows"};
  return pieces;
}

TEST(Audit, EveryPieceOfMathematicsIsNamedAtEverySize) {
  Property one_length = gradients;
  one_length.plan = problems_of_a_length;
  const Property* const properties[] = {&one_length};
  RunOptions options = options_with("broken");
  options.all_properties = properties;
  options.phases = {"backward_training"};
  options.kernels.assign(pieces_of_mathematics().begin(), pieces_of_mathematics().end());
  const Gate gate = open_gate(options);
  ASSERT_EQ(wrong_names(gate, options), "");
  std::vector<std::int64_t> lengths{2, 3, 4, 7, 8, 17, 64, 100, 257, 1024, 4096};
  // NORMGATE_AUDIT_LENGTHS="2 4096 1": all of them, in an hour.
  if (const char* asked = std::getenv("NORMGATE_AUDIT_LENGTHS"); asked != nullptr) {
    std::istringstream words(asked);
    std::int64_t first = 0, last = 0, step = 0;
    ASSERT_TRUE((words >> first >> last >> step) && first >= 2 && step > 0) << asked;
    lengths.clear();
    for (std::int64_t n = first; n <= last; n += step) lengths.push_back(n);
  }
  std::map<std::string, int> rejected;
  for (const std::int64_t length : lengths) {
    length_tried = length;
    NoProgress progress;
    const Record record = run(gate, options, progress);
    ASSERT_TRUE(record.harness_errors.empty());
    ASSERT_EQ(record.units.size(), pieces_of_mathematics().size());
    for (const Unit& unit : record.units) {
      if (!(unit.worst.share_of_bound > 2)) continue;
      EXPECT_EQ(unit.verdict, Verdict::failed) << unit.kernel << " at " << length;
      ASSERT_TRUE(unit.finding) << unit.kernel << " at " << length;
      const std::string_view expected = expected_diagnosis(unit.kernel);
      ++rejected[unit.kernel];
      // Where two mistakes come to the same both are named.
      if (expected.empty()) continue;
      EXPECT_NE(unit.finding->diagnosis.find(expected), std::string::npos)
          << unit.kernel << " at " << length << ": " << unit.finding->diagnosis << "\n"
          << unit.finding->problem;
    }
  }
  if (lengths.back() < 4096) return;  // the zeroed tail
  for (const std::string& piece : pieces_of_mathematics()) EXPECT_GT(rejected[piece], 0) << piece;
}

// ---- differences of the kernel's own forward, alone

TEST(Audit, ItsOwnForwardAloneRejectsMissingTermsWrongFactorsLostTailsAndSwaps) {
  RunOptions options = options_with("broken");
  options.properties = {std::string(self_consistency_name)};
  options.kernels = {
      // missing terms
      "broken/dx_without_xhat_term", "broken/dx_without_mean_term", "broken/inference_formula_in_training",
      "broken/mean_term_lost_on_the_middle_path", "broken/xhat_term_lost_beyond_row_4096",
      // wrong factors
      "broken/mean_of_g_subtracted_twice", "broken/means_over_n_minus_1", "broken/dgamma_without_rstd",
      "broken/dgamma_averaged_over_the_samples", "broken/means_over_the_positions", "broken/sums_of_dy_without_gamma",
      // lost tails and elements
      "broken/dx_tail_zeroed_at_long_rows", "broken/last_vector_of_dx_lost", "broken/tail_left_out_of_the_sums",
      "broken/dgamma_loses_the_last_rows", "broken/dgamma_loses_rows_beyond_256", "broken/dgamma_of_first_sample_only",
      // swaps
      "broken/dgamma_and_dbeta_swapped", "broken/dy_and_x_swapped", "broken/jacobian_transposed",
      // a backward that is right, of another forward
      "broken/gradient_of_another_forward"};
  options.shrink = false;
  const Gate gate = open_gate(options);
  ASSERT_EQ(wrong_names(gate, options), "");
  NoProgress progress;
  const Record record = run(gate, options, progress);
  std::set<std::string> rejected;
  for (const Unit& unit : record.units)
    if (unit.verdict == Verdict::failed) rejected.insert(unit.kernel);
  EXPECT_EQ(rejected, std::set<std::string>(options.kernels.begin(), options.kernels.end()));
}

// ---- what a record of it has

TEST(Audit, TheRecordHasTheDataOfItsPlots) {
  RunOptions options = options_with("plain");
  options.kernels = {"plain/layer_norm", "plain/rms_norm"};
  const Gate gate = open_gate(options);
  NoProgress progress;
  const Record record = audit(gate, options, progress);
  EXPECT_EQ(summarize(record).exit_code, 0);
  ASSERT_TRUE(record.audit);
  ASSERT_EQ(record.audit->witness.size(), 6U);
  for (const Audit::Witness& witness : record.audit->witness) EXPECT_NEAR(witness.observed, witness.order, 0.01);
  // Two variants in two phases under six cotangents.
  ASSERT_EQ(record.audit->sight.size(), 24U);
  for (const Audit::Sight& sight : record.audit->sight) {
    EXPECT_LE(sight.along_one + sight.along_xhat, 1 + 1e-9);
    if (sight.phase == "backward_inference") {
      EXPECT_NEAR(sight.seen, 1, 1e-9) << "dx = g/D loses nothing";
    }
    const bool lost = sight.cotangent == "ones";
    if (sight.phase == "backward_training" && sight.variant == "layer_norm" && lost) {
      EXPECT_LT(sight.seen, 1e-9);
    }
    if (sight.phase == "backward_training" && sight.cotangent == "normalized") {
      EXPECT_LT(sight.seen, 1e-6);
    }
    if (sight.cotangent == "random") {
      EXPECT_GT(sight.seen, 0.8);
    }
  }
  ASSERT_EQ(record.audit->curves.size(), 4U);
  for (const Audit::Curve& curve : record.audit->curves) {
    ASSERT_GE(curve.chosen, 0);
    ASSERT_GT(curve.points.size(), static_cast<std::size_t>(curve.chosen));
    EXPECT_FALSE(curve.estimated);
    const Audit::Curve::Point& chosen = curve.points[static_cast<std::size_t>(curve.chosen)];
    EXPECT_LE(std::fabs(chosen.fourth_order), chosen.tolerance);
    EXPECT_LT(chosen.tolerance, 0.01 * curve.scale);
    // A V: noise falls and truncation grows with the step.
    for (std::size_t i = 1; i < curve.points.size(); ++i) {
      EXPECT_GT(curve.points[i].step, curve.points[i - 1].step);
      EXPECT_GE(curve.points[i].truncation, curve.points[i - 1].truncation);
    }
    EXPECT_LT(curve.points.back().noise, curve.points.front().noise);
  }
  ASSERT_EQ(record.audit->jacobians.size(), 4U);
  for (const Audit::Jacobian& jacobian : record.audit->jacobians) {
    ASSERT_EQ(jacobian.size, 12);
    ASSERT_EQ(jacobian.error.size(), 144U);
    for (std::size_t i = 0; i < jacobian.error.size(); ++i)
      EXPECT_LE(std::fabs(jacobian.error[i]), jacobian.bound[i]) << i;
  }
  std::set<std::string> outputs, cotangents;
  for (const Unit& unit : record.units)
    for (const WorstOfOutput& worst : unit.worst_of_outputs) {
      outputs.insert(worst.output);
      cotangents.insert(worst.cotangent);
      EXPECT_LE(worst.share_of_bound, 1) << unit.property;
      EXPECT_TRUE(parse_problem(worst.problem).problem) << worst.problem;
      EXPECT_EQ(worst.at.find(worst.output), 0U);
    }
  EXPECT_EQ(outputs, (std::set<std::string>{"dx", "dgamma", "dbeta", "ddy"}));
  EXPECT_EQ(cotangents.size(), 6U);
}

TEST(Audit, WhatIsNotAboutGradientsIsNotAudited) {
  RunOptions options;
  EXPECT_EQ(nothing_to_audit(options), "");
  options.properties = {"gradients", "self_*"};
  EXPECT_EQ(nothing_to_audit(options), "");
  options.properties = {"accuracy"};
  EXPECT_NE(nothing_to_audit(options).find("'accuracy' is not about gradients"), std::string::npos);
  options.properties.clear();
  options.phases = {"forward_training"};
  EXPECT_NE(nothing_to_audit(options).find("'forward_training' is not about gradients"), std::string::npos);
}

}  // namespace
}  // namespace normgate
