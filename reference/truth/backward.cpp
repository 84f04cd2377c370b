// The backward phases at 100 digits, and the proof of the bounds that the values leave with.
//
// T has p = 334 bits, w = 2^-p; inputs and eps are as hundred_digits-inl.h says, (1) to (6) are forward.cpp's. Groups
// and channels have at most 2^40 elements. "Relative error" is that of a product or of a sum of terms of one sign; what
// is a sum of terms of both signs has an error relative to the sum of their moduli, the `terms` of leave().
//
//  (7) g = dy gamma is exact: 24 bits times at most 277 (1 + gamma is a multiple of 2^-149 below 2^129).
//  (8) r and s in training have relative error 2^42 w, by (2): s is r, or 1/sqrt(v). s = 0 rests on exact decisions: v
//  =
//      0 is that of a sum of squares of correctly rounded differences, and v > eps is decided over the rationals where
//      the two agree to 2^-280. From handed statistics r and s have relative error 4w: v + eps, r eps (77 bits, a
//      multiple of 2^-327), 1 - r eps and eps r² are exact; v > eps compares exact numbers.
//  (9) x^ = (x - mean) r has relative error 2^43 w: x - mean has w or is exact (a handed mean); (y - beta) / gamma has
//  w.
//      With given statistics over an accumulated weight, by (4), x - mean has an error of 2w (|x| + |mean|) and r a
//      relative one of 2^-256, common to all groups of a channel: x^ is off by 2^-256 of its own and by 2^-330 of
//      (|x| + |mean|) r.
// (10) dbeta: sums of dy and an old value are exact, by (1). dgamma = old + sum dy x^, at most 2^40 terms: |error| <=
//      2^44 w (|old| + sum |dy x^|) <= 2^-290 of the terms. With given statistics sum |dy| (|x| + |mean|) r stands for
//      the terms, and r's relative error is one of the sum: 2^-256 |dgamma - old| <= 2^-256 of the terms.
// (11) dx in training, with G = sum |g| / n and P = sum |g x^| / N_v: mean(g) has error 2^41 w G, r (g - mean(g)) so
//      2^43 w r (|g| + G); s sum(g x^)/N_v has error 2^45 w s P; its product with x^ (minus mean(x^), in the textbook's
//      form) 2^46 w s P (|x^| + |mean(x^)|). Together |error| <= 2^-287 (r (|g| + G) + s P (|x^| + |mean(x^)|)).
// (12) dx in inference: g r has r's relative error, 2^-256 at worst.
// (13) Magnitudes: |x^| < 2^258 from a handed mean and r, 2^278 from an output; r < 2^190; s < 2^190, or 2^204 where r
//      eps is near 1. So s P |x^| < 2^(204 + 515 + 258), and doubles do not overflow. What is so small that lo or the
//      bound underflows is off by less than the 2^-1073 of leave().
//
// 2^-105 |hi| covers what is relative to the value, 2^-255 terms the rest; `terms` are evaluated in double, which is
// off by less than 2^-10 of them, and 2^-256 (1 + 2^-10) + 2^-287 < 2^-255.
#include "reference/truth/backward.hpp"

#include <boost/multiprecision/eigen.hpp>
#include <boost/multiprecision/gmp.hpp>

#include "reference/truth/gradient-inl.h"
#include "reference/truth/hundred_digits-inl.h"
#include "reference/truth/parameters-inl.h"
#include "reference/truth/tiers/fast.hpp"

namespace normgate {
namespace {

using namespace hundred_digits;

class Backward {
 public:
  Backward(const Problem& problem, const Inputs& inputs, SavedUse use, AllDigits* digits)
      : problem_(problem),
        inputs_(inputs),
        digits_(digits),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_),
        n_(groups_.size()),
        n_minus_1_(row_.centred && problem.convention.normalizing == NormalizingDivisor::n_minus_1),
        handed_(problem.saved && (use == SavedUse::short_form || use == SavedUse::textbook)),
        textbook_(handed_ && row_.centred && use == SavedUse::textbook),
        eps_(problem.eps),
        affine_(affine_of<T>(problem, inputs)),
        gamma_magnitude_(magnitudes(affine_.gamma)) {
    const std::size_t channels = affine_.gamma.size();
    truth_.groups.resize(static_cast<std::size_t>(groups_.count()));
    dgamma_.assign(problem.gamma ? channels : 0, T(0));
    dgamma_terms_.assign(dgamma_.size(), 0.0);
    dbeta_.assign(problem.beta ? channels : 0, T(0));
    const auto allocate = [&](Role role, std::size_t size) {
      truth_.out[role].resize(size);
      if (digits_ != nullptr) (*digits_)[role].resize(size);
    };
    allocate(Role::dx, static_cast<std::size_t>(element_count(problem.shape)));
    allocate(Role::dgamma, dgamma_.size());
    allocate(Role::dbeta, dbeta_.size());
  }

  Truth of_phase() { return problem_.phase == Phase::backward_training ? training() : inference(); }

 private:
  Truth training() {
    for (std::int64_t q = 0; q < groups_.count(); ++q) {
      if (problem_.from_output) {
        leave_statistics(q, not_a_number<T>(), not_a_number<T>(), not_a_number<T>());
        if (n_ > 0) differentiate_output(q);
        continue;
      }
      const auto own = own_statistics(problem_, values_of<T>(inputs_[Role::x], groups_, q));
      leave_statistics(q, own.mean, own.variance, own.rstd);
      if (n_ == 0) continue;
      if (handed_) {
        differentiate_handed(q);
      } else {
        const bool above = problem_.convention.eps == EpsPlacement::floor &&
                           hundred_digits::exceeds_eps(problem_, inputs_, groups_, q, own.variance);
        Group group;
        group.scalars.rstd = own.rstd;
        group.response = response(own.variance, own.rstd, problem_.convention.eps, above);
        differentiate(q, group,
                      [&](Eigen::Index p, std::int64_t, std::size_t) { return T(own.centred[p] * own.rstd); });
      }
    }
    leave_parameters();
    return std::move(truth_);
  }

  Truth inference() {
    for (std::int64_t q = 0; q < groups_.count(); ++q) {
      const auto given = given_statistics<T>(problem_, inputs_, groups_, q);
      leave_statistics(q, given.mean, given.variance, given.rstd);
      const double rstd = magnitude(given.rstd);
      const double mean = magnitude(given.mean);
      groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
        const std::size_t c = channel(at);
        const float upstream = inputs_[Role::dy][static_cast<std::size_t>(i)];
        const T dy(upstream);
        const T dx = weighted(dy, c) * given.rstd;
        leave_gradient(Role::dx, static_cast<std::size_t>(i), dx, magnitude(dx));
        if (problem_.beta) dbeta_[c] += dy;
        if (!problem_.gamma) return;
        const float x = inputs_[Role::x][static_cast<std::size_t>(i)];
        const T centred = row_.centred ? T(T(x) - given.mean) : T(x);
        dgamma_[c] += dy * (centred * given.rstd);
        dgamma_terms_[c] += modulus(upstream) * (modulus(x) + mean) * rstd;
      });
    }
    leave_parameters();
    return std::move(truth_);
  }

  struct Group {
    GradientScalars<T> scalars;
    T response;
  };

  static double modulus(float value) { return std::fabs(static_cast<double>(value)); }

  [[nodiscard]] std::size_t channel(const Shape& at) const {
    return static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at));
  }
  [[nodiscard]] T weighted(const T& dy, std::size_t c) const { return problem_.gamma ? T(dy * affine_.gamma[c]) : dy; }

  void leave_statistics(std::int64_t q, const T& mean, const T& variance, const T& rstd) {
    truth_.groups[static_cast<std::size_t>(q)] = {leave(mean), leave(variance), leave(rstd)};
  }

  // From the mean and stat that the kernel was handed, taken for exact.
  void differentiate_handed(std::int64_t q) {
    const auto handed = given_statistics<T>(problem_, inputs_, groups_, q);
    const Group group = answer_to(handed);
    differentiate(q, group, [&](Eigen::Index, std::int64_t i, std::size_t) {
      const T x(inputs_[Role::x][static_cast<std::size_t>(i)]);
      return T((row_.centred ? T(x - handed.mean) : x) * handed.rstd);
    });
  }

  // From y, beta, gamma and stat: x^ = (y - beta) / gamma.
  void differentiate_output(std::int64_t q) {
    const Group group = answer_to(given_statistics<T>(problem_, inputs_, groups_, q));
    differentiate(q, group, [&](Eigen::Index, std::int64_t i, std::size_t c) {
      T normalized(inputs_[Role::y][static_cast<std::size_t>(i)]);
      if (problem_.beta) normalized -= affine_.beta[c];
      if (problem_.gamma) normalized /= affine_.gamma[c];
      return normalized;
    });
  }

  [[nodiscard]] Group answer_to(const GroupStatistics<T>& handed) const {
    const Convention& convention = problem_.convention;
    Group group;
    group.scalars.rstd = handed.rstd;
    group.response = convention.saved == SavedStatistic::rstd
                         ? response_to_reciprocal(handed.rstd, eps_, convention.eps)
                         : response(handed.variance, handed.rstd, convention.eps, handed.variance > eps_);
    return group;
  }

  // One group of training: normalized(p, i, c) is x^ of the p-th element, whose dense index is i and channel c.
  template <typename Normalized>
  void differentiate(std::int64_t q, Group group, Normalized normalized_of) {
    Values<T> g(n_);
    Values<T> normalized(n_);
    std::vector<double> g_modulus(static_cast<std::size_t>(n_));
    std::vector<double> normalized_modulus(static_cast<std::size_t>(n_));
    T sum_of_g(0);
    T sum_of_products(0);  // g x^
    T sum_of_normalized(0);
    double terms_of_g = 0;
    double terms_of_products = 0;
    Eigen::Index p = 0;
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      const std::size_t c = channel(at);
      const float upstream = inputs_[Role::dy][static_cast<std::size_t>(i)];
      const T dy(upstream);
      const double dy_modulus = modulus(upstream);
      normalized[p] = normalized_of(p, i, c);
      const double x_modulus = magnitude(normalized[p]);
      T product = dy * normalized[p];
      g[p] = dy;
      if (problem_.beta) dbeta_[c] += dy;
      if (problem_.gamma) {
        dgamma_[c] += product;
        dgamma_terms_[c] += dy_modulus * x_modulus;
        g[p] *= affine_.gamma[c];
        product *= affine_.gamma[c];
      }
      sum_of_products += product;
      if (row_.centred) sum_of_g += g[p];
      if (textbook_) sum_of_normalized += normalized[p];
      const double modulus_of_g = gamma_magnitude_[c] * dy_modulus;
      terms_of_g += modulus_of_g;
      terms_of_products += modulus_of_g * x_modulus;
      g_modulus[static_cast<std::size_t>(p)] = modulus_of_g;
      normalized_modulus[static_cast<std::size_t>(p)] = x_modulus;
      ++p;
    });
    GradientScalars<T>& scalars = group.scalars;
    const double n = static_cast<double>(n_);
    if (row_.centred) scalars.mean_of_g = sum_of_g / T(n_);
    const T mean_of_normalized = sum_of_normalized / T(n_);
    scalars.pull = group.response * over_divisor(sum_of_products, n_, n_minus_1_, problem_.convention.single);
    // The factors of the terms in (11).
    const double rstd = magnitude(scalars.rstd);
    const double mean_of_g = row_.centred ? terms_of_g / n : 0;
    const double pull =
        magnitude(group.response) * over_divisor(terms_of_products, n_, n_minus_1_, problem_.convention.single);
    const double mean_modulus = magnitude(mean_of_normalized);
    p = 0;
    groups_.for_each(q, [&](std::int64_t i, const Shape&) {
      const auto at = static_cast<std::size_t>(p);
      const double terms = rstd * (g_modulus[at] + mean_of_g) + pull * (normalized_modulus[at] + mean_modulus);
      if (textbook_) normalized[p] -= mean_of_normalized;
      leave_gradient(Role::dx, static_cast<std::size_t>(i), input_gradient(g[p], normalized[p], scalars), terms);
      ++p;
    });
  }

  void leave_parameters() {
    const bool accumulates = problem_.convention.gradients == Gradients::accumulate;
    for (std::size_t c = 0; c < dgamma_.size(); ++c) {
      const float old = accumulates ? inputs_[Role::dgamma][c] : 0.0F;
      leave_gradient(Role::dgamma, c, dgamma_[c] + T(old), dgamma_terms_[c] + modulus(old));
    }
    for (std::size_t c = 0; c < dbeta_.size(); ++c) {
      const float old = accumulates ? inputs_[Role::dbeta][c] : 0.0F;
      leave_gradient(Role::dbeta, c, dbeta_[c] + T(old), 0.0);
    }
  }

  void leave_gradient(Role role, std::size_t at, const T& value, double terms) {
    truth_.out[role][at] = leave(value, terms);
    if (digits_ != nullptr) (*digits_)[role][at] = value;
  }

  const Problem& problem_;
  const Inputs& inputs_;
  AllDigits* digits_;
  const VariantRow& row_;
  Groups groups_;
  std::int64_t n_;
  bool n_minus_1_;
  bool handed_;    // the statistics are those that the kernel was handed, not those of x
  bool textbook_;  // and mean(x^) counts, which is 0 otherwise
  T eps_;
  Affine<T> affine_;
  std::vector<double> gamma_magnitude_;
  std::vector<T> dgamma_;
  std::vector<double> dgamma_terms_;
  std::vector<T> dbeta_;
  Truth truth_;
};

}  // namespace

Truth definition_backward(const Problem& problem, const Inputs& inputs, SavedUse use) {
  return Backward(problem, inputs, use, nullptr).of_phase();
}

Truth definition_truth(const Problem& problem, const Inputs& inputs, SavedUse use) {
  return is_backward(problem.phase) ? definition_backward(problem, inputs, use) : definition_forward(problem, inputs);
}

Truth backward_truth(const Problem& problem, const Inputs& inputs, SavedUse use) {
  if (auto truth = tiers::fast_backward(problem, inputs, use)) return *std::move(truth);
  return definition_backward(problem, inputs, use);
}

hundred_digits::AllDigits hundred_digits::backward_digits(const Problem& problem, const Inputs& inputs, SavedUse use) {
  AllDigits digits;
  Backward(problem, inputs, use, &digits).of_phase();
  return digits;
}

bool hundred_digits::exceeds_eps(const Problem& problem, const Inputs& inputs, const Groups& groups, std::int64_t q,
                                 const T& variance) {
  using boost::multiprecision::fabs;
  const T eps(problem.eps);
  if (variance == 0) return false;
  if (!(fabs(variance - eps) <= eps * T(0x1p-280))) return variance > eps;
  using Rational = boost::multiprecision::mpq_rational;
  Rational sum(0);
  Rational squares(0);
  groups.for_each(q, [&](std::int64_t i, const Shape&) {
    const Rational x(static_cast<double>(inputs[Role::x][static_cast<std::size_t>(i)]));
    sum += x;
    squares += x * x;
  });
  const bool centred = row_of(problem.variant).centred;
  if (centred) squares -= sum * sum / groups.size();
  const bool n_minus_1 = centred && problem.convention.normalizing == NormalizingDivisor::n_minus_1;
  return squares > Rational(problem.eps) * (n_minus_1 ? groups.size() - 1 : groups.size());
}

}  // namespace normgate
