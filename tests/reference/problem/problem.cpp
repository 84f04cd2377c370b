// What a problem means and which problems make sense.
#include "reference/problem/problem.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>

#include "tests/reference/problem/random_problem.hpp"

namespace normgate {
namespace {

Problem parsed(std::string_view line) {
  ProblemOrError result = parse_problem(line);
  EXPECT_TRUE(result.problem) << result.error;
  return result.problem.value_or(Problem{});
}

std::string uses(const Problem& problem) {
  std::string text;
  for (std::size_t i = 0; i < role_count; ++i) {
    const RoleUse use = use_of(problem, static_cast<Role>(i));
    if (!use.present()) continue;
    if (!text.empty()) text += ' ';
    text += name_of(static_cast<Role>(i));
    text += use.read && use.write ? ":rw" : use.read ? ":r" : ":w";
  }
  return text;
}

TEST(Problem, RolesOfEachPhase) {
  EXPECT_EQ(uses(parsed("forward_training layer_norm")), "x:r y:w gamma:r beta:r");
  EXPECT_EQ(uses(parsed("forward_training layer_norm gamma=0 saved=1")), "x:r y:w beta:r mean:w stat:w");
  EXPECT_EQ(uses(parsed("forward_training rms_norm beta=0 saved=1")), "x:r y:w gamma:r stat:w");
  EXPECT_EQ(uses(parsed("forward_training batch_norm running=1")),
            "x:r y:w gamma:r beta:r running_mean:rw running_var:rw");
  EXPECT_EQ(uses(parsed("forward_training batch_norm running=1 convention=caffe")),
            "x:r y:w gamma:r beta:r running_mean:rw running_var:rw running_weight:rw");
  EXPECT_EQ(uses(parsed("forward_inference batch_norm given=running convention=caffe")),
            "x:r y:w gamma:r beta:r running_mean:r running_var:r running_weight:r");
  EXPECT_EQ(uses(parsed("forward_inference instance_norm given=running")),
            "x:r y:w gamma:r beta:r running_mean:r running_var:r");
  EXPECT_EQ(uses(parsed("forward_inference group_norm given=saved")), "x:r y:w gamma:r beta:r mean:r stat:r");
  EXPECT_EQ(uses(parsed("forward_inference rms_norm given=saved")), "x:r y:w gamma:r beta:r stat:r");
}

TEST(Problem, RolesOfBackwardTraining) {
  EXPECT_EQ(uses(parsed("backward_training layer_norm")), "x:r gamma:r dy:r dx:w dgamma:w dbeta:w");
  EXPECT_EQ(uses(parsed("backward_training layer_norm saved=1")),
            "x:r gamma:r mean:r stat:r dy:r dx:w dgamma:w dbeta:w");
  EXPECT_EQ(uses(parsed("backward_training rms_norm saved=1 beta=0")), "x:r gamma:r stat:r dy:r dx:w dgamma:w");
  EXPECT_EQ(uses(parsed("backward_training batch_norm gamma=0")), "x:r dy:r dx:w dbeta:w");
  EXPECT_EQ(uses(parsed("backward_training batch_norm gamma=0 beta=0 saved=1")), "x:r mean:r stat:r dy:r dx:w");
  EXPECT_EQ(uses(parsed("backward_training layer_norm saved=1 handed=shifted cotangent=unit in_place=1")),
            "x:r gamma:r mean:r stat:r dy:r dx:w dgamma:w dbeta:w");
  // From the output: y and beta in place of x and mean.
  EXPECT_EQ(uses(parsed("backward_training layer_norm saved=1 from_output=1")),
            "y:r gamma:r beta:r stat:r dy:r dx:w dgamma:w dbeta:w");
  EXPECT_EQ(uses(parsed("backward_training rms_norm saved=1 from_output=1 beta=0")),
            "y:r gamma:r stat:r dy:r dx:w dgamma:w");
  EXPECT_EQ(uses(parsed("backward_training batch_norm saved=1 from_output=1 gamma=0")),
            "y:r beta:r stat:r dy:r dx:w dbeta:w");
  // The old gradients that are added to.
  EXPECT_EQ(uses(parsed("backward_training layer_norm convention=pytorch,gradients:accumulate")),
            "x:r gamma:r dy:r dx:w dgamma:rw dbeta:rw");
  EXPECT_EQ(uses(parsed("backward_training layer_norm gamma=0 convention=pytorch,gradients:accumulate")),
            "x:r dy:r dx:w dbeta:rw");
  EXPECT_EQ(uses(parsed("forward_training layer_norm convention=pytorch,gradients:accumulate")),
            "x:r y:w gamma:r beta:r");
}

TEST(Problem, RolesOfBackwardInference) {
  EXPECT_EQ(uses(parsed("backward_inference batch_norm given=running")),
            "x:r gamma:r running_mean:r running_var:r dy:r dx:w dgamma:w dbeta:w");
  EXPECT_EQ(uses(parsed("backward_inference instance_norm given=running convention=caffe beta=0")),
            "x:r gamma:r running_mean:r running_var:r running_weight:r dy:r dx:w dgamma:w");
  EXPECT_EQ(uses(parsed("backward_inference group_norm given=saved gamma=0")), "x:r mean:r stat:r dy:r dx:w dbeta:w");
  EXPECT_EQ(uses(parsed("backward_inference rms_norm given=saved convention=pytorch,gradients:accumulate")),
            "x:r gamma:r stat:r dy:r dx:w dgamma:rw dbeta:rw");
}

TEST(Problem, WhatIsOverwrittenInPlace) {
  EXPECT_EQ(in_place_output(Phase::forward_training), Role::y);
  EXPECT_EQ(in_place_input(Phase::forward_inference), Role::x);
  EXPECT_EQ(in_place_output(Phase::backward_training), Role::dx);
  EXPECT_EQ(in_place_input(Phase::backward_inference), Role::dy);
}

TEST(Problem, GroupsOfEachRow) {
  const auto sizes = [](std::string_view variant) {
    const Problem problem = parsed("forward_training " + std::string(variant) + " n=2 g=3 k=5 s=7");
    return std::pair(group_size(problem), group_count(problem));
  };
  EXPECT_EQ(sizes("batch_norm"), std::pair(std::int64_t{14}, std::int64_t{15}));
  EXPECT_EQ(sizes("layer_norm"), std::pair(std::int64_t{15}, std::int64_t{14}));
  EXPECT_EQ(sizes("group_norm"), std::pair(std::int64_t{35}, std::int64_t{6}));
  EXPECT_EQ(sizes("instance_norm"), std::pair(std::int64_t{7}, std::int64_t{30}));
  EXPECT_EQ(sizes("rms_norm"), std::pair(std::int64_t{15}, std::int64_t{14}));
  EXPECT_EQ(group_index(parsed("forward_training group_norm n=2 g=3 k=5 s=7"), {1, 2, 4, 6}), 5);
}

RC_GTEST_PROP(Problem, RandomOnesAreValid, ()) { RC_ASSERT(check(testing::random_problem()) == ""); }

TEST(Problem, EachThingThatIsWrongIsNamed) {
  // The line of a wrong problem, the field that the sentence starts with, and what it says is right.
  struct Wrong {
    std::string_view line, field, right;
  };
  const Wrong cases[] = {
      {"forward_training layer_norm n=-1", "n ", "from 0"},
      {"forward_training layer_norm s=1099511627776", "s ", "2^40"},
      {"forward_training layer_norm n=1048576 k=1048576", "n·g·k·s", "2^40"},
      {"forward_training layer_norm n=0 g=1099511627775 k=1099511627775 s=1099511627775", "n·g·k·s", "2^40"},
      {"forward_training layer_norm given=saved", "given", "none"},
      {"forward_training layer_norm running=1", "running", "no running statistics"},
      {"forward_inference layer_norm", "given", "saved"},
      {"forward_inference batch_norm", "given", "running or saved"},
      {"forward_inference layer_norm given=running", "given", "no running statistics"},
      {"forward_inference batch_norm given=running saved=1", "saved", "0"},
      {"forward_inference batch_norm given=running running=1", "running", "given=running"},
      {"forward_training layer_norm eps=-1e-5", "eps", "2^-126"},
      {"forward_training layer_norm eps=nan", "eps", "2^-126"},
      {"forward_training layer_norm eps=inf", "eps", "2^126"},
      {"forward_training layer_norm eps=1e-40", "eps", "2^-126"},
      {"forward_training layer_norm eps=1.000000000e-5", "eps", "the nearest is 1e-05"},
      {"forward_training layer_norm momentum=1.5", "momentum", "from 0 to 1"},
      {"forward_training layer_norm momentum=nan", "momentum", "from 0 to 1"},
      {"forward_training layer_norm momentum=0x1.999999999999ap-4", "momentum", "the nearest is 0.1"},
      {"forward_training layer_norm step=0", "step", "from 1"},
      {"forward_training layer_norm kappa=-1", "kappa", "from 0"},
      {"forward_training layer_norm kappa=inf", "kappa", "2^60"},
      {"forward_training layer_norm scale=61", "scale", "from -60 to 60"},
      {"forward_training layer_norm level=2", "level", "odd"},
      {"forward_training layer_norm level=33", "level", "31"},
      {"forward_training layer_norm misalign=64", "misalign", "63"},
      {"forward_training layer_norm threads=0", "threads", "from 1"},
      {"forward_training layer_norm in_place=1 y.layout=NSGK", "in_place", "one layout for both"},
      {"forward_training layer_norm x.layout=NGKS*0", "x.layout", "1 to 1024"},
      {"forward_training layer_norm x.layout=NGKS*1025", "x.layout", "1 to 1024"},
      {"forward_training layer_norm gamma.layout=NGKS+1048577", "gamma.layout", "2^20"},
      {"forward_training layer_norm k=3 values=x:[1,2]", "values", "right is 3"},
      {"forward_training layer_norm values=y:[1]", "values", "does not read"},
      {"forward_training layer_norm values=dy:[1]", "values", "does not read"},
      {"forward_training layer_norm from_output=1 saved=1", "from_output", "0 outside backward_training"},
      {"forward_training layer_norm handed=shifted saved=1", "handed", "backward_training is not handed"},
      {"forward_training layer_norm cotangent=ones", "cotangent is ones",
       "random in forward_training, which has no dy"},
      {"forward_training layer_norm x.layout=nGKS", "x.layout is nGKS", "only dy of a backward phase"},
      {"forward_training layer_norm dy.layout=ngks", "dy.layout", "only dy of a backward phase"},
      {"backward_training layer_norm given=saved", "given is saved", "backward_training, which is about"},
      {"backward_training batch_norm running=1", "running", "gradients do not depend on running statistics"},
      {"backward_training layer_norm from_output=1", "from_output", "only with saved=1"},
      {"backward_training layer_norm handed=shifted", "handed is shifted", "saved=1"},
      {"backward_training layer_norm saved=1 from_output=1 values=x:[1]", "values",
       "x, which this problem does not read"},
      {"backward_training layer_norm saved=1 from_output=1 values=gamma:[0]", "values has a 0 in gamma", "not 0."},
      {"backward_training layer_norm saved=1 from_output=1 values=gamma:[-0]", "values has a 0 in gamma", "not 0."},
      {"backward_training layer_norm saved=1 from_output=1 values=gamma:[-1] convention=pytorch,gamma:plus_one",
       "values has a -1 in gamma", "not 0 when 1 is added."},
      {"backward_training layer_norm values=beta:[1]", "values", "does not read"},
      {"backward_training layer_norm values=mean:[1]", "values", "does not read"},
      {"backward_training layer_norm values=dgamma:[1]", "values", "does not read"},
      {"backward_training layer_norm in_place=1 dy.layout=NSGK", "in_place is 1 while dy.layout is NSGK and dx.layout",
       "one layout for both"},
      {"backward_training layer_norm dy.layout=NGKs", "dy.layout is NGKs", "any with cotangent=ones"},
      {"backward_training layer_norm dy.layout=NGks cotangent=pooled", "dy.layout is NGks", "s with cotangent=pooled"},
      {"backward_training layer_norm dy.layout=ngks cotangent=unit", "dy.layout", "along which dy is constant"},
      {"backward_training layer_norm dx.layout=ngks cotangent=ones", "dx.layout", "only dy of a backward phase"},
      {"backward_training layer_norm dy.layout=ngks dx.layout=ngks cotangent=ones in_place=1", "d", "capital letters"},
      {"backward_training layer_norm dy.layout=ngks cotangent=ones profile=special", "dy.layout", "profile special"},
      {"backward_training layer_norm dy.layout=ngks cotangent=ones values=dy:[1]", "dy.layout", "explicit values"},
      {"statistics layer_norm saved=1", "saved", "always writes statistics"},
      {"statistics batch_norm running=1", "running", "updates no state"},
      {"merge_statistics batch_norm given=running", "given is running", "none in merge_statistics"},
      {"merge_statistics layer_norm in_place=1", "in_place", "has no y"},
      {"merge_statistics batch_norm n=536870912", "the number of parts is 536870912", "2^28"},
      {"merge_statistics batch_norm n=2 values=part_count:[1,2.5]", "values has a 2.5 in part_count",
       "an integer from 0 to 2^24"},
      {"merge_statistics batch_norm n=2 values=part_count:[1,16777218]", "values has a 16777218 in part_count", "2^24"},
      {"merge_statistics batch_norm n=2 values=part_count:[1,nan]", "values has a nan in part_count", "2^24"},
      {"merge_statistics batch_norm n=2 values=part_count:[1]", "values has 1 numbers for part_count", "right is 2"},
      {"merge_statistics rms_norm values=part_mean:[1]", "values", "does not read"},
      {"merge_statistics batch_norm values=x:[1]", "values", "does not read"},
      {"statistics batch_norm values=part_count:[1]", "values", "does not read"},
      {"backward_inference layer_norm", "given is none", "saved in backward_inference"},
      {"backward_inference batch_norm", "given is none", "running or saved in backward_inference"},
      {"backward_inference rms_norm given=running", "given is running", "no running statistics"},
      {"backward_inference layer_norm given=saved saved=1", "saved", "given=saved reads"},
      {"backward_inference layer_norm given=saved from_output=1", "from_output", "0 outside backward_training"},
      {"backward_inference layer_norm given=saved handed=shifted", "handed", "saved=1"},
  };
  for (const Wrong& each : cases) {
    const ProblemOrError result = parse_problem(each.line);
    ASSERT_TRUE(result.problem) << result.error;
    const std::string sentence = check(*result.problem);
    EXPECT_TRUE(sentence.starts_with(each.field)) << each.line << "\n" << sentence;
    EXPECT_NE(sentence.find(each.right), std::string::npos) << each.line << "\n" << sentence;
    EXPECT_TRUE(sentence.ends_with(".")) << sentence;
  }
}

TEST(Problem, OtherScalarsWhereTheyAreAskedFor) {
  EXPECT_EQ(check(parsed("forward_training layer_norm eps=0x1.4f8b588e368f1p-17 profile=parameter_rounding")), "");
  EXPECT_EQ(check(parsed("forward_training layer_norm eps=0x1.4f8b588e368f1p-17 convention=pytorch,scalars:float64")),
            "");
}

TEST(Problem, OrderThatIsNoPermutationIsNamed) {
  Problem problem;
  problem.layout[Role::beta].order = {Axis::n, Axis::n, Axis::k, Axis::s};
  EXPECT_TRUE(check(problem).starts_with("beta.layout is NNKS")) << check(problem);
}

}  // namespace
}  // namespace normgate
