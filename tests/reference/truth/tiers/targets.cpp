// The same bits on every instruction set that is compiled in and that this CPU
// has: values and certificates.
#include <fmt/format.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <bit>
#include <cfenv>
#if HWY_ARCH_X86_64
#include <xmmintrin.h>
#endif

#include "problems.hpp"

namespace normgate {
namespace {

std::vector<std::int64_t> available_targets() {
  std::vector<std::int64_t> result;
  for (std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1)
    result.push_back(rest & -rest);
  return result;
}

void choose(std::int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }
bool same_bits(const Exact& a, const Exact& b) {
  if (std::isnan(a.hi) && std::isnan(b.hi)) return true;
  return same_bits(a.hi, b.hi) && same_bits(a.lo, b.lo) && same_bits(a.bound, b.bound);
}
void expect_same_bits(const std::vector<Exact>& a, const std::vector<Exact>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(same_bits(a[i], b[i])) << "at " << i << ": " << a[i].hi << " + " << a[i].lo << " within " << a[i].bound
                                       << ", and " << b[i].hi << " + " << b[i].lo << " within " << b[i].bound;
}

// Results and operands, where the machine can.
void flush_subnormals() {
#if HWY_ARCH_X86_64
  _mm_setcsr(_mm_getcsr() | 0x8040U);
#endif
}

class Targets : public testing::Test {
 protected:
  ~Targets() override { choose(0); }  // 0: what the CPU has

  // Compares `truth` of one problem on all targets.
  template <typename Compute>
  void compare(Compute truth) {
    std::optional<Truth> first;
    for (std::size_t t = 0; t < targets_.size() && !HasFailure(); ++t) {
      choose(targets_[t]);
      const std::optional<Truth> got = truth();
      SCOPED_TRACE(hwy::TargetName(targets_[t]));
      if (t == 0) {
        first = got;
        continue;
      }
      ASSERT_EQ(first.has_value(), got.has_value());
      if (!got) return;
      for (std::size_t r = 0; r < role_count; ++r) {
        const Role role = static_cast<Role>(r);
        SCOPED_TRACE(name_of(role));
        expect_same_bits(first->out[role], got->out[role]);
        values_ += got->out[role].size();
      }
      for (std::size_t q = 0; q < got->groups.size(); ++q) {
        EXPECT_TRUE(same_bits(first->groups[q].mean, got->groups[q].mean));
        EXPECT_TRUE(same_bits(first->groups[q].variance, got->groups[q].variance));
        EXPECT_TRUE(same_bits(first->groups[q].rstd, got->groups[q].rstd));
      }
    }
  }
  void compare_forward(const Problem& problem, const Inputs& inputs) {
    SCOPED_TRACE(print(problem));
    compare([&] { return tiers::fast_forward(problem, inputs, Wanted::everything); });
  }

  void compare_backward(const Problem& problem, const Inputs& inputs, SavedUse use) {
    SCOPED_TRACE(print(problem));
    compare([&] { return tiers::fast_backward(problem, inputs, use); });
  }

  const std::vector<std::int64_t> targets_ = available_targets();
  std::size_t values_ = 0;
};

TEST_F(Targets, AreSeveralOnX86) {
  std::string names;
  for (const std::int64_t target : targets_) names += fmt::format(" {}", hwy::TargetName(target));
  fmt::print("targets:{}\n", names);
#if HWY_ARCH_X86
  EXPECT_GE(targets_.size(), 3U);
#endif
}

TEST_F(Targets, GiveTheSameBitsForward) {
  Draw draw(3);
  for (int trial = 0; trial < 1500 && !HasFailure(); ++trial) {
    const Problem problem = draw_problem(draw, draw.coin() ? Phase::forward_training : Phase::forward_inference);
    Inputs inputs = make_inputs(problem);
    spoil_some(draw, inputs);
    compare_forward(problem, inputs);
  }
  // More than one chunk of the sums.
  for (const char* line :
       {"forward_training layer_norm n=1 g=1 k=200003 s=1 kappa=1000",
        "forward_training batch_norm n=3 g=1 k=2 s=70001", "forward_training rms_norm n=1 g=1 k=131073 s=1"}) {
    const Problem problem = problem_of(line);
    compare_forward(problem, make_inputs(problem));
  }
  EXPECT_GT(values_, 1000000U);
}

TEST_F(Targets, GiveTheSameBitsBackward) {
  Draw draw(4);
  for (int trial = 0; trial < 1500 && !HasFailure(); ++trial) {
    const Problem problem =
        draw_problem(draw, draw.below(4) != 0 ? Phase::backward_training : Phase::backward_inference);
    Inputs inputs = make_inputs(problem);
    spoil_some(draw, inputs);
    const SavedUse uses[] = {SavedUse::short_form, SavedUse::textbook, SavedUse::recomputes};
    compare_backward(problem, inputs, problem.from_output ? SavedUse::from_output : uses[draw.below(3)]);
  }
  for (const char* line : {"backward_training layer_norm n=1 g=1 k=200003 s=1 kappa=1000",
                           "backward_training batch_norm n=3 g=1 k=2 s=70001",
                           "backward_training group_norm n=1 g=1 k=2 s=70001 saved=1 "
                           "from_output=1"}) {
    const Problem problem = problem_of(line);
    compare_backward(problem, make_inputs(problem), SavedUse::recomputes);
  }
  EXPECT_GT(values_, 1000000U);
}

// What a kernel in the same process may leave behind changes nothing, and is
// left as it was.
TEST_F(Targets, GiveTheSameBitsInAnyEnvironment) {
  const Problem forward = problem_of("forward_training layer_norm n=3 g=1 k=77 s=1 scale=-60 eps=1e-30");
  const Problem backward = problem_of("backward_training batch_norm n=3 g=1 k=2 s=7 scale=60 kappa=1000");
  const Inputs forward_inputs = make_inputs(forward);
  const Inputs backward_inputs = make_inputs(backward);
  const auto y = tiers::fast_forward(forward, forward_inputs, Wanted::everything);
  const auto dx = tiers::fast_backward(backward, backward_inputs, SavedUse::recomputes);
  ASSERT_TRUE(y.has_value() && dx.has_value());
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(rounding), 0);
    flush_subnormals();
    const auto other_y = tiers::fast_forward(forward, forward_inputs, Wanted::everything);
    const auto other_dx = tiers::fast_backward(backward, backward_inputs, SavedUse::recomputes);
    const int left = std::fegetround();
    std::fesetenv(FE_DFL_ENV);
    EXPECT_EQ(left, rounding);
    expect_same_bits(y->out[Role::y], other_y->out[Role::y]);
    expect_same_bits(dx->out[Role::dx], other_dx->out[Role::dx]);
    expect_same_bits(dx->out[Role::dgamma], other_dx->out[Role::dgamma]);
  }
}

}  // namespace
}  // namespace normgate
