// A caller may have set flush-to-zero and denormals-are-zero, as audio code and whatever was linked with -ffast-math
// does. The kernel leaves these bits, the rounding mode and the exception masks as it found them, and its result is
// the same bit for bit iff it promises caller_state_invariant; else it lies within the bound of the same claim with
// subnormals flushed.
//
// That bound is proved for a kernel whose subnormal operands may be read as 0 and whose subnormal results may become 0
// in each operation. Under the caller's bits each operation does so (of float32 as assumed; of double below 2^-1022 and
// where a subnormal float32 is read, as assumed too); where a kernel sets the bits as it likes, or works in other
// threads, an operation does so or does not, and both are allowed for.
//
// Besides ordinary data there are subnormal ones: x around 2^-130 with an eps of 2^-100 (so that x̂ is a normal number),
// gamma, dy and (alone) beta around 2^-130. The result in the ordinary state is held to the claim as it stands.
// Preconditions: none.
#include <algorithm>

#include "properties/generators/plan.hpp"
#include "properties/judging.hpp"
#include "properties/list.hpp"

namespace normgate {
namespace {

bool applies(const Subject& subject) { return is_primary(subject); }

enum class Tiny { x, gamma, dy, beta };

// Of ±(1 … 1023)·2^-140: subnormal, below 2^-130.
std::vector<float> subnormals(std::size_t count, std::uint64_t key) {
  std::vector<float> values(count);
  constexpr std::uint64_t stream = 0x746E79;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = random_words(key, stream, i).w[0];
    const float size = static_cast<float>(1 + (word >> 1U) % 1023) * 0x1p-100F * 0x1p-40F;
    values[i] = (word & 1U) != 0 ? size : -size;
  }
  return values;
}

std::vector<Problem> plan(const Subject& subject, Effort effort, std::uint64_t seed) {
  Planner planner(subject, effort, seed, "caller_environment");
  std::size_t i = 0;
  for (const std::int64_t length : planner.lengths(1100, effort == Effort::quick ? 11 : 3)) {
    Recipe recipe;
    recipe.length = length;
    recipe.kappa = i % 2 == 0 ? 1 : 30;
    recipe.scale = i % 3 == 2 ? -50 : 0;
    recipe.layouts = i % 2 == 1;
    planner.add(recipe);
    ++i;
  }
  // Groups without a variance, where a kernel may divide by what keeps a divisor from being 0.
  for (const Profile profile : {Profile::constant, Profile::near_constant})
    for (const std::int64_t length : {1, 6, 24}) {
      Recipe recipe;
      recipe.length = length;
      recipe.profile = profile;
      recipe.kappa = 1;
      planner.add(recipe);
    }
  // A merge reads statistics of ordinary size, and no x.
  if (subject.phase == Phase::merge_statistics) return planner.take();
  const bool backward = has_cotangent(subject.phase);
  std::uint64_t key = seed * 64 + 1;
  for (std::int64_t round = 0; round < planner.by_effort(1, 4, 16); ++round)
    for (const std::int64_t length : {4, 7, 16, 33, 100})
      for (const Tiny tiny : {Tiny::x, Tiny::gamma, Tiny::dy, Tiny::beta}) {
        ++key;
        if (tiny == Tiny::dy && !backward) continue;
        if (tiny == Tiny::gamma && !supports(subject, Role::gamma)) continue;
        if (tiny == Tiny::beta && (backward || !supports(subject, Role::beta))) continue;
        constexpr std::array roles{Role::x, Role::gamma, Role::dy, Role::beta};
        const Role role = roles[static_cast<std::size_t>(tiny)];
        Problem p;
        p.shape = shape_with(subject.row, length, 2, key);
        p.saved = true;
        // What is lost must not be hidden behind beta.
        p.beta = tiny == Tiny::beta || (backward && key % 2 == 0);
        if (tiny == Tiny::beta) p.profile = Profile::constant, p.kappa = 0;  // and nothing hides beta
        p.eps = tiny == Tiny::x ? 0x1p-100 : 1e-3F;
        p.given = Given::saved;
        const AxisSet axes = axes_of(role, subject.row);
        p.values[role] = subnormals(static_cast<std::size_t>(element_count(restricted(p.shape, axes))), key);
        planner.add(p);
      }
  return planner.take();
}

std::vector<runner::Call> calls(const Case& c, const Subject& subject) {
  std::vector<runner::Call> result(2, call_of(c.problem(), c.inputs(), subject));
  result[1].flushing_caller = true;
  return result;
}

Judgement judge(const Case& c, const Subject& subject, std::span<const runner::Outcome> outcomes, Bench&) {
  Judgement judgement;
  constexpr std::string_view when = "  called with FTZ and DAZ set";
  for (std::size_t j = 0; j < outcomes.size() && !judgement.violation; ++j)
    for (const auto& finding : outcomes[j].findings) {
      if (finding.kind != runner::FindingKind::environment) continue;
      Violation violation;
      violation.at = j == 0 ? "the caller's state" : "the caller's state" + std::string(when);
      violation.got = finding.sentence;
      violation.want = "rounding mode, FTZ/DAZ and exception masks as before the call";
      violation.diagnosis = "environment not restored";
      judgement.violation = std::move(violation);
      return judgement;
    }
  const auto roles = written(c.problem(), output_roles);
  judge_within_bounds(c, subject.kernel.claim, demand_of(c, subject), outcomes[0].outputs, roles, judgement);
  if (judgement.violation) return judgement;
  runner::KernelInfo flushing = subject.kernel;
  flushing.claim.subnormals = Subnormals::flushed;
  const Subject as_flushed{subject.row, subject.phase, flushing, subject.convention};
  judge_within_bounds(c, flushing.claim, demand_of(c, as_flushed), outcomes[1].outputs, roles, judgement);
  const auto& claim = subject.kernel.claim;
  if (claim.caller_state_invariant && claim.deterministic)
    judge_equal(c, outcomes[0].outputs, outcomes[1].outputs, roles, nullptr, "called with FTZ and DAZ set", judgement);
  if (judgement.violation) judgement.violation->at += when;
  return judgement;
}

}  // namespace

const Property caller_environment{
    "caller_environment",
    "A caller's flush-to-zero changes no result by more than flushing, no bit where promised, and is left set.",
    applies,
    plan,
    calls,
    judge};

}  // namespace normgate
