// The variant table against the table of the C ABI's header, and names.
#include "reference/problem/variant.hpp"

#include <gtest/gtest.h>

#include "kernels/abi/normgate.h"

namespace normgate {
namespace {

TEST(Variant, RowsAreThoseOfTheAlgebra) {
  const AxisSet channel{Axis::g, Axis::k};
  struct Expected {
    std::int32_t number;
    std::string_view name;
    AxisSet reduced;
    bool centred;
    AxisSet running;
  };
  const std::array<Expected, 5> expected{{
      {NG_BATCH_NORM, "batch_norm", {Axis::n, Axis::s}, true, channel},
      {NG_LAYER_NORM, "layer_norm", channel, true, {}},
      {NG_GROUP_NORM, "group_norm", {Axis::k, Axis::s}, true, {}},
      {NG_INSTANCE_NORM, "instance_norm", {Axis::s}, true, channel},
      {NG_RMS_NORM, "rms_norm", channel, false, {}},
  }};
  ASSERT_EQ(variant_table().size(), expected.size());
  for (const Expected& each : expected) {
    const VariantRow& row = row_of(static_cast<Variant>(each.number));
    EXPECT_EQ(row.name, each.name);
    EXPECT_TRUE(row.reduced == each.reduced) << row.name;
    EXPECT_TRUE(row.affine == channel) << row.name;
    EXPECT_EQ(row.centred, each.centred) << row.name;
    EXPECT_TRUE(row.running == each.running) << row.name;
    EXPECT_EQ(variant_named(each.name), row.variant);
  }
  EXPECT_EQ(variant_named("layernorm"), std::nullopt);
}

TEST(Variant, RolesHaveTheNumbersOfTheAbi) {
  EXPECT_EQ(role_named("x"), static_cast<Role>(NG_X));
  EXPECT_EQ(role_named("stat"), static_cast<Role>(NG_STAT));
  EXPECT_EQ(role_named("running_mean"), static_cast<Role>(NG_RUNNING_MEAN));
  EXPECT_EQ(role_named("running_weight"), static_cast<Role>(NG_RUNNING_WEIGHT));
  EXPECT_EQ(role_named("dbeta"), static_cast<Role>(NG_DBETA));
  EXPECT_EQ(role_named("reserve"), static_cast<Role>(NG_RESERVE));
  EXPECT_EQ(role_named("part_mean"), static_cast<Role>(NG_PART_MEAN));
  EXPECT_EQ(role_named("part_stat"), static_cast<Role>(NG_PART_STAT));
  EXPECT_EQ(role_named("part_count"), static_cast<Role>(NG_PART_COUNT));
  EXPECT_EQ(role_named("ddx"), static_cast<Role>(NG_DDX));
  EXPECT_EQ(role_named("ddgamma"), static_cast<Role>(NG_DDGAMMA));
  EXPECT_EQ(role_named("ddbeta"), static_cast<Role>(NG_DDBETA));
  EXPECT_EQ(role_named("ddy"), static_cast<Role>(NG_DDY));
  EXPECT_EQ(role_named("weight"), std::nullopt);
  for (std::size_t i = 0; i < role_count; ++i)
    EXPECT_EQ(role_named(name_of(static_cast<Role>(i))), static_cast<Role>(i));
}

TEST(Variant, PhasesHaveTheNumbersOfTheAbi) {
  EXPECT_EQ(phase_named("forward_training"), static_cast<Phase>(NG_FORWARD_TRAINING));
  EXPECT_EQ(phase_named("forward_inference"), static_cast<Phase>(NG_FORWARD_INFERENCE));
  EXPECT_EQ(phase_named("backward_training"), static_cast<Phase>(NG_BACKWARD_TRAINING));
  EXPECT_EQ(phase_named("backward_inference"), static_cast<Phase>(NG_BACKWARD_INFERENCE));
  EXPECT_EQ(phase_named("statistics"), static_cast<Phase>(NG_STATISTICS));
  EXPECT_EQ(phase_named("merge_statistics"), static_cast<Phase>(NG_MERGE_STATISTICS));
  EXPECT_EQ(phase_named("double_backward"), static_cast<Phase>(NG_DOUBLE_BACKWARD));
  EXPECT_EQ(phase_named("training"), std::nullopt);
  EXPECT_EQ(name_of(Phase::forward_inference), "forward_inference");
}

TEST(Variant, StatisticsHaveTheAxesThatAreNotReduced) {
  for (const VariantRow& row : variant_table()) {
    for (const Role role : {Role::mean, Role::stat, Role::mean_lo, Role::stat_lo})
      EXPECT_TRUE(axes_of(role, row) == row.reduced.complement()) << row.name << name_of(role);
    for (const Role role : {Role::gamma, Role::beta, Role::dgamma, Role::dbeta, Role::ddgamma, Role::ddbeta})
      EXPECT_TRUE(axes_of(role, row) == row.affine) << row.name << name_of(role);
    for (const Role role : {Role::x, Role::y, Role::dx, Role::dy, Role::ddx, Role::ddy})
      EXPECT_TRUE(axes_of(role, row).complement().empty()) << row.name << name_of(role);
    EXPECT_TRUE(axes_of(Role::running_var, row) == row.running) << row.name;
    for (const Role role : {Role::part_mean, Role::part_stat})
      EXPECT_TRUE(axes_of(role, row).complement().empty()) << row.name << name_of(role);
    EXPECT_TRUE(axes_of(Role::part_count, row) == row.reduced) << row.name;
    EXPECT_TRUE(axes_of(Role::running_weight, row).empty()) << row.name;
  }
}

}  // namespace
}  // namespace normgate
