// Statistics of parts and of their union: numbers that can be checked by hand, and wholes against their parts.
#include <cmath>

#include "reference/problem/groups.hpp"
#include "support.hpp"

namespace normgate {
namespace {

// Mean and variance of one group of batch_norm.
struct Merged {
  double mean = 0;
  double variance = 0;
};
Merged merged(const std::vector<float>& counts, const std::vector<float>& means, const std::vector<float>& variances) {
  Problem problem = problem_of("merge_statistics batch_norm n=1 g=1 k=1 s=1");
  problem.shape[0] = static_cast<std::int64_t>(counts.size());
  problem.values[Role::part_count] = counts;
  problem.values[Role::part_mean] = means;
  problem.values[Role::part_stat] = variances;
  EXPECT_EQ(check(problem), "");
  const Truth truth = truth_of(problem);
  return {truth.out[Role::mean].at(0).hi, truth.out[Role::stat].at(0).hi};
}

TEST(Merge, OneRowAndThree) {  // pytorch#22192
  const Merged both = merged({1, 3}, {0, 1}, {0, 0});
  EXPECT_EQ(both.mean, 0.75);
  EXPECT_EQ(both.variance, 0.1875);
}

TEST(Merge, AnEmptyPartIsNotThereWhateverStandsInIt) {
  const float nan = std::nanf("");
  for (const float value : {nan, INFINITY, 3.0F}) {
    const Merged all = merged({0, 4}, {value, 5}, {value, 2});
    EXPECT_EQ(all.mean, 5);
    EXPECT_EQ(all.variance, 2);
  }
  EXPECT_TRUE(std::isnan(merged({0, 0}, {1, 2}, {3, 4}).mean));
  EXPECT_TRUE(std::isnan(merged({0, 0}, {1, 2}, {3, 4}).variance));
}

TEST(Merge, FiveAndTwoAndOne) {
  // 1 2 3 4 5 | 6 8 | 3: sum 32, squares 1+4+9+16+25+36+64+9 = 164, 164/8 - 16 = 4.5.
  const Merged all = merged({5, 2, 1}, {3, 7, 3}, {2, 1, 0});
  EXPECT_EQ(all.mean, 4);
  EXPECT_EQ(all.variance, 4.5);
}

TEST(Merge, CountsBeyondThoseOfFloat32AreExact) {
  const Merged all = merged({0x1p24F, 1}, {0, 0x1p24F + 2}, {0, 0});
  EXPECT_EQ(all.mean, (0x1p24 + 2) / (0x1p24 + 1));
}

TEST(Merge, ANanThatCountsReachesMeanAndVariance) {
  const float nan = std::nanf("");
  EXPECT_TRUE(std::isnan(merged({1, 2}, {nan, 1}, {0, 1}).mean));
  EXPECT_TRUE(std::isnan(merged({1, 2}, {nan, 1}, {0, 1}).variance));
  EXPECT_EQ(merged({1, 2}, {4, 1}, {0, nan}).mean, 2);
  EXPECT_TRUE(std::isnan(merged({1, 2}, {4, 1}, {0, nan}).variance));
}

TEST(Merge, RowsWithoutAMeanHaveMeanSquares) {
  Problem problem = problem_of("merge_statistics rms_norm n=2 g=3 k=1 s=1");
  problem.values[Role::part_count] = {1, 0, 3};
  problem.values[Role::part_stat] = {8, 9, 4, 0, 9, 4};
  ASSERT_EQ(check(problem), "");
  const Truth truth = truth_of(problem);
  EXPECT_TRUE(truth.out[Role::mean].empty());
  ASSERT_EQ(truth.out[Role::stat].size(), 2U);
  EXPECT_EQ(truth.out[Role::stat][0].hi, 5);
  EXPECT_EQ(truth.out[Role::stat][1].hi, 3);
}

// Parts of 2^j small integers have float32 statistics: then the union is the whole, exactly.
TEST(Merge, PartsMakeTheWhole) {
  for (const VariantRow& row : variant_table())
    for (std::uint64_t key = 1; key <= 20; ++key) {
      Problem whole;
      whole.phase = Phase::statistics;
      whole.variant = row.variant;
      std::size_t axis = 0;
      while (!row.reduced.has(axis)) ++axis;
      whole.shape = {3, 3, 3, 3};
      for (std::size_t a = 0; a < axis_count; ++a)
        if (row.reduced.has(a)) whole.shape[a] = 1;
      Problem merge = whole;
      merge.phase = Phase::merge_statistics;
      const std::vector<std::int64_t> counts{8, 1, 0, 2, 4, 16};
      merge.shape[axis] = static_cast<std::int64_t>(counts.size());
      whole.shape[axis] = 31;
      const std::int64_t groups = group_count(whole);
      ASSERT_EQ(groups, group_count(merge));
      Inputs x;
      Inputs parts;
      x[Role::x].resize(static_cast<std::size_t>(element_count(whole.shape)));
      for (std::size_t i = 0; i < x[Role::x].size(); ++i)
        x[Role::x][i] = static_cast<float>(random_words(key, 77, i).w[0] % 64) - 40;
      for (const std::int64_t count : counts) parts[Role::part_count].push_back(static_cast<float>(count));
      if (row.centred) parts[Role::part_mean].resize(static_cast<std::size_t>(element_count(merge.shape)));
      parts[Role::part_stat].resize(static_cast<std::size_t>(element_count(merge.shape)));
      constexpr AxisSet every{Axis::n, Axis::g, Axis::k, Axis::s};
      std::int64_t begin = 0;
      for (std::size_t p = 0; p < counts.size(); ++p) {
        Problem part = whole;
        part.shape[axis] = counts[p];
        Inputs own;
        own[Role::x].resize(static_cast<std::size_t>(element_count(part.shape)));
        Shape at{};
        for (at[0] = 0; at[0] < part.shape[0]; ++at[0])
          for (at[1] = 0; at[1] < part.shape[1]; ++at[1])
            for (at[2] = 0; at[2] < part.shape[2]; ++at[2])
              for (at[3] = 0; at[3] < part.shape[3]; ++at[3]) {
                Shape from = at;
                from[axis] += begin;
                own[Role::x][static_cast<std::size_t>(dense_index(part.shape, every, at))] =
                    x[Role::x][static_cast<std::size_t>(dense_index(whole.shape, every, from))];
              }
        const Truth truth = forward_truth(part, own);
        const Groups places(merge.shape, row);
        for (std::int64_t q = 0; q < groups; ++q) {
          std::size_t number = 0;
          places.for_each(q, [&](std::int64_t i, const Shape&) {
            if (number++ != p) return;
            const auto to = static_cast<std::size_t>(i);
            const auto from = static_cast<std::size_t>(q);
            if (row.centred) parts[Role::part_mean][to] = static_cast<float>(truth.out[Role::mean][from].hi);
            parts[Role::part_stat][to] = static_cast<float>(truth.out[Role::stat][from].hi);
          });
        }
        begin += counts[p];
      }
      const Truth want = forward_truth(whole, x);
      const Truth got = forward_truth(merge, parts);
      for (const Role role : {Role::mean, Role::stat}) {
        ASSERT_EQ(got.out[role].size(), want.out[role].size());
        for (std::size_t q = 0; q < want.out[role].size(); ++q) {
          const Exact& a = got.out[role][q];
          const Exact& b = want.out[role][q];
          EXPECT_LE(std::fabs((a.hi - b.hi) + (a.lo - b.lo)), a.bound + b.bound) << row.name << " " << name_of(role);
        }
      }
    }
}

}  // namespace
}  // namespace normgate
