// The problems that a property is tried on. A plan guarantees coverage: it walks over lengths, profiles and options in
// a fixed order, and RapidCheck draws the rest from a key, so that the list is a function of variant, phase, effort,
// seed and the kernel's capabilities.
//
// To add a dimension: a field of Recipe and its draw in plan.cpp; every property that uses recipes then covers it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "properties/property.hpp"

namespace normgate {

// What a property fixes of a problem; the rest is drawn.
struct Recipe {
  std::int64_t length = 8;  // elements of a group
  std::int64_t groups = 0;  // at least; 0: drawn, small
  Profile profile = Profile::conditioned;
  double kappa = 1;
  std::int32_t scale = 0;
  std::int32_t level = 1;
  double eps = -1;        // < 0: drawn
  double momentum = -1;   // < 0: drawn
  std::int64_t step = 0;  // 0: drawn
  int gamma = -1;         // < 0: drawn
  int beta = -1;
  int saved = -1;  // 1: where the kernel can; < 0: drawn, present in two of three
  int running = -1;
  Given given = Given::none;           // inference; none: drawn
  std::optional<Handed> handed;        // backward_training; nullopt: drawn, shifted in one of three
  std::optional<Cotangent> cotangent;  // backward; nullopt: drawn
  std::int32_t threads = 0;            // as far as the kernel can; 0: drawn, mostly 1
  bool layouts = false;                // draw layouts, fences and misalignment
};

class Planner {
 public:
  Planner(const Subject& subject, Effort effort, std::uint64_t seed, std::string_view property);

  // Appends a problem; what the kernel does not claim is replaced by the default.
  void add(const Recipe& recipe);
  // Appends a problem as it stands, but for key (if 0), phase, variant, convention and what the kernel cannot do.
  void add(Problem problem);
  [[nodiscard]] std::vector<Problem> take() { return std::move(problems_); }

  [[nodiscard]] Effort effort() const { return effort_; }
  // Group lengths up to `most`: dense where vector widths and unrolls lie (every residue of 64), powers of two and
  // their neighbours, and the sizes at which kernels change path in practice. `one_in` thins the list, beginning at a
  // place that depends on the property, so that properties together meet lengths that each alone leaves out.
  [[nodiscard]] std::vector<std::int64_t> lengths(std::int64_t most, std::int64_t one_in = 1) const;
  // Families that a property may add to its own: numbers of groups around cores, blocks of rows and 16-bit indices;
  // shapes in which extents that a kernel may mix up all differ, are 1, or are all large, in two layouts; every subset
  // of gamma and beta at sizes that have a fast path. Cotangents change from one to the next.
  void add_counts();
  void add_count_residues();  // channels and samples in every residue of 16, in two layouts
  void add_tails();           // single groups with every tail behind loops of 64
  void add_roots();           // of eps alone, part of the counts
  void add_threads();         // few and many groups, short and long, on 2 to 6 threads
  void add_shapes(const std::vector<Profile>& profiles);
  void add_subsets();
  // The last of a plan: a problem for each cell of the coverage (coverage.hpp) that the plan leaves out, in profiles
  // that the property judges. Only for the kernel's first convention.
  void cover(const std::function<bool(Profile)>& takes);

  // quick, standard or thorough's value.
  [[nodiscard]] std::int64_t by_effort(std::int64_t quick, std::int64_t standard, std::int64_t thorough) const;
  // Whether this convention is the first that the kernel lists: only then the whole plan is tried.
  [[nodiscard]] bool primary() const;

 private:
  const Subject& subject_;
  Effort effort_;
  std::uint64_t property_hash_;
  std::uint64_t state_;
  std::vector<Problem> problems_;
};

// Brings a problem inside what the kernel claims: layouts, roles, in place. The shrinker uses it as well.
[[nodiscard]] Problem inside_claim(Problem problem, const Subject& subject);

// A shape of the row with groups of exactly `length` elements and at least `groups` groups; `choice` picks how the
// length is split over the reduced axes and the groups over the others.
[[nodiscard]] Shape shape_with(const VariantRow& row, std::int64_t length, std::int64_t groups, std::uint64_t choice);

}  // namespace normgate
