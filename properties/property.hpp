// What must hold. A property is a sentence with its preconditions and a check; one per file, listed in list.cpp.
//
// To add one: a file in the folder of its subject that defines `extern const Property …`, a line in list.cpp, and a
// broken kernel in kernels/broken whose first line names it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/runner/runner.hpp"
#include "reference/bounds/backward.hpp"
#include "reference/bounds/forward.hpp"
#include "reference/problem/claim.hpp"
#include "reference/problem/problem.hpp"
#include "reference/truth/backward.hpp"
#include "reference/truth/finite_differences.hpp"
#include "reference/truth/forward.hpp"
#include "reference/truth/tangent.hpp"

namespace normgate {

// Bounds that several may read; who changes them has a copy from then on.
class SharedBounds {
 public:
  SharedBounds() : SharedBounds(Bounds{}) {}
  SharedBounds(Bounds bounds) : bounds_(std::make_shared<Bounds>(std::move(bounds))) {}
  const Bounds& operator*() const { return *bounds_; }
  const Bounds* operator->() const { return bounds_.get(); }
  [[nodiscard]] Bounds& own() {
    if (bounds_.use_count() > 1) bounds_ = std::make_shared<Bounds>(*bounds_);
    return *bounds_;
  }

 private:
  std::shared_ptr<Bounds> bounds_;
};

enum class Effort : std::int32_t { quick, standard, thorough };

// A problem's data and truth, computed when first asked for and shared by all kernels and targets. The convention of
// the problem is part of it.
class Case {
 public:
  explicit Case(Problem problem, Wanted wanted = Wanted::everything) : problem_(std::move(problem)), wanted_(wanted) {}
  // With other data than the problem's own.
  Case(Problem problem, Inputs inputs) : problem_(std::move(problem)), inputs_(std::move(inputs)) {}
  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const Inputs& inputs() const;
  // Of a forward phase: what the kernel has to compute.
  [[nodiscard]] const Truth& truth() const;
  // Of a backward phase: the gradients as that use of the handed statistics makes them. Uses that mean the same
  // function share one.
  [[nodiscard]] const Truth& gradient(SavedUse use) const;
  // Their witness: the derivative by differences of the forward.
  [[nodiscard]] const Differences& differences() const;
  // What the forward does along a direction, made when it is first asked for. A property numbers its own.
  [[nodiscard]] const Tangent& tangent_along(std::size_t which, const std::function<Direction()>& make) const;
  // A case that follows from this one (other upstream gradients, a part of the samples): made when it is first asked
  // for, and shared as well. A property numbers its own.
  [[nodiscard]] const Case& derived(std::size_t which, const std::function<Case()>& make) const;
  // The bounds that follow from a claim. They are kept until another claim asks: a kernel's targets, which follow each
  // other, have one.
  [[nodiscard]] const SharedBounds& bounds_of(const Claim& claim, const std::function<Bounds()>& make) const;

 private:
  Problem problem_;
  Wanted wanted_ = Wanted::everything;
  mutable std::optional<Inputs> inputs_;
  mutable std::optional<Truth> truth_;
  mutable std::map<SavedUse, Truth> gradients_;
  mutable std::optional<Differences> differences_;
  mutable std::map<std::size_t, Tangent> tangents_;
  mutable std::map<std::size_t, std::shared_ptr<const Case>> derived_;
  mutable std::optional<std::pair<Claim, SharedBounds>> bounds_;
};

// One element that violates a demand, or a demand on the whole that was violated.
struct Violation {
  std::string at;
  std::string got;
  std::string want;
  std::string error;
  std::string looks_like;  // may be filled in by the property if it knows; else by the engine's diagnosis
  std::string diagnosis;
};

// What a property found in one case. `violation` empty: it held.
struct Judgement {
  std::optional<Violation> violation;
  bool discarded = false;       // the case says nothing (precondition on data not met)
  std::string skipped;          // a sentence: why the case could not be tried (memory)
  std::string declined;         // the kernel's reason for declining every variation that the case is about
  std::int64_t elements = 0;    // compared
  std::int64_t not_judged = 0;  // elements whose bound was infinite
  double worst_share = 0;       // of a bound
  double worst_row_ulp = 0;
  // Of a kernel that does not declare what it does with handed statistics: bits 1 << SavedUse of the functions whose
  // bounds hold in this case; -1: nothing is known.
  std::int32_t fitting_uses = -1;
  Role worst_role = Role::y;
  // By output: the largest telling share of a bound and the element that has it; index -1: none was judged.
  struct Peak {
    double share = 0;
    std::int64_t index = -1;
  };
  PerRole<Peak> peak{};
  void take(Role role, std::size_t index, double share) {
    if (peak[role].index < 0 || share > peak[role].share) peak[role] = {share, static_cast<std::int64_t>(index)};
    if (share <= worst_share) return;
    worst_share = share;
    worst_role = role;
  }
};

// Runs calls on the kernel under test. `run` gives outcomes in order. A crash, a hang or a refusal among them is
// handled by the engine: it ends the case by an exception that properties do not catch.
class Bench {
 public:
  virtual ~Bench() = default;
  [[nodiscard]] virtual std::vector<runner::Outcome> run(std::span<const runner::Call> calls) = 0;
  [[nodiscard]] virtual const runner::KernelInfo& kernel() const = 0;
  [[nodiscard]] runner::Outcome run_one(const Problem& problem, const Inputs& inputs,
                                        runner::Filling filling = runner::Filling::nan);
};

// What a property may ask a problem for, so that generators stay inside the claim.
struct Subject {
  const VariantRow& row;
  Phase phase;
  const runner::KernelInfo& kernel;
  const Convention& convention;
};

struct Property {
  std::string_view name;      // "accuracy"
  std::string_view sentence;  // "Every output element lies within the bound that follows from claim and input."
  // Whether it has a meaning for the row, phase, convention and claim; what does not apply is not listed.
  bool (*applies)(const Subject&);
  // The problems that it is tried on: a plan that guarantees coverage, deterministic in (subject, effort, seed).
  // Problems must not depend on anything of the kernel but its capabilities, so that kernels share references.
  std::vector<Problem> (*plan)(const Subject&, Effort, std::uint64_t seed);
  // Judges one case. Outcomes of `calls` on the case come first, in the same order, run in a batch by the engine;
  // more can be run on the bench.
  std::vector<runner::Call> (*calls)(const Case&, const Subject&);
  Judgement (*judge)(const Case&, const Subject&, std::span<const runner::Outcome> outcomes, Bench&);
  // What `judge` needs of the truth.
  Wanted wanted = Wanted::everything;
  // The share of its elements that a unit must have judged; below it, it is mistrusted.
  double judged_at_least = 0;
  // False: custom kernels are tried as well, on problems whose tensors have the axes that layer_norm gives them.
  bool needs_reference = true;
};

// All properties, in the order in which they are tried and reported.
[[nodiscard]] std::span<const Property* const> property_list();

}  // namespace normgate
