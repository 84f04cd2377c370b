// The statistics of one group as a kernel computes them: intervals around mean, variance and 1/D that follow from its
// claim and this very input. The bounds of y and of the gradients are made from these; statistics.cpp derives them.
#pragma once

#include <cstdint>

#include "reference/bounds/rounding.hpp"
#include "reference/problem/data.hpp"
#include "reference/problem/groups.hpp"
#include "reference/truth/forward.hpp"

namespace normgate::bounds {

struct Interval {
  double low = 0;
  double high = 0;
};

[[nodiscard]] constexpr bool is_power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }
[[nodiscard]] inline bool is_float32(double value) { return static_cast<double>(static_cast<float>(value)) == value; }
// The largest power of two that `value` is a multiple of; infinite for 0 and for what is no number.
[[nodiscard]] double grid_of(double value);
// Whether the quotient of two doubles is a float32.
[[nodiscard]] bool quotient_is_float32(double numerator, double n);

// The units of a claim, as the derivations write them: u_a, u_s roundoffs of the accumulator's and the statistics type,
// η underflow of one operation, ζ what reading a subnormal input as 0 costs.
struct Arithmetic {
  explicit Arithmetic(const Claim& claim)
      : u_a(unit_roundoff(claim.accumulator)),
        u_s(unit_roundoff(claim.statistics)),
        narrowing(claim.accumulator == ScalarType::float64 && claim.statistics == ScalarType::float32 ? u_s : 0),
        to_float32(claim.statistics == ScalarType::float64 ? unit_float32 : 0),
        eta_a(underflow_unit(claim.accumulator, claim.subnormals)),
        eta_s(underflow_unit(claim.statistics, claim.subnormals)),
        eta_out(underflow_unit(ScalarType::float32, claim.subnormals)),
        flushed(claim.subnormals == Subnormals::flushed),
        zeta(flushed ? 0x1p-126 : 0) {}
  double u_a;
  double u_s;
  double narrowing;   // of a sum into a narrower statistics type
  double to_float32;  // of a result into the output's type
  double eta_a;
  double eta_s;
  double eta_out;
  bool flushed;
  double zeta;
};

// Everything the bounds need of one group, in double from exact values.
struct Group {
  std::int64_t n = 0;
  bool finite = true;
  double sum = 0;         // Σx, exact wherever grid arithmetic is (see `grid`)
  double modulus = 0;     // Σ|x|
  double squares = 0;     // Σx²
  double largest = 0;     // max |x|
  double deviations = 0;  // Σd²
  double largest_deviation = 0;
  double grid = infinity;
  double mean = 0;
  double variance = 0;
  double rstd = 0;
};
// `exact` has the group's mean, variance and 1/D.
[[nodiscard]] Group gather(const Groups& groups, std::int64_t q, const std::vector<float>& x, const GroupTruth& exact);

// What is known of the computed statistics.
struct Statistics {
  double mean_error = 0;           // δ
  double difference_roundoff = 0;  // u_d
  Interval variance;
  double variance_error = 0;  // max |v^ - v|
  double single_error = 0;    // one value: error of its variance over n, where n-1 normalizes
  Interval rstd;
  double rstd_error = 0;
  double shift = 0;      // max of |δ_m| r^
  double moved_low = 0;  // two-pass: least v^ if |δ_m| = δ; meaningful if `moves`
  bool moves = false;
  bool nan = false;  // the kernel's 1/D is NaN, or its mean
  bool fits = true;  // no sum of squares leaves float32's range
};

class StatisticsBounds : public Arithmetic {
 public:
  StatisticsBounds(const Problem& problem, const Claim& claim);

  // Of a group whose statistics the kernel computes.
  [[nodiscard]] Statistics trained(const Group& group) const;
  // Of one whose statistics it is given: as they are in the problem, or those that a backward is handed.
  [[nodiscard]] Statistics given(const Group& group) const;

  // "Squares fit": the sums of moduli and of squares keep a factor of two to float32's largest number. What the kernel
  // really sums, Σ(d-δ_m)², is Statistics::fits.
  [[nodiscard]] bool squares_fit(const Group& group) const;

  // Whether n, a count that the kernel computes with, is rounded itself.
  [[nodiscard]] bool rounds_count(std::int64_t n) const;
  // Whether a quotient by n is exact if it is representable.
  [[nodiscard]] bool divides_exactly(std::int64_t n) const;
  // (1+t) of a division by n; see "mean" in statistics.cpp.
  [[nodiscard]] double division(std::int64_t n) const;
  // (1+t) of a division by n-1, whether it is one, a product with 1/(n-1) or (divides_by_n speaks of means only), or a
  // division by n and a product with n/(n-1).
  [[nodiscard]] double division_by_n_minus_1(std::int64_t n) const;

  // eps as the kernel may have rounded it.
  [[nodiscard]] Interval eps() const { return eps_; }
  [[nodiscard]] double parameter_roundoff() const { return parameter_roundoff_; }

  // What every bound is multiplied by, since it is evaluated in double from sums over a group of n.
  [[nodiscard]] static double slack(std::int64_t n) { return 1 + static_cast<double>(n + 400) * 0x1p-52; }

 private:
  // How Welford's recurrence is cut up: runs of at most `run` elements, merged in a tree of `levels`, and then, if
  // `chain` > 1, that many block results merged one after the other.
  struct Recurrence {
    double run = 0;
    double levels = 0;
    double chain = 0;
    double rounded_counts = 0;  // roundings more per merge, where the counts n_a, n_b, n are rounded themselves
  };
  [[nodiscard]] double correction(std::int64_t n) const;
  [[nodiscard]] double division_underflow(std::int64_t n, bool n_minus_1) const;
  [[nodiscard]] bool sums_exactly(const Group& group, double modulus, double grid) const;
  [[nodiscard]] bool sums_squares_exactly(const Group& group, double squares, double largest) const;
  [[nodiscard]] Recurrence recurrence(std::int64_t elements) const;
  [[nodiscard]] double running_mean_error(const Group& group) const;
  [[nodiscard]] double welford_mean(const Group& group) const;
  [[nodiscard]] double welford_sum_error(const Group& group) const;
  [[nodiscard]] static bool on_grid(const Group& group);
  void spread(const Group& group, bool n_minus_1, bool exact_differences, Statistics& s) const;
  [[nodiscard]] double mean_error(const Group& group, bool exact_sum) const;
  void two_pass(const Group& group, bool n_minus_1, bool exact_differences, Statistics& s) const;
  void one_pass(const Group& group, bool n_minus_1, Statistics& s) const;
  [[nodiscard]] static Statistics unknown();
  [[nodiscard]] double inverse_root(double w, bool down) const;
  [[nodiscard]] double reciprocal(double v, double eps, bool down) const;
  [[nodiscard]] double shift(const Group& group, const Statistics& s) const;
  void finish(const Group& group, Statistics& s) const;

  const Problem& problem_;
  const Claim& claim_;
  const VariantRow& row_;
  double parameter_roundoff_ = 0;
  Interval eps_;
};

}  // namespace normgate::bounds
