// What the tests of the truth share: problems from lines, and exact values compared bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/problem/draw.hpp"
#include "reference/truth/forward.hpp"

namespace normgate {

// The problem of a line; a line that does not parse or make sense fails the test.
inline Problem problem_of(const std::string& line) {
  const ProblemOrError result = parse_problem(line);
  if (!result.problem) {
    ADD_FAILURE() << line << "\n" << result.error;
    return {};
  }
  EXPECT_EQ(check(*result.problem), "") << line;
  return *result.problem;
}

inline Truth truth_of(const Problem& problem) {
  EXPECT_EQ(check(problem), "") << print(problem);
  return definition_forward(problem, make_inputs(problem));
}
inline Truth truth_of(const std::string& line) { return truth_of(problem_of(line)); }

// The values rounded to double.
inline std::vector<double> rounded(const std::vector<Exact>& values) {
  std::vector<double> result;
  for (const Exact& value : values) result.push_back(value.hi);
  return result;
}

// Within half a unit of the last decimal that a text states, and as many values as it states.
inline void expect_decimals(const std::vector<Exact>& got, const std::vector<double>& stated, double last_decimal) {
  ASSERT_EQ(got.size(), stated.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i].hi, stated[i], last_decimal / 2) << "at " << i;
}

// Exactly these doubles, with nothing behind them.
inline void expect_exactly(const std::vector<Exact>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].hi, wanted[i]) << "at " << i;
    EXPECT_EQ(got[i].lo, 0.0) << "at " << i;
  }
}

// The same hi and lo; -0 = +0 and NaN = NaN, as everywhere.
inline bool same(const Exact& a, const Exact& b) {
  if (std::isnan(a.hi) || std::isnan(b.hi)) return std::isnan(a.hi) && std::isnan(b.hi);
  return a.hi == b.hi && a.lo == b.lo;
}
inline void expect_same(const std::vector<Exact>& a, const std::vector<Exact>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(same(a[i], b[i])) << what << " at " << i << ": " << a[i].hi << " + " << a[i].lo << " and " << b[i].hi
                                  << " + " << b[i].lo;
}

}  // namespace normgate
