// The second order at 100 digits, and the proof of the bounds that the values leave with.
//
// T has p = 334 bits, w = 2^-p; (2), (7) to (9) and the limits of backward.cpp hold: g and h = ddgamma dy are exact, r
// and s have relative error 2^42 w, x^ 2^43 w. A mean over n has error 2^41 w of the mean of moduli, and so have A, G
// and H of |u| + mean|u| =: |A|* and the like. Sums over a group have an error of 2^45 w of the sum of moduli, with the
// moduli |A|* in q, and a, b, c and q of 2^47 w of theirs, a* = s sum|u x^| / N_v and so on. 2 + s/r has 2^44 w. Each
// term of B and dx is a product of at most four of these: its error is below 2^50 w <= 2^-284 of
//   B*   = r |A|* + a* |x^|
//   ddy* = |gamma| B* + |ddgamma x^| + |ddbeta|
//   dx*  = r (|H|* + b* |A|* + a* |G|*) + |x^| ((2 + s/r) a* b* + r q* + c*).
// dgamma is a sum of at most 2^40 terms: one of m terms adds m w, so that its error is below 2^51 w of sum |dy| B*.
// leave() adds 2^-255 of them, which are evaluated in double and off by less than 2^-10 of themselves. Where such a
// modulus overflows, so does the bound, and nothing is decided.
#include "reference/truth/second_order.hpp"

#include <boost/multiprecision/eigen.hpp>

#include "reference/truth/hundred_digits-inl.h"
#include "reference/truth/parameters-inl.h"
#include "reference/truth/second_order-inl.h"

namespace normgate {
namespace {

using namespace hundred_digits;

class SecondOrder {
 public:
  SecondOrder(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        inputs_(inputs),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_),
        n_minus_1_(row_.centred && problem.convention.normalizing == NormalizingDivisor::n_minus_1),
        eps_(problem.eps),
        affine_(affine_of<T>(problem, inputs)) {
    const auto elements = static_cast<std::size_t>(element_count(problem.shape));
    truth_.out[Role::ddy].resize(elements);
    truth_.out[Role::dx].resize(elements);
    truth_.groups.resize(static_cast<std::size_t>(groups_.count()));
    dgamma_.assign(problem.gamma ? affine_.gamma.size() : 0, T(0));
    dgamma_terms_.assign(dgamma_.size(), 0.0);
  }

  Truth run() {
    for (std::int64_t q = 0; q < groups_.count(); ++q) {
      const auto own = own_statistics(problem_, values_of<T>(inputs_[Role::x], groups_, q));
      truth_.groups[static_cast<std::size_t>(q)] = {leave(own.mean), leave(own.variance), leave(own.rstd)};
      if (groups_.size() > 0) differentiate(q, own);
    }
    for (std::size_t c = 0; c < dgamma_.size(); ++c)
      truth_.out[Role::dgamma].push_back(leave(dgamma_[c], dgamma_terms_[c]));
    return std::move(truth_);
  }

 private:
  // A quantity of each element, and the sum of moduli that it is made of.
  struct Elements {
    explicit Elements(std::int64_t n) : value(n), terms(static_cast<std::size_t>(n)) {}
    Values<T> value;
    std::vector<double> terms;
    void set(Eigen::Index p, const T& v) {
      value[p] = v;
      terms[static_cast<std::size_t>(p)] = magnitude(v);
    }
    void centre() {
      const T mean = value.sum() / T(value.size());
      double mean_terms = 0;
      for (const double term : terms) mean_terms += term / static_cast<double>(terms.size());
      value -= mean;
      for (double& term : terms) term += mean_terms;
    }
  };
  struct Sum {
    T value = T(0);
    double terms = 0;
  };

  void differentiate(std::int64_t q, const GroupStatistics<T>& own) {
    const std::int64_t n = groups_.size();
    std::vector<std::size_t> index, channel;
    Elements u(n), g(n), h(n), normalized(n);
    Eigen::Index p = 0;
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      index.push_back(static_cast<std::size_t>(i));
      channel.push_back(static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at)));
      const T dy(inputs_[Role::dy][index.back()]);
      u.set(p, T(inputs_[Role::ddx][index.back()]));
      g.set(p, problem_.gamma ? T(dy * affine_.gamma[channel.back()]) : dy);
      h.set(p, problem_.gamma ? T(dy * T(inputs_[Role::ddgamma][channel.back()])) : T(0));
      normalized.set(p, T(own.centred[p] * own.rstd));
      ++p;
    });
    const bool above = problem_.convention.eps == EpsPlacement::floor &&
                       hundred_digits::exceeds_eps(problem_, inputs_, groups_, q, own.variance);
    const T s = response(own.variance, own.rstd, problem_.convention.eps, above);
    const auto pull = [&](const Elements& left, const Elements& right) {
      T sum(0);
      double terms = 0;
      for (Eigen::Index i = 0; i < n; ++i) {
        sum += left.value[i] * right.value[i];
        terms += left.terms[static_cast<std::size_t>(i)] * right.terms[static_cast<std::size_t>(i)];
      }
      const SingleCount single = problem_.convention.single;
      return Sum{T(s * over_divisor(sum, n, n_minus_1_, single)),
                 magnitude(s) * over_divisor(terms, n, n_minus_1_, single)};
    };
    const Sum of_u = pull(u, normalized);
    const Sum of_g = pull(g, normalized);
    const Sum of_h = pull(h, normalized);
    if (row_.centred) {
      u.centre();
      h.centre();
    }
    const Sum of_products = pull(u, g);
    if (row_.centred) g.centre();

    SecondOrderScalars<T> scalars;
    scalars.rstd = own.rstd;
    scalars.curvature = T(2) + s / own.rstd;
    scalars.of_u = of_u.value;
    scalars.of_g = of_g.value;
    scalars.of_h = of_h.value;
    scalars.of_products = of_products.value;
    const double rstd = magnitude(own.rstd);
    const double through_variance =
        magnitude(scalars.curvature) * of_u.terms * of_g.terms + rstd * of_products.terms + of_h.terms;
    for (p = 0; p < n; ++p) {
      const auto e = static_cast<std::size_t>(p);
      const std::size_t c = channel[e];
      const T dy(inputs_[Role::dy][index[e]]);
      const T response_to_u = second_order_response(T(u.value[p]), T(normalized.value[p]), scalars);
      const double response_terms = rstd * u.terms[e] + of_u.terms * normalized.terms[e];
      T ddy = response_to_u;
      double ddy_terms = response_terms;
      if (problem_.gamma) {
        const T weight(inputs_[Role::ddgamma][c]);
        ddy = affine_.gamma[c] * response_to_u + weight * normalized.value[p];
        ddy_terms = magnitude(affine_.gamma[c]) * response_terms + magnitude(weight) * normalized.terms[e];
        dgamma_[c] += dy * response_to_u;
        dgamma_terms_[c] += magnitude(dy) * response_terms;
      }
      if (problem_.beta) {
        const T weight(inputs_[Role::ddbeta][c]);
        ddy += weight;
        ddy_terms += magnitude(weight);
      }
      truth_.out[Role::ddy][index[e]] = leave(ddy, ddy_terms);
      const T dx = second_order_input(T(u.value[p]), T(g.value[p]), T(h.value[p]), T(normalized.value[p]), scalars);
      const double dx_terms = rstd * (h.terms[e] + of_g.terms * u.terms[e] + of_u.terms * g.terms[e]) +
                              normalized.terms[e] * through_variance;
      truth_.out[Role::dx][index[e]] = leave(dx, dx_terms);
    }
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const VariantRow& row_;
  Groups groups_;
  bool n_minus_1_;
  T eps_;
  Affine<T> affine_;
  std::vector<T> dgamma_;
  std::vector<double> dgamma_terms_;
  Truth truth_;
};

}  // namespace

Truth second_order(const Problem& problem, const Inputs& inputs) { return SecondOrder(problem, inputs).run(); }

}  // namespace normgate
