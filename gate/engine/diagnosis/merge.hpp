// Hypotheses about wrong statistics of parts and of their union.
#pragma once

#include <string_view>
#include <vector>

#include "gate/engine/diagnosis/evidence.hpp"

namespace normgate::diagnosis {

class MergeDiagnosis : private Evidence {
 public:
  MergeDiagnosis(const Problem& problem, const Inputs& inputs, const Subject& subject, const runner::Outcome& outcome,
                 std::string_view only)
      : Evidence(problem, inputs, subject, outcome, only) {}

  Diagnosed find();

  bool contradicts();

 private:
  // A part that has elements, as it is handed.
  struct Part {
    double n = 0;
    double mean = 0;
    double variance = 0;
  };
  [[nodiscard]] bool merges() const { return problem_.phase == Phase::merge_statistics; }
  [[nodiscard]] std::vector<Part> parts_of(std::int64_t group) const;

  void for_each_prediction(const Visit& visit) const;
  // NaN where a part without elements was taken in.
  void empty_part_used();
  void one_pass_variance();
};

}  // namespace normgate::diagnosis
