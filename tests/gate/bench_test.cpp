// What the benchmark of the reference compares: the same problem, and the definition indeed on the other side.
#include <gtest/gtest.h>

#include <cmath>

#include "gate/bench/fifty_digits.hpp"
#include "gate/bench/reference.hpp"
#include "reference/truth/backward.hpp"

namespace normgate::bench {
namespace {

TEST(Bench, ItsProblemsHaveGroupsOfTheLengthAskedFor) {
  for (const VariantRow& row : variant_table())
    for (const Phase phase : normalizing_phases)
      for (const std::int64_t n : {1, 7, 64, 100, 768, 4096, 65536}) {
        const Problem problem = problem_of(row.variant, phase, n, 1 << 14);
        EXPECT_EQ(check(problem), "") << print(problem);
        EXPECT_EQ(group_size(problem), n) << print(problem);
        const std::int64_t elements = element_count(problem.shape);
        EXPECT_GE(elements, std::max<std::int64_t>(n, (1 << 14) - 4 * n)) << print(problem);
        EXPECT_LE(elements, std::max<std::int64_t>(n, 1 << 14)) << print(problem);
      }
}

// Both round a number that is known to 45 digits and more to a double.
TEST(Bench, FiftyDigitsAreThoseOfTheDefinition) {
  for (const VariantRow& row : variant_table())
    for (const Phase phase : normalizing_phases)
      for (const FiftyDigits type : {FiftyDigits::cpp_bin_float, FiftyDigits::mpfr}) {
        const Problem problem = problem_of(row.variant, phase, 24, 200);
        const Inputs inputs = make_inputs(problem);
        const Truth truth = definition_truth(problem, inputs, SavedUse::undeclared);
        FiftyDigitsDefinition definition(type, problem, inputs);
        definition.run();
        const auto values = definition.values();
        std::size_t compared = 0;
        for (const Role role : {Role::y, Role::dx, Role::dgamma, Role::dbeta}) {
          ASSERT_EQ(values[role].size(), truth.out[role].size()) << print(problem) << " " << name_of(role);
          for (std::size_t i = 0; i < values[role].size(); ++i, ++compared)
            EXPECT_NEAR(values[role][i], truth.out[role][i].hi, 0x1p-52 * std::fabs(truth.out[role][i].hi))
                << print(problem) << " " << name_of(role) << "[" << i << "]";
        }
        EXPECT_GE(compared, 192U);
      }
}

TEST(Bench, EveryRowIsMeasuredAndEveryElementDecided) {
  ReferenceOptions options;
  options.lengths = {64, 128};
  options.elements = 1024;
  options.repetitions = 1;
  options.seconds = 0;
  std::vector<ReferenceRow> rows;
  measure_reference(options, [&](const ReferenceRow& row) { rows.push_back(row); });
  ASSERT_EQ(rows.size(), 5U * 4U * 2U);
  for (const ReferenceRow& row : rows) {
    for (const double ns : {row.certified_ns, row.certified_stored_ns, row.cpp_bin_float_50_ns, row.mpfr_50_ns})
      EXPECT_GT(ns, 0);
    EXPECT_FALSE(row.kernel_ns.has_value());
    EXPECT_GE(row.counts.fast, 1000);
    EXPECT_EQ(row.counts.definition, 0);
    EXPECT_EQ(row.counts.special, 0);
  }
}

}  // namespace
}  // namespace normgate::bench
