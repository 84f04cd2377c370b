// What explains wrong statistics of parts and of their union. Predictions are made in double from the parts as they
// were handed.
//
// To add a hypothesis: a call of `with` in for_each_prediction().
#include "gate/engine/diagnosis/merge.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace normgate::diagnosis {

Diagnosed MergeDiagnosis::find() {
  seen_at_the_door();
  if (!suspects_.empty() && found_.empty()) {
    empty_part_used();
    for_each_prediction(
        [&](const std::string& diagnosis, const std::string& sentence, const std::string& advice, const Fit& fit) {
          if (fit.explains) found_.push_back({diagnosis, sentence, advice, 1, fit.matched, fit.residual});
        });
    if (beyond_bound_) {
      one_pass_variance();
      flushed_subnormals();
      lower_precision();
    }
  }
  return {!suspects_.empty() || !found_.empty(), found_};
}

bool MergeDiagnosis::contradicts() {
  return all_contradicted([this](const Visit& visit) { for_each_prediction(visit); });
}

std::vector<MergeDiagnosis::Part> MergeDiagnosis::parts_of(std::int64_t group) const {
  std::vector<Part> parts;
  std::size_t p = 0;
  groups_.for_each(group, [&](std::int64_t i, const Shape&) {
    const auto n = static_cast<double>(inputs_[Role::part_count][p++]);
    if (n == 0) return;
    const auto at = static_cast<std::size_t>(i);
    const double mean = subject_.row.centred ? static_cast<double>(inputs_[Role::part_mean][at]) : 0;
    parts.push_back({n, mean, static_cast<double>(inputs_[Role::part_stat][at])});
  });
  return parts;
}

void MergeDiagnosis::for_each_prediction(const Visit& visit) const {
  if (truth_.groups.size() != static_cast<std::size_t>(groups_.count())) return;
  const bool centred = subject_.row.centred;
  // `statistics_of_group` gives mean and variance.
  const auto with = [&](const std::string& diagnosis, const std::string& sentence,
                        const std::function<Part(std::int64_t)>& statistics_of_group) {
    if (!asked(diagnosis)) return;
    Truth truth = truth_;
    for (std::int64_t group = 0; group < groups_.count(); ++group) {
      const auto q = static_cast<std::size_t>(group);
      const Part made = statistics_of_group(group);
      const auto predicted = [](double value) {
        return Exact{value, 0, std::isfinite(value) ? 0x1p-40 * std::fabs(value) : 0};
      };
      if (centred) truth.out[Role::mean][q] = predicted(made.mean);
      truth.out[Role::stat][q] = predicted(made.variance);
    }
    visit(diagnosis, sentence, "", whole(truth, bounds_));
  };

  if (!merges()) {
    const auto n = static_cast<double>(groups_.size());
    with("variance over n-1", "the variance of a part over n-1; what is merged is over n", [&](std::int64_t group) {
      const Statistics truth = truth_of(group);
      return Part{n, truth.mean, truth.variance * (n / (n - 1))};
    });
    return;
  }

  // Mean and variance of parts with other weights: of the mean, and of the variance around it.
  using Weight = std::function<double(const Part&)>;
  const auto weighed = [](const std::vector<Part>& parts, const Weight& of_mean, const Weight& of_variance) {
    Part result;
    double weights = 0;
    for (const Part& part : parts) {
      weights += of_mean(part);
      result.mean += of_mean(part) * part.mean;
    }
    result.mean /= weights;
    weights = 0;
    for (const Part& part : parts) {
      const double d = part.mean - result.mean;
      weights += of_variance(part);
      result.variance += of_variance(part) * (part.variance + d * d);
    }
    result.variance /= weights;
    return result;
  };
  const Weight one = [](const Part&) { return 1.0; };
  const Weight count = [](const Part& part) { return part.n; };

  with("counts of the parts ignored", "every part weighs the same, whatever it counts",
       [&](std::int64_t group) { return weighed(parts_of(group), one, one); });
  if (centred) {
    with("mean of the parts' means", "the mean of the means of parts of different counts",
         [&](std::int64_t group) { return weighed(parts_of(group), one, count); });
    with("parts merged without the difference of their means",
         "the variance within the parts only: their means differ, and that is left out", [&](std::int64_t group) {
           Part result{1, truth_of(group).mean, 0};
           double n = 0;
           for (const Part& part : parts_of(group)) {
             n += part.n;
             result.variance += part.n * part.variance;
           }
           result.variance /= n;
           return result;
         });
  }
  if (!inputs_[Role::part_count].empty())
    with("total count taken for that of the first part times their number",
         "sums over as many elements as if every part counted what the first does", [&](std::int64_t group) {
           const double n =
               static_cast<double>(inputs_[Role::part_count].front()) * static_cast<double>(groups_.size());
           Part result;
           const std::vector<Part> parts = parts_of(group);
           for (const Part& part : parts) result.mean += part.n * part.mean / n;
           for (const Part& part : parts) {
             const double d = part.mean - result.mean;
             result.variance += part.n * (part.variance + d * d) / n;
           }
           return result;
         });
  const bool last_counts = !inputs_[Role::part_count].empty() && inputs_[Role::part_count].back() != 0;
  if (last_counts && groups_.size() > 1)
    with("last part lost", "the union of all parts but the last one", [&](std::int64_t group) {
      std::vector<Part> parts = parts_of(group);
      parts.pop_back();
      return weighed(parts, count, count);
    });
}

void MergeDiagnosis::empty_part_used() {
  if (!merges() || !asked("statistics of an empty part used")) return;
  const std::vector<float>& counts = inputs_[Role::part_count];
  const bool empty = std::any_of(counts.begin(), counts.end(), [](float count) { return count == 0; });
  const bool nan = std::all_of(suspects_.begin(), suspects_.end(),
                               [&](const Place& place) { return std::isnan(got(place.role, place.index)); });
  if (empty && nan && beyond_bound_)
    add(1, "statistics of an empty part used",
        "NaN: a part without elements has none or NaN for statistics, and is to be left out whatever stands there");
}

void MergeDiagnosis::one_pass_variance() {
  if (!merges() || !asked("one-pass variance") || !subject_.row.centred || !only_suspected({Role::stat})) return;
  Claim claim = subject_.kernel.claim;
  if (claim.variance == VarianceAlgorithm::one_pass) return;
  claim.variance = VarianceAlgorithm::one_pass;
  if (covered_by(claim))
    add(2, "one-pass variance", "one-pass variance (mean of squares less square of the mean) of the parts",
        "declare `.variance = NG_ONE_PASS` in its claim to be held to that");
}

}  // namespace normgate::diagnosis
