// Hypotheses about a wrong forward.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gate/engine/diagnosis/evidence.hpp"

namespace normgate::diagnosis {

class ForwardDiagnosis : private Evidence {
 public:
  ForwardDiagnosis(const Problem& problem, const Inputs& inputs, const Subject& subject, const runner::Outcome& outcome,
                   std::string_view only)
      : Evidence(problem, inputs, subject, outcome, only) {}

  Diagnosed find();

  bool contradicts();

 private:
  // Outputs that are no results, and predictions by the reference: forward.cpp.

  void handed_on();
  void for_each_prediction(const Visit& visit) const;
  void parameters(const Visit& visit) const;

  [[nodiscard]] bool running_suspected() const;

  // Whether changed inputs of one role can explain the suspects at all: a truth costs far more than this.
  [[nodiscard]] bool worth_a_truth(Role role, const Inputs& changed) const;

  // Two outputs of one size that have changed places.
  void swapped_outputs(const Visit& visit) const;

  // running_var with N/(N-1) where the batch has N*S values per channel.
  void samples_counted(const Visit& visit) const;
  [[nodiscard]] double weight_of_new() const;

  // Predictions from the statistics of groups, in double, far more than the errors in question need:
  // forward_statistics.cpp.

  // `saved_too`: the saved statistics are those predicted. Running statistics do not follow from a prediction of
  // eps, and are not compared with one of statistics.
  Fit groups(const StatisticsOf& statistics_of_group, bool saved_too, bool parts_allowed) const;

  void other_eps(const Visit& visit) const;

  // Mean and variance of the elements that are kept; `mean_of_all` and `variance_of_all`: the others are lost in the
  // other one only; `divide_by_all`: the lost elements are counted.
  struct Losses {
    bool mean_of_all = false;
    bool variance_of_all = false;
    bool divide_by_all = false;
  };
  using Kept = std::function<bool(std::int64_t position, const Shape& at)>;
  Statistics statistics_of(std::int64_t group, const Kept& kept, const Losses& losses) const;
  Statistics around(std::int64_t group, double mean, double per_element) const;
  [[nodiscard]] std::vector<double> elements_of(std::int64_t group) const;

  void other_statistics(const Visit& visit) const;
  void other_divisors(const Visit& visit) const;

  template <typename With>
  void lost_elements(const With& with) const;

  // Elements at the end of a group that count twice, and lanes behind it that count.
  template <typename With>
  void repeated_elements(const With& with) const;
  template <typename With>
  void padding(const With& with) const;
  // Sums that are rounded to a shorter type after each addition.
  template <typename With>
  void short_sums(const With& with) const;

  // Partial statistics of a group, put together in a wrong way.
  template <typename With>
  void merged_parts(const With& with) const;

  // Elements that do not follow from the statistics of their group: forward_elements.cpp.

  Fit elements(const std::function<Statistics(const Shape&)>& statistics_at) const;
  void other_axes(const Visit& visit) const;

  // What the kernel may have made of an element, by the true statistics of its group; nullopt: no such thing.
  using ElementOf = std::function<std::optional<double>(std::int64_t group, std::int64_t i, const Shape& at,
                                                        const Statistics& truth)>;
  [[nodiscard]] bool affine_possible() const;
  void elements_that_take(std::string_view diagnosis, const std::string& sentence, const ElementOf& value);
  void of_other_channels();
  void swapped_elements();
  void clipped();

  // Other algorithms: forward_algorithms.cpp.

  // The very results of the folded form, from statistics a few roundings from the true ones.
  void folded_form();
  [[nodiscard]] bool folded(std::int64_t group) const;

  // Estimates of the reciprocal root that are known to the bit.
  void approximate_root();

  // The factor by which y - beta of a group is off, less 1, if every element that it would move is off by it, up to a
  // `share` of that.
  [[nodiscard]] std::optional<double> gain_of(std::int64_t group, double share) const;
  [[nodiscard]] bool any_y_suspected(std::int64_t group) const;
  [[nodiscard]] bool gains_possible() const;
  [[nodiscard]] bool saved_with(std::int64_t group, double gain) const;

  // A variance off by roundings of the mean's square, or negative, and nothing else wrong.
  void one_pass_variance();

  // Errors that a claim of sequential sums would cover.
  void sequential_sums();

  // Not why, but what: the factor of each group is wrong, the mean right.
  void gain_per_group();
};

}  // namespace normgate::diagnosis
