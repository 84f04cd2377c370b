// The problem line: printing and parsing are inverse, errors name the field, and no input does harm.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <clocale>
#include <cmath>
#include <string>

#include "tests/reference/problem/random_problem.hpp"

namespace normgate {
namespace {

TEST(Line, PrintsWhatDiffersFromTheDefaults) {
  EXPECT_EQ(print(Problem{}), "forward_training layer_norm n=1 g=1 k=1 s=1 key=0x0");
  Problem problem;
  problem.shape = {4, 1, 768, 1};
  problem.kappa = 1000;
  problem.key = 0x1f2e;
  problem.layout[Role::x].order = {Axis::n, Axis::s, Axis::g, Axis::k};
  problem.layout[Role::x].step = 2;
  problem.layout[Role::x].pad = 3;
  problem.convention.eps = EpsPlacement::outside;
  EXPECT_EQ(print(problem),
            "forward_training layer_norm n=4 g=1 k=768 s=1 x.layout=NSGK*2+3 convention=pytorch,eps:outside kappa=1000 "
            "key=0x1f2e");
}

TEST(Line, PrintsTheFieldsOfBackwardPhases) {
  Problem problem;
  problem.phase = Phase::backward_training;
  problem.shape = {2, 1, 3, 4};
  problem.saved = problem.from_output = problem.in_place = true;
  problem.handed = Handed::shifted;
  problem.cotangent = Cotangent::unit;
  EXPECT_EQ(print(problem),
            "backward_training layer_norm n=2 g=1 k=3 s=4 saved=1 from_output=1 handed=shifted cotangent=unit "
            "in_place=1 key=0x0");
  problem = Problem{};
  problem.phase = Phase::backward_inference;
  problem.given = Given::saved;
  problem.cotangent = Cotangent::ones;
  problem.layout[Role::dy].broadcast = {Axis::n, Axis::g, Axis::k, Axis::s};
  problem.layout[Role::dx].order = {Axis::n, Axis::s, Axis::g, Axis::k};
  EXPECT_EQ(print(problem),
            "backward_inference layer_norm n=1 g=1 k=1 s=1 dy.layout=ngks dx.layout=NSGK given=saved cotangent=ones "
            "key=0x0");
}

TEST(Line, LowerCaseAxesAreBroadcast) {
  const ProblemOrError parsed = parse_problem("backward_training layer_norm dy.layout=nSgK*2+3 key=0x0");
  ASSERT_TRUE(parsed.problem) << parsed.error;
  const Layout& layout = parsed.problem->layout[Role::dy];
  EXPECT_EQ(layout.order, (std::array{Axis::n, Axis::s, Axis::g, Axis::k}));
  EXPECT_EQ(layout.broadcast, (AxisSet{Axis::n, Axis::g}));
  EXPECT_EQ(layout.step, 2);
  EXPECT_EQ(layout.pad, 3);
  EXPECT_EQ(print(layout), "nSgK*2+3");
}

RC_GTEST_PROP(Line, ParseUndoesPrint, ()) {
  const Problem problem = testing::random_problem();
  const std::string line = print(problem);
  const ProblemOrError parsed = parse_problem(line);
  RC_ASSERT(parsed.error == "");
  RC_ASSERT(parsed.problem.has_value());
  RC_ASSERT(*parsed.problem == problem);
  RC_ASSERT(print(*parsed.problem) == line);
}

TEST(Line, SpecialValuesComeBack) {
  const std::string line =
      "forward_training layer_norm n=1 g=1 k=6 s=1 values=x:[nan,inf,-inf,-0,1e-45,3.4028235e+38];gamma:[1,2,3,4,5,6] "
      "key=0x0";
  const ProblemOrError parsed = parse_problem(line);
  ASSERT_TRUE(parsed.problem) << parsed.error;
  const std::vector<float>& x = parsed.problem->values[Role::x];
  ASSERT_EQ(x.size(), 6U);
  EXPECT_TRUE(std::isnan(x[0]));
  EXPECT_TRUE(std::signbit(x[3]));
  EXPECT_EQ(x[4], std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(print(*parsed.problem), line);
}

TEST(Line, FieldsInAnyOrderAndBlanks) {
  const ProblemOrError a = parse_problem("  forward_inference\tbatch_norm key=7 given=running  k=3\n");
  ASSERT_TRUE(a.problem) << a.error;
  EXPECT_EQ(print(*a.problem), "forward_inference batch_norm n=1 g=1 k=3 s=1 given=running key=0x7");
}

TEST(Line, ShortDecimalsMeanTheNearestFloat) {
  const auto eps = [](std::string_view text) {
    const ProblemOrError parsed = parse_problem("forward_training layer_norm eps=" + std::string(text));
    EXPECT_TRUE(parsed.problem) << parsed.error;
    return parsed.problem ? parsed.problem->eps : -1;
  };
  EXPECT_EQ(eps("1e-5"), static_cast<double>(1e-5F));
  EXPECT_EQ(eps("0.00001"), static_cast<double>(1e-5F));
  EXPECT_EQ(eps("0x1.4f8b588e368f1p-17"), 1e-5);
  EXPECT_EQ(eps("1.0000000001e-5"), 1.0000000001e-5);
  EXPECT_EQ(eps("1e-300"), 1e-300);  // no float32 is near; check() has a sentence for it
  // A double that looks like a float's decimal is printed exactly.
  Problem problem;
  problem.eps = 1e-5;
  EXPECT_NE(print(problem).find("eps=0x1.4f8b588e368f1p-17"), std::string::npos) << print(problem);
}

TEST(Line, ErrorsNameTheFieldItsValueAndWhatIsRight) {
  struct Wrong {
    std::string_view line, names, right;
  };
  const std::string start = "forward_training layer_norm ";
  const Wrong cases[] = {
      {"", "phase", "forward_training"},
      {"forward layer_norm", "phase (the first word) is 'forward'", "forward_inference"},
      {"forward_training", "variant", "batch_norm"},
      {"forward_training layernorm", "variant (the second word) is 'layernorm'", "layer_norm"},
      {"forward_training layer_norm n", "n has no value", "n="},
      {"forward_training layer_norm n=", "n is ''", "integer"},
      {"forward_training layer_norm n=4.5", "n is '4.5'", "integer"},
      {"forward_training layer_norm n=99999999999999999999", "n is '99999999999999999999'", "2^40"},
      {"forward_training layer_norm n=4 n=4", "n is given twice", "once"},
      {"forward_training layer_norm m=4", "'m'", "the nearest is"},
      {"forward_training layer_norm epsilon=1", "'epsilon'", "the nearest is eps"},
      {"forward_training layer_norm runing=1", "'runing'", "the nearest is running"},
      {"forward_training layer_norm x.layuot=NGKS", "'x.layuot'", "the nearest is x.layout"},
      {"forward_training layer_norm eps=1e999", "eps is '1e999'", "range of a double"},
      {"forward_training layer_norm eps=1e-999", "eps is '1e-999'", "range of a double"},
      {"forward_training layer_norm eps=0x1p99999", "eps is '0x1p99999'", "range of a double"},
      {"forward_training layer_norm eps=1,5", "eps is '1,5'", "like 0.001"},
      {"forward_training layer_norm eps=--1", "eps is '--1'", "a number"},
      {"forward_training layer_norm eps=0x-1", "eps is '0x-1'", "a number"},
      {"forward_training layer_norm eps=nan(1)", "eps is 'nan(1)'", "a number"},
      {"forward_training layer_norm gamma=yes", "gamma is 'yes'", "0 or 1"},
      {"forward_training layer_norm given=run", "given is 'run'", "none, running or saved"},
      {"forward_training layer_norm profile=need", "profile is 'need'", "the nearest is needle"},
      {"backward_training layer_norm handed=exact", "handed is 'exact'", "nearest or shifted"},
      {"backward_training layer_norm cotangent=one", "cotangent is 'one'", "the nearest is ones"},
      {"backward_training layer_norm cotangent=0", "cotangent is '0'",
       "random, ones, pooled, normalized, mixed or unit"},
      {"backward_training layer_norm from_output=yes", "from_output is 'yes'", "0 or 1"},
      {"backward_training layer_norm from_outputs=1", "'from_outputs'", "the nearest is from_output"},
      {"backward_training layer_norm dy.layout=nNGK", "dy.layout is 'nNGK'", "lower case: broadcast"},
      {"backward_training layer_norm dy.layout=ngk", "dy.layout is 'ngk'", "NSGK*2+3"},
      {"backward layer_norm", "phase (the first word) is 'backward'",
       "backward_inference, statistics, merge_statistics or double_backward"},
      {"forward_training layer_norm fence=top", "fence is 'top'", "right or left"},
      {"forward_training layer_norm threads=99999999999", "threads is '99999999999'", "2147483647"},
      {"forward_training layer_norm key=0x11112222333344445", "key is '0x11112222333344445'", "16 digits"},
      {"forward_training layer_norm key=-1", "key is '-1'", "hexadecimal"},
      {"forward_training layer_norm convention=torch", "convention", "pytorch"},
      {"forward_training layer_norm x.layout=NCHW", "x.layout is 'NCHW'", "NSGK*2+3"},
      {"forward_training layer_norm x.layout=NNKS", "x.layout is 'NNKS'", "NSGK*2+3"},
      {"forward_training layer_norm x.layout=NGKS*", "x.layout", "NSGK*2+3"},
      {"forward_training layer_norm x.layout=NGKS+2*3", "x.layout", "NSGK*2+3"},
      {"forward_training layer_norm values=x:[1,,2]", "values", "number 2 of x"},
      {"forward_training layer_norm values=x:[1e39]", "values", "range of float32"},
      {"forward_training layer_norm values=z:[1]", "values", "'z'"},
      {"forward_training layer_norm values=x:[1];x:[1]", "values", "x has two"},
      {"forward_training layer_norm values=x:1", "values", "x:[1,2.5,nan]"},
      {"forward_training layer_norm values=x:[1]gamma:[2]", "values", "x:[1,2.5,nan]"},
      {"forward_training layer_norm values=]x:[", "values", "x:[1,2.5,nan]"},
  };
  for (const Wrong& each : cases) {
    const ProblemOrError parsed = parse_problem(each.line);
    EXPECT_FALSE(parsed.problem) << each.line;
    EXPECT_NE(parsed.error.find(each.names), std::string::npos) << each.line << "\n" << parsed.error;
    EXPECT_NE(parsed.error.find(each.right), std::string::npos) << each.line << "\n" << parsed.error;
  }
}

// Either a problem or a sentence, never both nor neither, and the sentence is printable and short.
void survive(std::string_view line) {
  const ProblemOrError parsed = parse_problem(line);
  RC_ASSERT(parsed.problem.has_value() == parsed.error.empty());
  RC_ASSERT(parsed.error.size() < 1500);
  for (const char c : parsed.error) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20);
  if (!parsed.problem) return;
  static_cast<void>(check(*parsed.problem));
  const std::string text = print(*parsed.problem);
  const ProblemOrError again = parse_problem(text);
  RC_ASSERT(again.problem.has_value());
  RC_ASSERT(print(*again.problem) == text);
}

RC_GTEST_PROP(Line, SurvivesRandomBytes, ()) {
  const std::string tail = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
  survive(tail);
  survive("forward_training layer_norm " + tail);
  survive("forward_training layer_norm values=x:[" + tail);
  survive("forward_training layer_norm convention=" + tail);
  survive("forward_training layer_norm x.layout=" + tail);
  survive("backward_training layer_norm dy.layout=" + tail);
  survive("backward_training layer_norm cotangent=" + tail);
}

RC_GTEST_PROP(Line, SurvivesDamagedLines, ()) {
  std::string line = print(testing::random_problem());
  const int edits = testing::between(1, 4);
  for (int i = 0; i < edits && !line.empty(); ++i) {
    const auto at = testing::between<std::size_t>(0, line.size() - 1);
    switch (testing::between(0, 3)) {
      case 0:
        line.erase(at, testing::between<std::size_t>(1, 5));
        break;
      case 1:
        line[at] = *rc::gen::elementOf(std::string("=,:;[]*+-.0x9eEpnNaif \t"));
        break;
      case 2:
        line.insert(at, line.substr(testing::between<std::size_t>(0, line.size() - 1), 8));
        break;
      default:
        line[at] = *rc::gen::arbitrary<char>();
        break;
    }
  }
  survive(line);
}

TEST(Line, SurvivesHugeInput) {
  const std::string start = "forward_training layer_norm ";
  for (const std::string& huge :
       {std::string(1 << 20, '\0'), std::string(1 << 20, 'a'), std::string(1 << 20, '='), std::string(1 << 20, '1'),
        "eps=" + std::string(1 << 20, '9'), "eps=0." + std::string(1 << 20, '0') + "1",
        "eps=0x" + std::string(1 << 20, 'f') + "p-9", "values=x:[" + std::string(1 << 20, ','),
        "values=" + std::string(1 << 20, '['), "convention=" + std::string(1 << 20, ','),
        "convention=pytorch" + std::string(1 << 20, ',')}) {
    EXPECT_FALSE(parse_problem(huge).problem);
    EXPECT_FALSE(parse_problem(start + huge).problem) << huge.substr(0, 20);
  }
}

TEST(Line, NumbersAreShort) {
  EXPECT_EQ(shortest(static_cast<double>(1e-5F)), "1e-05");
  EXPECT_EQ(shortest(static_cast<double>(0.1F)), "0.1");
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(shortest(-0.0), "-0");
  EXPECT_EQ(shortest(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(shortest(-std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(shortest(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(hexfloat(1), "0x1p+0");
  EXPECT_EQ(hexfloat(-0.1), "-0x1.999999999999ap-4");
  EXPECT_EQ(hexfloat(-0.0), "-0x0p+0");
  EXPECT_EQ(hexfloat(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Line, DoesNotDependOnTheLocale) {
  Problem problem;
  problem.eps = 0.25;
  const std::string before = print(problem);
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"}) std::setlocale(LC_ALL, name);
  EXPECT_EQ(print(problem), before);
  const ProblemOrError parsed = parse_problem(before);
  std::setlocale(LC_ALL, "C");
  ASSERT_TRUE(parsed.problem) << parsed.error;
  EXPECT_EQ(parsed.problem->eps, 0.25);
}

}  // namespace
}  // namespace normgate
