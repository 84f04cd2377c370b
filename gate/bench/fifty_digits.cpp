// Compiled with -O3 and without assertions (gate/CMakeLists.txt): the comparison is with the best that is had simply.
#include "gate/bench/fifty_digits.hpp"

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <boost/multiprecision/eigen.hpp>
#include <boost/multiprecision/mpfr.hpp>

#include "reference/truth/gradient-inl.h"
#include "reference/truth/parameters-inl.h"

namespace normgate::bench {

class FiftyDigitsDefinition::Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;
  // With `values`, leaves the results there.
  virtual void run(PerRole<std::vector<double>>* values) = 0;
};

namespace {

template <typename T>
class Definition final : public FiftyDigitsDefinition::Work {
 public:
  Definition(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        inputs_(inputs),
        row_(row_of(problem.variant)),
        groups_(problem.shape, row_),
        results_(static_cast<std::size_t>(groups_.size())) {}

  void run(PerRole<std::vector<double>>* values) override {
    values_ = values;
    affine_ = affine_of<T>(problem_, inputs_);
    dgamma_.assign(problem_.gamma ? affine_.gamma.size() : 0, T(0));
    dbeta_.assign(problem_.beta ? affine_.gamma.size() : 0, T(0));
    const Role role = in_place_output(problem_.phase);
    if (values_ != nullptr) (*values_)[role].resize(static_cast<std::size_t>(element_count(problem_.shape)));
    for (std::int64_t q = 0; q < groups_.count(); ++q) {
      switch (problem_.phase) {
        case Phase::forward_training:
          forward_training(q);
          break;
        case Phase::forward_inference:
          forward_inference(q);
          break;
        case Phase::backward_training:
          backward_training(q);
          break;
        case Phase::backward_inference:
          backward_inference(q);
          break;
        case Phase::statistics:
        case Phase::merge_statistics:
        case Phase::double_backward:
          break;  // not measured: normalizing_phases
      }
      if (values_ == nullptr) continue;
      std::size_t p = 0;
      groups_.for_each(q, [&](std::int64_t i, const Shape&) {
        (*values_)[role][static_cast<std::size_t>(i)] = static_cast<double>(results_[p++]);
      });
    }
    if (values_ == nullptr || !is_backward(problem_.phase)) return;
    for (const T& sum : dgamma_) (*values_)[Role::dgamma].push_back(static_cast<double>(sum));
    for (const T& sum : dbeta_) (*values_)[Role::dbeta].push_back(static_cast<double>(sum));
  }

 private:
  [[nodiscard]] std::size_t channel(const Shape& at) const {
    return static_cast<std::size_t>(dense_index(problem_.shape, row_.affine, at));
  }
  [[nodiscard]] const float& dy(std::int64_t i) const { return inputs_[Role::dy][static_cast<std::size_t>(i)]; }

  void forward_training(std::int64_t q) {
    const auto group = own_statistics(problem_, values_of<T>(inputs_[Role::x], groups_, q));
    std::size_t p = 0;
    groups_.for_each(q, [&](std::int64_t, const Shape& at) {
      const std::size_t c = channel(at);
      results_[p] = affine(group.centred[static_cast<Eigen::Index>(p)], group.rstd, affine_.gamma[c], affine_.beta[c]);
      ++p;
    });
  }

  void forward_inference(std::int64_t q) {
    const auto given = given_statistics<T>(problem_, inputs_, groups_, q);
    std::size_t p = 0;
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      const std::size_t c = channel(at);
      const T x(inputs_[Role::x][static_cast<std::size_t>(i)]);
      const T centred = row_.centred ? T(x - given.mean) : x;
      results_[p++] = affine(centred, given.rstd, affine_.gamma[c], affine_.beta[c]);
    });
  }

  void backward_training(std::int64_t q) {
    const auto own = own_statistics(problem_, values_of<T>(inputs_[Role::x], groups_, q));
    const auto n = static_cast<std::int64_t>(groups_.size());
    normalized_.resize(groups_.size());
    g_.resize(groups_.size());
    T sum_of_g(0);
    T sum_of_products(0);
    Eigen::Index p = 0;
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      const std::size_t c = channel(at);
      const T upstream(dy(i));
      normalized_[p] = own.centred[p] * own.rstd;
      T product = upstream * normalized_[p];
      g_[p] = upstream;
      if (problem_.beta) dbeta_[c] += upstream;
      if (problem_.gamma) {
        dgamma_[c] += product;
        g_[p] *= affine_.gamma[c];
        product *= affine_.gamma[c];
      }
      sum_of_products += product;
      if (row_.centred) sum_of_g += g_[p];
      ++p;
    });
    const T eps(problem_.eps);
    GradientScalars<T> scalars;
    scalars.rstd = own.rstd;
    if (row_.centred) scalars.mean_of_g = sum_of_g / T(n);
    const bool n_minus_1 = row_.centred && problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
    scalars.pull = response(own.variance, own.rstd, problem_.convention.eps, own.variance > eps) *
                   over_divisor(sum_of_products, n, n_minus_1, problem_.convention.single);
    for (p = 0; p < groups_.size(); ++p)
      results_[static_cast<std::size_t>(p)] = input_gradient(g_[p], normalized_[p], scalars);
  }

  void backward_inference(std::int64_t q) {
    const auto given = given_statistics<T>(problem_, inputs_, groups_, q);
    std::size_t p = 0;
    groups_.for_each(q, [&](std::int64_t i, const Shape& at) {
      const std::size_t c = channel(at);
      const T upstream(dy(i));
      results_[p++] = (problem_.gamma ? T(upstream * affine_.gamma[c]) : upstream) * given.rstd;
      if (problem_.beta) dbeta_[c] += upstream;
      if (!problem_.gamma) return;
      const T x(inputs_[Role::x][static_cast<std::size_t>(i)]);
      const T centred = row_.centred ? T(x - given.mean) : x;
      dgamma_[c] += upstream * (centred * given.rstd);
    });
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const VariantRow& row_;
  Groups groups_;
  Affine<T> affine_;
  // Of one group.
  std::vector<T> results_;
  Values<T> normalized_;
  Values<T> g_;
  std::vector<T> dgamma_;
  std::vector<T> dbeta_;
  PerRole<std::vector<double>>* values_ = nullptr;
};

using boost::multiprecision::allocate_stack;
using boost::multiprecision::et_off;
using boost::multiprecision::number;
using CppBinFloat = number<boost::multiprecision::cpp_bin_float<50>, et_off>;
using Mpfr = number<boost::multiprecision::mpfr_float_backend<50, allocate_stack>, et_off>;

}  // namespace

FiftyDigitsDefinition::FiftyDigitsDefinition(FiftyDigits type, const Problem& problem, const Inputs& inputs) {
  if (type == FiftyDigits::mpfr) {
    work_ = std::make_unique<Definition<Mpfr>>(problem, inputs);
  } else {
    work_ = std::make_unique<Definition<CppBinFloat>>(problem, inputs);
  }
}
FiftyDigitsDefinition::~FiftyDigitsDefinition() = default;

void FiftyDigitsDefinition::run() { work_->run(nullptr); }
PerRole<std::vector<double>> FiftyDigitsDefinition::values() {
  PerRole<std::vector<double>> values;
  work_->run(&values);
  return values;
}

}  // namespace normgate::bench
