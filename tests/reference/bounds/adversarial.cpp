// Inputs that are chosen against the bounds: sums whose additions all round the same way, constant groups far from 0,
// and a search uphill, which changes one number by a few units in its last place and keeps what uses more of the bound.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "reference/bounds/rounding.hpp"
#include "tests/reference/bounds/emulated.hpp"

namespace normgate {
namespace {

using emulated::Draw;

Problem row_of_values(std::vector<float> x, double eps) {
  Problem p;
  p.shape = {1, 1, static_cast<std::int64_t>(x.size()), 1};
  p.gamma = p.beta = false;
  p.saved = true;
  p.eps = eps;
  p.values[Role::x] = std::move(x);
  return p;
}

double worst(const Problem& problem, const Claim& claim, const emulated::Style& style, std::string* what = nullptr) {
  const Inputs inputs = make_inputs(problem);
  const Truth truth = forward_truth(problem, inputs);
  const Bounds bounds = forward_bounds(problem, inputs, truth, claim);
  const auto share =
      emulated::share_of_bound(problem, inputs, truth, bounds, emulated::run(problem, inputs, claim, style));
  if (what != nullptr) *what = print(problem) + "\n" + emulated::describe(claim, style) + "\n" + share.where;
  return std::max({share.worst, share.gain, share.offset});
}

void hold(const std::vector<float>& x, Draw& draw) {
  for (const double eps : {0.0, 0x1p-126, 0x1p-40, 9.99999974737875163555145263671875e-06, 1.0})
    for (int k = 0; k < 6; ++k) {
      const Claim claim = emulated::draw_claim(draw);
      const auto style = emulated::draw_style(draw, claim);
      std::string what;
      ASSERT_LE(worst(row_of_values(x, eps), claim, style, &what), 1) << what;
    }
}

TEST(Adversarial, equal_numbers_just_above_a_power_of_two) {
  Draw draw(1);
  for (const int n : {2, 3, 5, 16, 33, 100, 768, 1000})
    for (const float base : {1.0F, 1024.0F, 0x1p-120F, 0x1p60F})
      for (const int steps : {0, 1, 2, 3}) {
        std::vector<float> x(static_cast<std::size_t>(n), base * (1 + static_cast<float>(steps) * 0x1p-23F));
        hold(x, draw);
        x.back() += base * 0x1p-22F;  // nearly constant: the variance is far below the square of the mean's error
        hold(x, draw);
        if (HasFatalFailure()) return;
      }
}

TEST(Adversarial, monotone_sequences) {
  Draw draw(2);
  for (const int n : {3, 7, 64, 257})
    for (const float slope : {0x1p-23F, 0x1.8p-20F, 0.01F, 1.0F, -3.0F})
      for (const float start : {1.0F, -1.0F, 0.0F, 4097.0F}) {
        std::vector<float> x;
        for (int i = 0; i < n; ++i) x.push_back(start + slope * static_cast<float>(i));
        hold(x, draw);
        if (HasFatalFailure()) return;
      }
}

TEST(Adversarial, terms_that_all_round_down) {
  Draw draw(3);
  for (const int n : {16, 100, 1000}) {
    std::vector<float> x{1.0F};
    for (int i = 1; i < n; ++i) x.push_back(0x1.fffffep-25F);
    hold(x, draw);
    for (std::size_t i = 1; i < x.size(); ++i) x[i] = 0x1.000002p-24F;  // and all up
    hold(x, draw);
    if (HasFatalFailure()) return;
  }
}

// The search starts at a random row. Its best shares say how tight the bounds are.
TEST(Adversarial, search_uphill_stays_within_the_bound) {
  Draw draw(4);
  double all = 0, two_pass = 0;
  for (int start = 0; start < 40; ++start) {
    const Claim claim = emulated::draw_claim(draw);
    const auto style = emulated::draw_style(draw, claim);
    const auto n = draw.of<std::size_t>({2, 3, 5, 12});
    const float centre = draw.of({0.0F, 1.0F, 100.0F, 3e4F});
    const double eps = draw.of({0x1p-126, 0x1p-40, 0x1p-17, 1.0});
    std::vector<float> x;
    for (std::size_t i = 0; i < n; ++i) x.push_back(centre + static_cast<float>(draw.below(1U << 20U)) * 0x1p-19F - 1);
    double best = worst(row_of_values(x, eps), claim, style);
    for (int step = 0; step < 300; ++step) {
      std::vector<float> next = x;
      float& value = next[draw.below(n)];
      if (draw.one_in(4))
        value = centre + static_cast<float>(draw.below(1U << 20U)) * 0x1p-19F - 1;
      else
        value = std::nextafter(value, draw.one_in(2) ? 1e30F : -1e30F);
      std::string what;
      const double share = worst(row_of_values(next, eps), claim, style, &what);
      ASSERT_LE(share, 1) << what;
      if (share < best) continue;
      best = share;
      x = std::move(next);
    }
    all = std::max(all, best);
    if (claim.variance == VarianceAlgorithm::two_pass) two_pass = std::max(two_pass, best);
  }
  std::cout << "  found: " << all << ", two-pass " << two_pass << "\n";
  EXPECT_GT(all, 0.5) << "the search finds nothing: the bounds are loose, or the search is";
}

}  // namespace
}  // namespace normgate
