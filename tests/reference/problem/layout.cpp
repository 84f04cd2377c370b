// Strides: worked examples, and that a tensor's elements never overlap nor leave its span.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "tests/reference/problem/random_problem.hpp"

namespace normgate {
namespace {

constexpr AxisSet every_axis{Axis::n, Axis::g, Axis::k, Axis::s};
using Four = std::array<std::int64_t, axis_count>;

TEST(Layout, DefaultIsDenseRowMajor) {
  const Strides strides = strides_of({}, {2, 3, 4, 5}, every_axis);
  EXPECT_EQ(strides.stride, (Four{60, 20, 5, 1}));
  EXPECT_EQ(strides.span, 120);
}

TEST(Layout, ChannelsLast) {
  Layout layout;
  layout.order = {Axis::n, Axis::s, Axis::g, Axis::k};
  const Strides strides = strides_of(layout, {2, 3, 4, 5}, every_axis);
  EXPECT_EQ(strides.stride, (Four{60, 4, 1, 12}));
  EXPECT_EQ(strides.span, 120);
}

TEST(Layout, StepAndPadBelongToTheInnermostAxisWithSeveralElements) {
  Layout layout;
  layout.step = 2;
  layout.pad = 3;
  const Strides rows = strides_of(layout, {4, 1, 10, 1}, every_axis);
  EXPECT_EQ(rows.stride[2], 2);
  EXPECT_EQ(rows.stride[0], 23);
  EXPECT_EQ(rows.span, 3 * 23 + 9 * 2 + 1);
  const Strides planes = strides_of(layout, {2, 1, 3, 10}, every_axis);
  EXPECT_EQ(planes.stride, (Four{69, 69, 23, 2}));
  EXPECT_EQ(print(layout), "NGKS*2+3");
}

TEST(Layout, AxesThatTheRoleLacksHaveStrideZero) {
  const Strides strides = strides_of({}, {2, 3, 4, 5}, {Axis::g, Axis::k});
  EXPECT_EQ(strides.stride, (Four{0, 4, 1, 0}));
  EXPECT_EQ(strides.span, 12);
  const Strides one = strides_of({}, {2, 3, 4, 5}, {});
  EXPECT_EQ(one.stride, Four{});
  EXPECT_EQ(one.span, 1);
}

TEST(Layout, BroadcastAxesHaveStrideZero) {
  Layout layout;
  layout.broadcast = {Axis::s};
  const Strides pooled = strides_of(layout, {2, 3, 4, 5}, every_axis);
  EXPECT_EQ(pooled.stride, (Four{12, 4, 1, 0}));
  EXPECT_EQ(pooled.span, 24);
  EXPECT_EQ(print(layout), "NGKs");
  layout.broadcast = every_axis;
  const Strides one = strides_of(layout, {2, 3, 4, 5}, every_axis);
  EXPECT_EQ(one.stride, Four{});
  EXPECT_EQ(one.span, 1);
  EXPECT_EQ(strides_of(layout, {2, 0, 4, 5}, every_axis).span, 0);
  // Step and pad belong to the innermost axis that has several elements of its own.
  layout.order = {Axis::n, Axis::s, Axis::g, Axis::k};
  layout.broadcast = {Axis::k};
  layout.step = 2;
  layout.pad = 3;
  const Strides spread = strides_of(layout, {2, 3, 4, 5}, every_axis);
  EXPECT_EQ(spread.stride, (Four{45, 2, 0, 9}));
  EXPECT_EQ(spread.span, 45 + 4 * 9 + 2 * 2 + 1);
  EXPECT_EQ(print(layout), "NSGk*2+3");
}

TEST(Layout, EmptyTensorsHaveNoSpan) {
  EXPECT_EQ(strides_of({}, {2, 0, 4, 5}, every_axis).span, 0);
  EXPECT_EQ(strides_of({}, {2, 0, 4, 5}, {Axis::n}).span, 2);
}

RC_GTEST_PROP(Layout, ElementsDoNotOverlapAndFillTheSpan, ()) {
  const Layout layout = testing::random_layout();
  Shape shape;
  for (std::int64_t& extent : shape) extent = testing::between<std::int64_t>(0, 5);
  // With their complements, all sixteen subsets.
  const std::array<AxisSet, 8> half{
      {{}, {Axis::n}, {Axis::g}, {Axis::k}, {Axis::s}, {Axis::n, Axis::g}, {Axis::n, Axis::k}, {Axis::n, Axis::s}}};
  const AxisSet chosen = half[testing::between<std::size_t>(0, 7)];
  const AxisSet axes = testing::coin() ? chosen : chosen.complement();
  const Strides strides = strides_of(layout, shape, axes);
  const Shape kept = restricted(shape, axes);
  std::set<std::int64_t> offsets;
  Shape at{};
  for (at[0] = 0; at[0] < kept[0]; ++at[0])
    for (at[1] = 0; at[1] < kept[1]; ++at[1])
      for (at[2] = 0; at[2] < kept[2]; ++at[2])
        for (at[3] = 0; at[3] < kept[3]; ++at[3]) {
          std::int64_t offset = 0;
          for (std::size_t a = 0; a < axis_count; ++a) offset += at[a] * strides.stride[a];
          RC_ASSERT(offsets.insert(offset).second);
        }
  if (offsets.empty()) {
    RC_ASSERT(strides.span == 0);
  } else {
    RC_ASSERT(*offsets.begin() == 0);
    RC_ASSERT(*offsets.rbegin() + 1 == strides.span);
  }
}

}  // namespace
}  // namespace normgate
