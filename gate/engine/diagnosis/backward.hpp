// Hypotheses about wrong gradients.
//
// To add one: a line with its formula among the predictions of dx (backward_dx.cpp) or of dgamma and dbeta
// (backward_parameters.cpp); what needs another truth stands in backward.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gate/engine/diagnosis/evidence.hpp"

namespace normgate::diagnosis {

class BackwardDiagnosis : private Evidence {
 public:
  BackwardDiagnosis(const Problem& problem, const Inputs& inputs, const Subject& subject,
                    const runner::Outcome& outcome, std::string_view only);

  Diagnosed find();
  bool contradicts();

 private:
  // What gradients are made of, in double: far more than the errors in question need.
  struct Model {
    std::vector<double> dy;         // by element
    std::vector<double> x;          // by element; empty where the output is handed instead
    std::vector<double> gamma;      // by channel, as used
    std::vector<double> xhat;       // by element
    std::vector<double> direction;  // by element: xhat, or less its mean over the group in the textbook's form
    std::vector<double> rstd;       // by group
    std::vector<double> response;   // by group: -2 r'(v) / r², the factor of the xhat term
  };

  // dx of the elements of a group, in the group's order; returns the largest sum of moduli of its terms.
  using GradientOfGroup = std::function<double(std::int64_t group, std::vector<double>& dx)>;
  struct Prediction {
    GradientOfGroup dx;                         // empty: as the truth
    PerRole<std::vector<double>> value, scale;  // of dgamma and dbeta; empty: as the truth
    bool in_parts = false;                      // groups that hold may be otherwise
  };

  // A dx of training: gamma^a r (gamma^b dy - mean(gamma^c dy)) - gamma^a s xhat mean(gamma^c dy xhat), with places to
  // go wrong.
  struct Formula {
    double mean_weight = 1;
    double xhat_weight = 1;
    double mean_divisor = 1;
    double xhat_divisor = 1;
    int gamma = 1;                   // powers: of gamma beside dy,
    int gamma_in_sums = 1;           // beside dy in the sums,
    int gamma_outside = 0;           // of everything;
    int rstd = 0;                    // of 1/D: further ones of everything,
    int rstd_of_xhat = 0;            // of the xhat term
    std::int64_t summed = 0;         // elements of a group that are summed
    bool x_in_sum = false;           // x/D for xhat in the sum
    bool means_not_divided = false;  // by D
  };

  void collect_model();
  [[nodiscard]] StatisticsOf statistics_used() const;
  [[nodiscard]] double response(const Statistics& statistics) const;
  [[nodiscard]] Model model_of(const StatisticsOf& statistics, std::vector<double> dy, std::vector<double> x,
                               std::vector<double> gamma) const;
  // Of `x`, in double.
  [[nodiscard]] Statistics statistics_of(const std::vector<double>& x, std::int64_t group) const;
  [[nodiscard]] bool model_holds() const;
  [[nodiscard]] bool handed() const;
  [[nodiscard]] bool from_x() const { return !model_.x.empty(); }
  [[nodiscard]] std::vector<double> doubles(Role role) const;
  [[nodiscard]] Formula formula() const;
  // Of a model that lives as long as what is predicted.
  [[nodiscard]] GradientOfGroup gradient(const Model& model, const Formula& formula) const;
  GradientOfGroup gradient(const Model&&, const Formula&) const = delete;
  // Sums over a channel of a term per element, and what they are added to.
  using TermOf = std::function<double(std::size_t i)>;
  void sum_terms(Prediction& prediction, Role role, const TermOf& term, double factor = 1) const;
  [[nodiscard]] Prediction all_of(const Model& model, const Formula& formula) const;
  Prediction all_of(const Model&&, const Formula&) const = delete;
  [[nodiscard]] double old_value(Role role, std::size_t c) const;
  [[nodiscard]] double product_of(std::size_t i) const { return model_.dy[i] * model_.xhat[i]; }

  [[nodiscard]] Fit compare(const Prediction& prediction) const;

  // backward.cpp
  void seen_in_parameters();
  void zero_or_handed_on();
  void dbeta_of_x();
  void lost_where_nothing_varies();
  void for_each_prediction(const Visit& visit) const;
  void other_uses(const Visit& visit) const;
  void other_inputs(const Visit& visit) const;
  void clamped_gammas(const Visit& visit) const;
  void other_statistics(const Visit& visit) const;
  void other_layouts(const Visit& visit) const;
  void other_claims();
  [[nodiscard]] bool large_means() const;
  // dgamma and dbeta whose elements all have the bits of a shorter type.
  void short_parameters();

  // backward_dx.cpp
  void other_formulas(const Visit& visit) const;
  void other_means(const Visit& visit) const;
  void other_axes(const Visit& visit) const;
  // Not why, but what: dx is off by a multiple of one of its terms in each group.
  void error_of_a_term();
  // The elements that a multiple of the term moves, if in each group dx is off by one, up to an eighth; else 0.
  [[nodiscard]] std::int64_t multiple_of(const TermOf& term) const;

  // backward_parameters.cpp
  void other_terms(const Visit& visit) const;
  void other_channels(const Visit& visit) const;
  void accumulation(const Visit& visit) const;
  void lost_rows(const Visit& visit) const;
  void common_factor();

  [[nodiscard]] bool asks_for_dx() const { return !quick_ || (any_[Role::dx] && only_suspected({Role::dx})); }
  [[nodiscard]] bool asks_for_parameters() const { return !quick_ || only_suspected({Role::dgamma, Role::dbeta}); }

  std::vector<std::size_t> order_;    // elements, group after group
  std::vector<std::size_t> channel_;  // by element
  std::size_t channels_ = 0;
  Model model_;
  bool model_holds_ = false;
};

}  // namespace normgate::diagnosis
