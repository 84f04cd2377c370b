// The range that is claimed: sums of moduli and of squares up to 2^127 fit, and subnormal numbers are kept, or flushed
// where that is declared. Within it y and the statistics lie within their bounds, whose underflow terms say what is
// lost below 2^-126 (2^-150 an operation where subnormals are kept, 2^-126 where they are flushed). Outside, where Σ|x|
// or Σd² exceeds 2^127, nothing is judged but that the kernel comes back and touches nothing that is not its own.
//
// Data keep a factor of 4 to the limit on both sides: with n elements of scale s, |d| <= 2^s 12 and Σd² is about
// n 4^s, at most 144 n 4^s < 2^125 for s = (117 - log2 n)/2; beyond the limit 4^s alone is above 2^129. Small data are
// of any size down to the smallest subnormal, with an eps that leaves y where it can be told from 0.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

// Explicit data are printed in the line.
constexpr std::int64_t most_explicit = 70;
constexpr std::uint64_t stream_of_keys = 0x5A46;

bool applies(const Subject& subject) { return is_forward(subject.phase); }

std::int32_t log2_above(std::int64_t n) {
  return static_cast<std::int32_t>(std::bit_width(static_cast<std::uint64_t>(n - 1)));
}

// Deviations and means near the largest numbers that the claim covers.
void add_large(Planner& planner, std::int64_t length, std::size_t i) {
  constexpr std::array deviating{Profile::conditioned, Profile::drift, Profile::conditioned};
  constexpr std::array eps_values{1e-5F, 0x1p126F, 1.0F, 0x1p100F};
  const std::int32_t log2_n = log2_above(length);
  Recipe recipe;
  recipe.length = length;
  recipe.layouts = i % 3 == 1;
  recipe.eps = static_cast<double>(eps_values[i % eps_values.size()]);
  recipe.profile = deviating[i % deviating.size()];
  recipe.kappa = i % 2 == 0 ? 0 : 1;
  recipe.scale = (117 - log2_n) / 2;
  planner.add(recipe);
  // A mean whose square is beyond float32, and no deviation but what the mean's rounding makes: n δ² <= 2^127 with
  // δ about n 2^-24 |mean|. (Constants are 2^10 times what kappa says.)
  recipe.profile = i % 2 == 0 ? Profile::constant : Profile::near_constant;
  recipe.scale = 40;
  recipe.kappa = std::ldexp(1.0, (i % 2 == 0 ? 30 : 40) - 3 * log2_n / 2);
  recipe.eps = static_cast<double>(1e-3F);
  planner.add(recipe);
}

// Data farther out than a problem's scale goes, as explicit values: those of scale 0, times 2^exponent.
void add_scaled(Planner& planner, const Subject& subject, std::int64_t length, std::int32_t exponent, float eps,
                std::uint64_t key) {
  Problem problem;
  problem.variant = subject.row.variant;
  problem.shape = shape_with(subject.row, length, 1 + static_cast<std::int64_t>(key % 3), key >> 3U);
  problem.kappa = key % 2 == 0 ? 0 : 1;
  problem.key = key;
  problem.values[Role::x] = make_inputs(problem)[Role::x];
  for (float& x : problem.values[Role::x]) x = std::ldexp(x, exponent);
  problem.eps = static_cast<double>(eps);
  problem.gamma = key % 5 != 0;
  problem.beta = exponent > 0;  // would hide a small y
  problem.saved = problem.running = true;
  planner.add(problem);
}

// Variances of eps' size and below where eps is the smallest there is; inputs and outputs that are subnormal.
void add_small(Planner& planner, const Subject& subject, std::int64_t length, std::size_t i, std::uint64_t key) {
  struct Small {
    std::int32_t scale;
    float eps;
  };
  constexpr Small small[] = {{-63, 0x1p-126F},  {-130, 1.0F},    {-140, 0x1p-126F}, {-126, 1e-3F},
                             {-100, 0x1p-126F}, {-80, 0x1p100F}, {-145, 0x1p-120F}, {-70, 0x1p-126F},
                             {-127, 0.25F},     {-147, 1.0F},    {-126, 0x1p-126F}};
  const Small& chosen = small[i % std::size(small)];
  if (subject.phase == Phase::forward_training && length <= most_explicit) {
    add_scaled(planner, subject, length, chosen.scale, chosen.eps, key);
    return;
  }
  Recipe recipe;
  recipe.length = length;
  recipe.scale = std::max(chosen.scale, -60);
  recipe.eps = static_cast<double>(i % 2 == 0 ? 0x1p-126F : 0x1p126F);
  recipe.beta = 0;
  recipe.kappa = i % 4 == 3 ? 8 : i % 2 == 0 ? 1 : 0;
  recipe.profile = i % 5 == 4 ? Profile::needle : Profile::conditioned;
  recipe.layouts = i % 4 == 2;
  planner.add(recipe);
}

// Parameters of every size, which no profile draws, and a mean that is exact however large it is.
void add_parameters(Planner& planner, const VariantRow& row) {
  struct Factors {
    std::int32_t scale;
    float gamma;
    int beta;
  };
  std::size_t i = 0;
  for (const Factors& factors : {Factors{0, 0x1p120F, 1},
                                 {0, 0x1p-140F, 0},
                                 {40, 0x1p-100F, 0},
                                 {-40, 0x1p80F, 1},
                                 {-30, 0x1p-110F, 0},
                                 {55, 0x1p64F, 1},
                                 {0, 0x1p-126F, 0},
                                 {-60, 0x1p-80F, 0}}) {
    Problem problem;
    problem.shape = std::array{Shape{2, 1, 9, 4}, Shape{3, 2, 3, 5}, Shape{1, 1, 17, 3}}[i % 3];
    problem.scale = factors.scale;
    problem.beta = factors.beta != 0;
    problem.eps = std::ldexp(0.5, 2 * std::max(factors.scale, -60));
    problem.saved = true;
    const auto channels = static_cast<std::size_t>(element_count(restricted(problem.shape, row.affine)));
    for (std::size_t c = 0; c < channels; ++c)
      problem.values[Role::gamma].push_back((c % 2 == 0 ? 1.0F : -1.5F) * factors.gamma);
    planner.add(problem);
    ++i;
  }
  for (const std::int64_t length : {1, 4, 8, 64}) {
    Problem problem;
    problem.shape = shape_with(row, length, 2, 0);
    problem.saved = true;
    const float constant = std::ldexp(1.0F, 124 - log2_above(length));
    problem.values[Role::x].assign(static_cast<std::size_t>(element_count(problem.shape)), constant);
    planner.add(problem);
  }
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "range");
  std::size_t i = 0;
  for (std::int64_t round = 0; round < planner.by_effort(1, 3, 8); ++round)
    for (const std::int64_t length : planner.lengths(2100, 6)) {
      // Keys of explicit data, which the plan does not draw.
      const std::uint64_t key = (static_cast<std::uint64_t>(random_words(seed, stream_of_keys, i).w[0]) << 4U) + i % 16;
      add_small(planner, subject, length, i, key);
      if (i % 2 == 0) add_large(planner, length, i / 2);
      constexpr std::array outside{70, 121, 95, 110};
      if (i % 3 == 0 && subject.phase == Phase::forward_training && length <= most_explicit)
        add_scaled(planner, subject, length, outside[i / 3 % outside.size()], 1e-3F, key + 16);
      ++i;
    }
  add_parameters(planner, subject.row);
  return planner.take();
}

// What no claim excuses.
bool unsafe(runner::FindingKind kind) {
  return kind == runner::FindingKind::wrote_outside || kind == runner::FindingKind::fault ||
         kind == runner::FindingKind::input_changed || kind == runner::FindingKind::late_write;
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  for (const runner::Finding& finding : outcomes[0].findings) {
    if (!unsafe(finding.kind) || judgement.violation) continue;
    Violation violation;
    violation.at = std::string(name_of(finding.role));
    violation.got = finding.sentence;
    violation.want = "its own elements and nothing else touched, whatever the data";
    judgement.violation = std::move(violation);
  }
  constexpr Role roles[] = {Role::y, Role::mean, Role::stat, Role::running_mean, Role::running_var};
  judge_within_bounds(c, subject.kernel.claim, demand_of(c, subject), outcomes[0].outputs, written(c.problem(), roles),
                      judgement);
  return judgement;
}

}  // namespace

const Property range{"range",  "What fits the claimed range neither overflows nor is lost; what does not is survived.",
                     applies,  plan,
                     one_call, judge};

}  // namespace normgate
