// Wrong forwards that follow from wrong statistics of groups: another eps, lost elements, badly merged parts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "gate/engine/diagnosis/forward.hpp"

namespace normgate::diagnosis {

Fit ForwardDiagnosis::groups(const StatisticsOf& statistics_of_group, bool saved_too, bool parts_allowed) const {
  Fit fit;
  fit.explains = !suspects_.empty();
  double before = 0;
  double after = 0;
  for (std::int64_t group = 0; group < groups_.count(); ++group) {
    const auto g = static_cast<std::size_t>(group);
    const Statistics predicted = statistics_of_group(group);
    const double growth = std::max(1.0, std::pow(predicted.factor / truth_.groups[g].rstd.hi, 3.0));
    bool agrees = true;
    double scale = 0;
    double share = 2 * unit_float32;  // the declared tolerance of the group, relative to its scale
    bool judged = false;
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      const auto index = static_cast<std::size_t>(i);
      const double size = std::fabs((x(i) - predicted.mean) * predicted.factor * gamma_at(at)) + std::fabs(beta_at(at));
      if (std::isfinite(size)) scale = std::max(scale, size);
      const double tolerance = bounds_.tolerance[Role::y][index];
      judged = judged || std::isfinite(tolerance);
      if (std::isfinite(tolerance) && bounds_.scale[Role::y][index] > 0)
        share = std::max(share, tolerance / bounds_.scale[Role::y][index]);
    });
    judged = judged || (written(Role::stat) && g < bounds_.tolerance[Role::stat].size() &&
                        std::isfinite(bounds_.tolerance[Role::stat][g]));
    if (!judged || !written(Role::y)) {
      // Nothing is known of such a group.
      if (group_suspected_[g]) fit.explains = false;
      continue;
    }
    // On (nearly) constant groups the tolerance is so wide that it would explain anything.
    const double wide = 2 * share * growth * scale + 0x1p-126;
    const double tolerance = std::min(wide, 0x1p-9 * scale + 0x1p-126);
    double offset = 0;
    const auto compare = [&](Role role, std::size_t index, double value, double most, double least_other) {
      const bool suspect = suspected(role, index);
      const double real = got(role, index);
      if (!std::isfinite(value)) {
        if (std::isfinite(real)) agrees = false;
        if (std::isfinite(real)) fit.contradicted = true;
        if (suspect) before = infinity;
        return;
      }
      const double error = distance(real, Exact{value, 0, 0});
      if (!(error <= most)) agrees = false;
      if (error > least_other) fit.contradicted = true;
      if (!suspect) return;
      before = std::max(before, error_of(role, index) / bounds_.scale[role][index]);
      after = std::max(after, error / bounds_.scale[role][index]);
      // An offset alone confirms no factor but 0.
      const bool telling = role != Role::y || std::fabs(value - offset) > most || predicted.factor == 0;
      if (value != 0 && telling && error <= most && error <= error_of(role, index) / 4) ++fit.matched;
    };
    groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
      if (!std::isfinite(bounds_.tolerance[Role::y][static_cast<std::size_t>(i)])) return;
      offset = beta_at(at);
      compare(Role::y, static_cast<std::size_t>(i),
              (x(i) - predicted.mean) * predicted.factor * gamma_at(at) + beta_at(at), tolerance, 4 * wide);
    });
    const auto compare_saved = [&](Role role, double value) {
      if (!written(role) || g >= truth_.out[role].size()) return;
      if (!saved_too && !suspected(role, g)) return;
      const double declared = bounds_.tolerance[role][g];
      const double size = std::fabs(truth_.out[role][g].hi);
      const double grown = size > 0 ? declared / size * growth * std::fabs(value) : declared;
      const double most = 2 * std::max(declared, grown) + 4 * unit_float32 * std::fabs(value);
      if (std::isfinite(most))
        compare(role, g, value, std::min(most, 0x1p-9 * std::fabs(value) + (role == Role::mean ? declared : 0.0)),
                4 * most);
    };
    compare_saved(Role::mean, predicted.mean);
    compare_saved(Role::stat,
                  problem_.convention.saved == SavedStatistic::variance ? predicted.variance : predicted.factor);
    if (agrees) continue;
    if (group_suspected_[g] || !parts_allowed) fit.explains = false;
    if (!fit.explains && quick_) return {};
    fit.in_some_groups = true;
  }
  fit.explains = fit.explains && after <= before / 8;
  fit.residual = before > 0 && std::isfinite(before) ? after / before : 0;
  return fit;
}

void ForwardDiagnosis::other_eps(const Visit& visit) const {
  const bool known = std::all_of(truth_.groups.begin(), truth_.groups.end(), [](const GroupTruth& truth) {
    return truth.variance.finite() && truth.mean.finite();
  });
  if (!known || !only_suspected({Role::y, Role::mean, Role::stat})) return;
  const double eps = problem_.eps;
  const auto with = [&](const std::string& diagnosis, const std::string& sentence, double other) {
    if (!asked(diagnosis) || other == eps) return;
    visit(diagnosis, sentence, "",
          groups(
              [&](std::int64_t group) {
                Statistics statistics = truth_of(group);
                statistics.factor = reciprocal_root(problem_.convention, statistics.variance, other);
                return statistics;
              },
              true, false));
  };
  with("eps ignored", "the result with eps = 0", 0);
  with("eps 1e-5 whatever is given", fmt::format("the result with eps = 1e-05; given was {}", shortest(eps)),
       Problem{}.eps);
  with("eps 1 whatever is given", fmt::format("the result with eps = 1; given was {}", shortest(eps)), 1);
  for (const auto& [name, least] : {std::pair{"1e-5", 1e-5},
                                    {"1e-6", 1e-6},
                                    {"2^-23", 0x1p-23},
                                    {"1e-8", 1e-8},
                                    {"1e-10", 1e-10},
                                    {"1e-12", 1e-12}})
    with(fmt::format("eps raised to {}", name),
         fmt::format("the result with an eps of at least {}; given was {}", name, shortest(eps)), std::max(eps, least));
  for (const ShortType& type : short_types)
    with(fmt::format("eps rounded to {}", type.name),
         fmt::format("the result with eps rounded to {}: {} for {}", type.name,
                     shortest(rounded(eps, type.bits, type.smallest)), shortest(eps)),
         rounded(eps, type.bits, type.smallest));
  with("twice eps", "the result with 2*eps: eps is added twice", 2 * eps);
  with("eps squared", "the result with eps*eps", eps * eps);
  if (groups_.size() > 1)
    with("eps added before the division by n", "the result with eps/n: eps is added to the sum of squares",
         eps / static_cast<double>(groups_.size()));
  const auto rooted = [&](const std::string& diagnosis, const std::string& sentence,
                          const std::function<double(double)>& factor_of) {
    if (!asked(diagnosis)) return;
    visit(diagnosis, sentence, "",
          groups(
              [&](std::int64_t group) {
                Statistics statistics = truth_of(group);
                statistics.factor = factor_of(statistics.variance);
                return statistics;
              },
              true, false));
  };
  rooted("root taken twice", "the standard deviation taken for the variance: the root is taken twice",
         [&](double variance) { return root(std::sqrt(variance)); });
  rooted("root not taken", "division by the variance: its root is not taken",
         [&](double variance) { return 1 / (variance + eps); });
  rooted("reciprocal root of 0", "y is beta: the reciprocal root is 0", [](double) { return 0.0; });
  for (const auto& [name, most] : {std::pair{"1e3", 1e3}, {"1e4", 1e4}, {"1e6", 1e6}, {"1e8", 1e8}}) {
    // Where it changes nothing it explains nothing.
    const bool any = std::any_of(truth_.groups.begin(), truth_.groups.end(),
                                 [most = most](const GroupTruth& truth) { return truth.rstd.hi > most; });
    if (any || !only_.empty())
      rooted(fmt::format("reciprocal root capped at {}", name),
             fmt::format("the result with a reciprocal root of at most {}", name),
             [&, most = most](double variance) { return std::min(root(variance), most); });
  }
  if (problem_.convention.eps == EpsPlacement::inside)
    rooted("eps added to a variance of at least eps", "the variance is raised to eps, and eps is added to that",
           [&](double variance) { return root(std::max(variance, eps)); });
  if (asked("eps scaled by the largest square"))
    visit("eps scaled by the largest square", "the result with eps times the square of the group's largest element", "",
          groups(
              [&](std::int64_t group) {
                Statistics statistics = truth_of(group);
                double largest = 0;
                groups_.for_each(group,
                                 [&](std::int64_t i, const Shape&) { largest = std::max(largest, std::fabs(x(i))); });
                statistics.factor = reciprocal_root(problem_.convention, statistics.variance, eps * largest * largest);
                return statistics;
              },
              true, false));
  for (const auto& [name, least] : {std::pair{"1e-5", 1e-5},
                                    {"1e-6", 1e-6},
                                    {"1e-7", 1e-7},
                                    {"1e-8", 1e-8},
                                    {"1e-10", 1e-10},
                                    {"1e-12", 1e-12},
                                    {"1e-20", 1e-20}}) {
    const bool any = std::any_of(truth_.groups.begin(), truth_.groups.end(), [least = least](const GroupTruth& truth) {
      return truth.variance.hi < least && truth.variance.hi > 0;
    });
    const std::string diagnosis = fmt::format("variance below {} taken as 0", name);
    if (!any || !asked(diagnosis)) continue;
    visit(diagnosis, fmt::format("the result with variances below {} taken as 0", name), "",
          groups(
              [&, least = least](std::int64_t group) {
                Statistics statistics = truth_of(group);
                if (statistics.variance < least) statistics.variance = 0;
                statistics.factor = root(statistics.variance);
                return statistics;
              },
              true, false));
  }
}

Statistics ForwardDiagnosis::statistics_of(std::int64_t group, const Kept& kept, const Losses& losses) const {
  double sum = 0;
  double all = 0;
  double some = 0;
  std::int64_t position = 0;
  groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
    const bool keep = kept(position++, at);
    all += 1;
    some += keep ? 1 : 0;
    if (keep || losses.mean_of_all) sum += x(i);
  });
  const double mean = subject_.row.centred ? sum / (losses.mean_of_all || losses.divide_by_all ? all : some) : 0.0;
  double squares = 0;
  position = 0;
  groups_.for_each(group, [&](std::int64_t i, const Shape& at) {
    const bool keep = kept(position++, at);
    if (keep || losses.variance_of_all) squares += (x(i) - mean) * (x(i) - mean);
  });
  const double variance = squares / divisor(losses.variance_of_all || losses.divide_by_all ? all : some);
  return {mean, variance, root(variance)};
}
Statistics ForwardDiagnosis::around(std::int64_t group, double mean, double per_element) const {
  double squares = 0;
  groups_.for_each(group, [&](std::int64_t i, const Shape&) { squares += (x(i) - mean) * (x(i) - mean); });
  const double variance = squares * per_element;
  return {mean, variance, root(variance)};
}
std::vector<double> ForwardDiagnosis::elements_of(std::int64_t group) const {
  std::vector<double> elements;
  elements.reserve(static_cast<std::size_t>(groups_.size()));
  groups_.for_each(group, [&](std::int64_t i, const Shape&) { elements.push_back(x(i)); });
  return elements;
}

void ForwardDiagnosis::other_statistics(const Visit& visit) const {
  if (!any_[Role::y] && !any_[Role::mean] && !any_[Role::stat] && only_.empty()) return;
  // Of one or two elements, or of equal ones, too many statistics give the same.
  const bool telling =
      groups_.size() >= 3 && std::any_of(truth_.groups.begin(), truth_.groups.end(),
                                         [](const auto& t) { return t.variance.hi > 1e-9 * t.mean.hi * t.mean.hi; });
  if (!telling) return;
  const bool centred = subject_.row.centred;
  const double n = static_cast<double>(groups_.size());
  const auto with = [&](const std::string& diagnosis, const std::string& sentence, bool saved_too,
                        const StatisticsOf& statistics) {
    if (asked(diagnosis)) visit(diagnosis, sentence, "", groups(statistics, saved_too, true));
  };
  if (groups_.count() > 1) {
    for (const std::int64_t step : {-1, 1})
      with("statistics of the neighbouring group", "a group normalized with its neighbour's statistics", false,
           [&, step](std::int64_t group) {
             const std::int64_t other = group + step;
             return truth_of(other >= 0 && other < groups_.count() ? other : group - step);
           });
    with("statistics of the first group", "all groups normalized with the first one's statistics", false,
         [&](std::int64_t) { return truth_of(0); });
  }
  for (const bool of_squares : {false, true}) {
    if (centred)
      with("mean not subtracted", "the root mean square's normalization: the mean is not subtracted", false,
           [&, of_squares](std::int64_t group) {
             const Statistics truth = truth_of(group);
             const double variance = truth.variance + (of_squares ? truth.mean * truth.mean : 0);
             return Statistics{0, variance, root(variance)};
           });
    else
      with("mean subtracted", "the mean is subtracted, which this variant does not do", false,
           [&, of_squares](std::int64_t group) {
             const std::vector<double> elements = elements_of(group);
             double sum = 0;
             for (const double element : elements) sum += element;
             const double mean = sum / n;
             const double variance = truth_of(group).variance - (of_squares ? 0 : mean * mean);
             return Statistics{mean, variance, root(variance)};
           });
  }
  lost_elements(with);
  repeated_elements(with);
  padding(with);
  short_sums(with);
  if (centred)
    with("mean absolute deviation", "the mean of the deviations' moduli in place of the standard deviation", true,
         [&](std::int64_t group) {
           const double mean = truth_of(group).mean;
           double sum = 0;
           groups_.for_each(group, [&](std::int64_t i, const Shape&) { sum += std::fabs(x(i) - mean); });
           const double deviation = sum / n;
           return Statistics{mean, deviation * deviation, root(deviation * deviation)};
         });
  for (const ShortType& type : short_types) {
    const auto short_of = [&type](double value) { return rounded(value, type.bits, type.smallest); };
    with(fmt::format("statistics in {}", type.name), fmt::format("mean and reciprocal root rounded to {}", type.name),
         true, [&](std::int64_t group) {
           const Statistics truth = truth_of(group);
           return Statistics{short_of(truth.mean), truth.variance, short_of(truth.factor)};
         });
    for (const bool both : {false, true})
      with(fmt::format("1/n rounded to {}", type.name), fmt::format("sums multiplied by 1/n rounded to {}", type.name),
           true, [&, both](std::int64_t group) {
             const double mean = centred ? truth_of(group).mean * n * short_of(1 / n) : 0;
             return around(group, mean, both ? short_of(1 / n) : 1 / divisor(n));
           });
  }
  merged_parts(with);
}

template <typename With>
void ForwardDiagnosis::lost_elements(const With& with) const {
  with("every second element left out of the statistics", "statistics of every second element only", true,
       [&](std::int64_t group) {
         return statistics_of(group, [](std::int64_t position, const Shape&) { return position % 2 == 0; }, {});
       });
  // Positions in the group, or on the innermost reduced axis that has an extent.
  std::size_t axis = axis_count;
  for (std::size_t a = 0; a < axis_count; ++a)
    if (subject_.row.reduced.has(a) && problem_.shape[a] > 1) axis = a;
  for (const bool by_position : {true, false}) {
    if (!by_position && (axis == axis_count || problem_.shape[axis] == groups_.size())) continue;
    const std::int64_t extent = by_position ? groups_.size() : problem_.shape[axis];
    std::vector<std::int64_t> numbers{1};
    if (extent >= 16) numbers.push_back(extent - extent / 2);
    for (const std::int64_t width : {4, 8, 16, 32, 64}) {
      const std::int64_t lost = extent % width;
      if (lost > 0 && lost < extent && std::find(numbers.begin(), numbers.end(), lost) == numbers.end())
        numbers.push_back(lost);
    }
    for (const std::int64_t lost : numbers)
      for (const Losses& losses : {Losses{false, false, true}, Losses{true, false, true}, Losses{false, true, true},
                                   Losses{false, false, false}})
        with("tail left out of the statistics",
             lost == 1 ? fmt::format("statistics without the last element (of {})", extent)
                       : fmt::format("statistics without the last {} elements (of {})", lost, extent),
             true, [&, by_position, extent, lost, losses](std::int64_t group) {
               return statistics_of(
                   group,
                   [&](std::int64_t position, const Shape& at) {
                     return (by_position ? position : at[axis]) < extent - lost;
                   },
                   losses);
             });
  }
}

// A last vector that overlaps the one before it: what lies in both is summed again, and counted again or not.
template <typename With>
void ForwardDiagnosis::repeated_elements(const With& with) const {
  const std::int64_t n = groups_.size();
  std::vector<std::int64_t> numbers;
  for (const std::int64_t width : {2, 4, 8, 16, 32, 64}) {
    const std::int64_t again = n > width && n % width != 0 ? width - n % width : 0;
    if (again > 0 && std::find(numbers.begin(), numbers.end(), again) == numbers.end()) numbers.push_back(again);
  }
  for (const std::int64_t again : numbers) {
    // From where the last vector begins: its elements before the tail.
    for (const std::int64_t width : {2, 4, 8, 16, 32, 64}) {
      if (n <= width || n % width == 0 || width - n % width != again) continue;
      const std::int64_t begin = n - width;
      const std::int64_t end = n / width * width;
      for (const bool counted : {false, true})
        with("elements counted twice in the statistics",
             fmt::format("elements {} to {} (of {}) are in the statistics twice", begin, end - 1, n), true,
             [&, begin, end, counted](std::int64_t group) {
               const std::vector<double> elements = elements_of(group);
               const double count = static_cast<double>(counted ? n + end - begin : n);
               const auto sum_of = [&](const auto& term) {
                 double sum = 0;
                 for (std::int64_t i = 0; i < n; ++i)
                   sum += term(elements[static_cast<std::size_t>(i)]) * (i >= begin && i < end ? 2 : 1);
                 return sum;
               };
               const double mean = subject_.row.centred ? sum_of([](double value) { return value; }) / count : 0.0;
               const double variance =
                   sum_of([mean](double value) { return (value - mean) * (value - mean); }) / divisor(count);
               return Statistics{mean, variance, root(variance)};
             });
    }
  }
}

// Lanes that mask the end of a row hold 0: they may be counted in the divisors, and be squared around the mean.
template <typename With>
void ForwardDiagnosis::padding(const With& with) const {
  const std::int64_t n = groups_.size();
  std::vector<std::int64_t> lengths;
  for (const std::int64_t width : {2, 4, 8, 16, 32, 64}) {
    const std::int64_t padded = (n + width - 1) / width * width;
    if (padded != n && std::find(lengths.begin(), lengths.end(), padded) == lengths.end()) lengths.push_back(padded);
  }
  for (const std::int64_t padded : lengths)
    for (const bool in_mean : {false, true})
      for (const bool squared : {false, true})
        for (const bool in_variance : {false, true}) {
          if (!in_variance && !(subject_.row.centred && (in_mean || squared))) continue;
          if (!subject_.row.centred && (in_mean || squared)) continue;
          with("padding counted in the statistics",
               fmt::format("statistics of {} elements and {} zeros behind them", n, padded - n), true,
               [&, padded, in_mean, squared, in_variance](std::int64_t group) {
                 const double all = static_cast<double>(padded);
                 const double count = static_cast<double>(n);
                 const double mean = truth_of(group).mean * (in_mean ? count / all : 1);
                 double squares = squared ? (all - count) * mean * mean : 0;
                 groups_.for_each(group,
                                  [&](std::int64_t i, const Shape&) { squares += (x(i) - mean) * (x(i) - mean); });
                 const double variance = squares / divisor(in_variance ? all : count);
                 return Statistics{mean, variance, root(variance)};
               });
        }
}

template <typename With>
void ForwardDiagnosis::short_sums(const With& with) const {
  for (const ShortType& type : short_types)
    with(fmt::format("sums in {}", type.name), fmt::format("sums rounded to {} after each addition", type.name), true,
         [&](std::int64_t group) {
           const auto sum_of = [&](const auto& term) {
             double sum = 0;
             groups_.for_each(group, [&](std::int64_t i, const Shape&) {
               const float next = static_cast<float>(sum) + term(static_cast<float>(x(i)));
               sum = rounded(static_cast<double>(next), type.bits, type.smallest);
             });
             return sum;
           };
           const auto n = static_cast<double>(groups_.size());
           const double mean = subject_.row.centred ? sum_of([](float value) { return value; }) / n : 0.0;
           const auto shift = static_cast<float>(mean);
           const double variance =
               sum_of([shift](float value) { return (value - shift) * (value - shift); }) / divisor(n);
           return Statistics{mean, variance, root(variance)};
         });
}

// The right sums over a wrong number of elements. Not only in groups that tell statistics apart: on exact-sum data a
// divisor shows that no other data show.
void ForwardDiagnosis::other_divisors(const Visit& visit) const {
  if (!any_[Role::y] && !any_[Role::stat] && only_.empty()) return;
  const bool known = std::all_of(truth_.groups.begin(), truth_.groups.end(), [](const GroupTruth& truth) {
    return truth.variance.finite() && truth.mean.finite();
  });
  const double n = static_cast<double>(groups_.size());
  if (!known || n < 3) return;
  const double declared = divisor(n);
  const auto with = [&](const std::string& diagnosis, const std::string& sentence, double other) {
    if (!asked(diagnosis) || !(other > 0) || other == declared) return;
    visit(diagnosis, sentence, "",
          groups(
              [&, other](std::int64_t group) {
                Statistics statistics = truth_of(group);
                statistics.variance *= declared / other;
                statistics.factor = root(statistics.variance);
                return statistics;
              },
              true, false));
  };
  const std::string_view what = subject_.row.centred ? "variance" : "mean square";
  with(fmt::format("{} over n+1", what), fmt::format("the sum of squares is divided by n+1 = {}", n + 1), n + 1);
  if (!subject_.row.centred)
    with("mean square over n-1", fmt::format("the sum of squares is divided by n-1 = {}", n - 1), n - 1);
  with("sum of squares not divided", "the sum of squares is taken for its mean", 1);
  constexpr std::array<std::string_view, axis_count> names{"N", "G", "K", "S"};
  for (std::size_t a = 0; a < axis_count; ++a)
    if (subject_.row.reduced.has(a) && problem_.shape[a] > 1)
      with(fmt::format("sum of squares divided by {}", names[a]),
           fmt::format("the sum of squares of {} elements is divided by {} = {}", n, names[a], problem_.shape[a]),
           static_cast<double>(problem_.shape[a]));
  for (const ShortType& type : short_types)
    with(fmt::format("n rounded to {}", type.name),
         fmt::format("the sum of squares is divided by {}: n rounded to {}", rounded(n, type.bits), type.name),
         rounded(n, type.bits));
}

template <typename With>
void ForwardDiagnosis::merged_parts(const With& with) const {
  if (!subject_.row.centred) return;
  const std::int64_t n = groups_.size();
  const auto parts_of = [&](std::int64_t group, std::int64_t size) {
    std::vector<Statistics> parts;  // mean, sum of squares around it, count
    const std::vector<double> elements = elements_of(group);
    for (std::int64_t begin = 0; begin < n; begin += size) {
      const std::int64_t end = std::min(n, begin + size);
      const double count = static_cast<double>(end - begin);
      double sum = 0;
      double squares = 0;
      for (std::int64_t i = begin; i < end; ++i) sum += elements[static_cast<std::size_t>(i)];
      for (std::int64_t i = begin; i < end; ++i) {
        const double d = elements[static_cast<std::size_t>(i)] - sum / count;
        squares += d * d;
      }
      parts.push_back({sum / count, squares, count});
    }
    return parts;
  };
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 2; size < n; size *= 2) sizes.push_back(size);
  // What one index of the outer axis has, as the samples of a batch.
  for (std::size_t a = 0; a < axis_count; ++a)
    if (subject_.row.reduced.has(a) && problem_.shape[a] > 1) {
      const std::int64_t inner = n / problem_.shape[a];
      if (inner > (only_.empty() ? 1 : 0) && std::find(sizes.begin(), sizes.end(), inner) == sizes.end())
        sizes.push_back(inner);
      break;
    }
  for (const std::int64_t size : sizes) {
    with("parts merged without the difference of their means",
         fmt::format("the variance within parts of {} elements only: their means differ, and that is left out", size),
         true, [&, size](std::int64_t group) {
           double squares = 0;
           for (const Statistics& part : parts_of(group, size)) squares += part.variance;
           const double variance = squares / divisor(static_cast<double>(n));
           return Statistics{truth_of(group).mean, variance, root(variance)};
         });
    if (n % size != 0)
      with("mean of the parts' means",
           fmt::format("the mean of the means of parts of {} elements, the last one of fewer", size), true,
           [&, size](std::int64_t group) {
             double sum = 0;
             double count = 0;
             for (const Statistics& part : parts_of(group, size)) {
               sum += part.mean;
               count += 1;
             }
             return around(group, sum / count, 1 / divisor(static_cast<double>(n)));
           });
  }
  std::vector<std::int64_t> halves;
  for (const std::int64_t width : {1, 4, 8, 16}) {
    const std::int64_t half = n / 2 / width * width;
    if (half > 0 && 2 * half != n && std::find(halves.begin(), halves.end(), half) == halves.end())
      halves.push_back(half);
  }
  for (const std::int64_t half : halves)
    with("unequal parts merged as equal",
         fmt::format("statistics of {} and {} elements, merged as if of equally many", half, n - half), true,
         [&, half](std::int64_t group) {
           const std::vector<double> elements = elements_of(group);
           std::array<double, 2> means{};
           double squares = 0;
           for (std::size_t part = 0; part < 2; ++part) {
             const auto begin = elements.begin() + (part == 0 ? 0 : half);
             const auto end = part == 0 ? elements.begin() + half : elements.end();
             double sum = 0;
             for (auto i = begin; i != end; ++i) sum += *i;
             means[part] = sum / static_cast<double>(end - begin);
             for (auto i = begin; i != end; ++i) squares += (*i - means[part]) * (*i - means[part]);
           }
           const double difference = means[1] - means[0];
           const double variance =
               (squares + difference * difference * static_cast<double>(n) / 4) / divisor(static_cast<double>(n));
           return Statistics{(means[0] + means[1]) / 2, variance, root(variance)};
         });
}

}  // namespace normgate::diagnosis
