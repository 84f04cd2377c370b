// Sound kernels in plain C++ for every combination of what a claim can say, and how much of the bound they use.
//
// Style holds what a claim leaves open: any kernel that differs from another only there obeys the same claim.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "reference/bounds/forward.hpp"
#include "reference/problem/problem.hpp"

namespace normgate::emulated {

struct Style {
  bool contract = false;          // fused multiply-adds wherever a product meets a sum
  int product = 0;                // which two of the three factors meet first
  int root_direction = 0;         // of an approximate 1/sqrt: -1 and 1 err as far as rsqrt_ulp allows, 0 rounds
  bool other_variance = false;    // one-pass: (Σx² - S m)/n; Welford: a² (k-1)/k
  bool bessel_factor = false;     // over n-1 as over n times n/(n-1)
  bool other_update = false;      // old + take (batch - old) in place of keep old + take batch
  bool update_then_mean = false;  // instance_norm: every sample updates, then the states are averaged
  bool clamp = false;             // negative variances become 0
  bool narrow_squares = false;    // differences and squares in float32 although sums are double, and the reverse
};

// Every output of the problem, as a kernel of this claim and style computes it.
[[nodiscard]] Inputs run(const Problem& problem, const Inputs& inputs, const Claim& claim, const Style& style);

struct Share {
  double worst = 0;  // largest error / (tolerance + truth's bound) of all judged elements; infinite if it ought
                     // to be NaN and is not
  double gain = 0;   // the same of levels
  double offset = 0;
  double gain_bound = 0;  // largest
  std::int64_t judged = 0;
  std::int64_t not_judged = 0;
  std::string where;
};
[[nodiscard]] Share share_of_bound(const Problem& problem, const Inputs& inputs, const Truth& truth,
                                   const Bounds& bounds, const Inputs& outputs);

// What is random in a test follows from its seed.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <typename T>
  T of(std::initializer_list<T> list) {
    return *(list.begin() + static_cast<std::ptrdiff_t>(below(list.size())));
  }
  std::uint64_t bits() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

[[nodiscard]] Claim draw_claim(Draw& draw);
[[nodiscard]] Style draw_style(Draw& draw, const Claim& claim);
[[nodiscard]] std::string describe(const Claim& claim, const Style& style);

}  // namespace normgate::emulated
