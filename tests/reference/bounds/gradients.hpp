// Sound backward kernels in plain C++ for what a claim can say and the orders in which the formulas are evaluated in
// practice, and wrong ones.
#pragma once

#include <string>

#include "reference/bounds/backward.hpp"
#include "tests/reference/bounds/emulated.hpp"

namespace normgate::emulated {

// How dx is put together; what a kernel's use, row or data exclude falls back to `brackets`.
enum class Association : int {
  brackets,          // r (g - ḡ - x̂ c)
  separate,          // r g - r ḡ - d (q Σgd/N)
  product,           // (r/n) (n g - Σg - x̂ P)
  through_variance,  // the gradients of variance and mean
  gamma_last,        // γ r (dy - mean(dy) - x̂ mean(dy x̂))
  folded,            // r g + x b + c
  sum_of_pull,       // r (g - (ḡ + x̂ c))
  over_radicand,     // r (g - ḡ - d (mean(g d) / (v + eps)))
  centred_hat,       // r (g - ḡ - (x̂ - mean(x̂)) c)
  count
};

// What makes a kernel wrong.
enum class Bug : int {
  none,
  no_hat_term,
  no_mean_term,
  hat_term_over_n_minus_1,
  dgamma_from_x,
  dgamma_with_gamma,
  gamma_ignored,
  sum_over_all_but_the_last,
  eps_in_hat_term,  // the x̂ term times v r²
  inference,
  count
};

struct GradientStyle {
  Style arithmetic;  // of the statistics, and `contract`
  Association association = Association::brackets;
  bool hat_in_sum = false;            // Σ g x̂ in place of r Σ g d
  bool gamma_outside = false;         // γ times a sum, where it is constant
  bool reuse = false;                 // … which is dgamma's
  bool gamma_narrow = false;          // g in the statistics type
  bool multiply_later = false;        // r Σ dy d in place of Σ dy x̂
  bool running_total = false;         // the terms of all groups into one total, where the sum over groups is sequential
  bool old_first = false;             // gradients that accumulate: begin with the old value
  bool root_from_reciprocal = false;  // √v as 1/r - eps
  bool reciprocal_gamma = false;      // (y-β) (1/γ)
  Bug bug = Bug::none;
};

// dx, dgamma, dbeta.
[[nodiscard]] Inputs run_gradients(const Problem& problem, const Inputs& inputs, SavedUse use, const Claim& claim,
                                   const GradientStyle& style);

[[nodiscard]] GradientStyle draw_gradient_style(Draw& draw, const Claim& claim);
[[nodiscard]] std::string describe(const GradientStyle& style, const Claim& claim, SavedUse use);

}  // namespace normgate::emulated
