// One group of a backward phase as the function and the kernel see it: centre, 1/D and s with their errors, the
// elements with what their x̂ and dy γ are off by, and whether all are multiples of powers of two. backward.cpp says
// what it is for and how it is derived.
#pragma once

#include <vector>

#include "reference/bounds/backward.hpp"
#include "reference/bounds/statistics.hpp"

namespace normgate::bounds {

[[nodiscard]] inline double at_least_one(double value) { return std::max(1.0, value); }

struct Element {
  std::size_t index = 0;
  std::size_t channel = 0;
  double dy = 0;
  double gamma = 1;         // as used
  double g = 0;             // dy γ
  double d = 0;             // x - c; from an output: x̂
  double hat = 0;           // x̂
  double reach = 0;         // a: at least |x̂^| before its own roundings
  double wide = 0;          // (|x| + |c|) r^ + shift
  double raw = 0;           // |d| + δ, folded: |x| + |c| + δ
  double g_absolute = 0;    // underflow of g, and what reading dy or γ as 0 costs
  double hat_absolute = 0;  // the same of x̂
  double divided = 1;       // from an output: what a division by γ makes of what was lost before it
  bool exact_g = false;     // 1+w and g are float32
  bool finite = true;       // dy, γ and whatever x̂ depends on besides the statistics
};

// One group as the function and the kernel see it.
struct Frame {
  Exact centre;  // c
  double n = 0;
  double divisor = 0;  // N_v
  double r = 0;
  Interval reciprocal;  // of |r^|
  double r_error = 0;
  double up = 1;  // max |r^| / |r|; 1 from an output, where x̂ has no r
  double s = 0;
  double s_high = 0;
  double e = 0;  // relative error of s r², or of s
  double shift = 0;
  double delta = 0;         // of the centre
  bool r_known = true;      // the reciprocal's bounds mean something
  bool judged = true;       // dx is: s is decided
  bool mean_finite = true;  // or all of x, where statistics are computed
  bool nan = false;         // 1/D of numbers is
  bool squares_fit = true;  // of statistics that are computed
  bool power = false;       // r is exact and a power of two
};

// Facts about a group's numbers as multiples of powers of two.
struct Grids {
  bool differences = true;  // every d is exact and a float32, of a common grid
  bool safe = true;         // nothing under- or overflows
  bool products = true;     // every g is exact
  bool powers = true;       // γ is 0 or a power of two: a mean of dy is a float32 if that of g is
  double d = infinity, g = infinity, gd = infinity, gx = infinity, x = infinity;
  double largest_d = 0, largest_g = 0, largest_x = 0;
};

// What of problem, use and claim the gradients' bounds depend on. It refers to its arguments.
class GradientModel : public StatisticsBounds {
 public:
  GradientModel(const Problem& problem, const Inputs& inputs, const Truth& truth, SavedUse use, const Claim& claim);

  [[nodiscard]] Frame frame_of(std::int64_t q) const;
  [[nodiscard]] std::vector<Element> elements_of(std::int64_t q, const Frame& frame) const;
  [[nodiscard]] Grids grids_of(const Frame& frame, const std::vector<Element>& elements) const;
  // x - c without a rounding in double.
  [[nodiscard]] bool difference_is_exact(const Frame& frame, const Element& element) const;

  // (1+t) of a division by n in whatever type, and by N_v.
  [[nodiscard]] double any_division() const;
  [[nodiscard]] double any_division_by_divisor() const;
  // Roundings of g on its way into a product or a sum.
  [[nodiscard]] double gamma_roundings() const { return (problem.gamma ? 1 : 0) + (plus_one ? 1 : 0); }
  // Roundings of x̂ in units of u: of the difference, and the product with r; or of (y-β)/γ, perhaps y times 1/γ.
  [[nodiscard]] double hat_roundings(bool exact_difference) const;

  const Problem& problem;
  const Inputs& inputs;
  const Truth& truth;
  const Claim& claim;
  const VariantRow& row;
  Groups groups;
  bool training;
  bool from_output;
  bool handed;    // statistics are exact inputs of the function
  bool textbook;  // and mean(x̂) is part of it
  bool folded;
  bool n_minus_1;
  bool plus_one;
  double u;       // U
  double eta;     // the larger of both types'
  double limit;   // integers below this are exact in both types
  double top;     // nothing below this overflows
  double narrow;  // roundings of what goes into a narrower accumulator

 private:
  [[nodiscard]] Group handed_group(std::size_t at) const;
  [[nodiscard]] Group given_group(std::size_t at) const;
  void respond(const Group& group, const Statistics& statistics, double up, double down, Frame& frame) const;
};

// What rounds a result into float32 where it is not one already.
[[nodiscard]] inline double last_rounding(const Exact& exact, bool exact_before, double rounding) {
  return exact_before && exact.lo == 0 && is_float32(exact.hi) ? 0 : rounding;
}

}  // namespace normgate::bounds
