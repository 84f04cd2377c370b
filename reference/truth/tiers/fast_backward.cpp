// The backward phases in double-double, group by group. With g = dy·gamma, d = x - mean and q = -2 dr/dv
// (statistics.hpp)
//
//   dx = r g - r mean(g) - (q Σ(g d) / N_v) d,
//
// two numbers per group and two products per element. Σ(g d) is summed around the high part of the mean, Σ g (x -
// ch) - cl Σ g, so that no error is as large as the mean's representation. From the output, x^ takes the place of
// d, s = q / r² that of q, and 1 that of r in dgamma.
#include <cmath>

#include "reference/truth/tiers/backward_elements.hpp"
#include "reference/truth/tiers/environment.hpp"
#include "reference/truth/tiers/fast.hpp"
#include "reference/truth/tiers/given.hpp"
#include "reference/truth/tiers/group_view.hpp"
#include "reference/truth/tiers/sinks.hpp"
#include "reference/truth/tiers/special.hpp"
#include "reference/truth/tiers/sums.hpp"

namespace normgate::tiers {
namespace {

constexpr std::int64_t columns_at_once = 512;

template <typename Sink>
class Backward {
 public:
  Backward(const Problem& problem, const Inputs& inputs, SavedUse use, Sink& sink)
      : sink_(sink),
        problem_(problem),
        inputs_(inputs),
        row_(row_of(problem.variant)),
        view_(problem.shape, row_),
        channels_(channels_along(problem.shape, row_)),
        run_(channels_ == Channels::runs && (problem.gamma || problem.beta) ? problem.shape[3] : view_.size()),
        training_(is_training(problem.phase)),
        handed_(problem.saved && !problem.from_output && (use == SavedUse::short_form || use == SavedUse::textbook)),
        textbook_(row_.centred && problem.saved && use == SavedUse::textbook),
        plus_one_(problem.gamma && problem.convention.gamma == GammaOffset::plus_one) {}

  // Whether the problem is covered.
  bool run() {
    if (element_count(problem_.shape) == 0) return false;
    // The textbook's form of a kernel that sees the output only has a mean of x^ in it.
    if (problem_.from_output && textbook_) return false;
    if (problem_.from_output && problem_.gamma)
      for (const float gamma : inputs_[Role::gamma])
        if (gamma == (plus_one_ ? -1.0F : 0.0F) || std::isinf(gamma)) return false;
    parameters_finite_ = all_finite(inputs_[Role::gamma]) && all_finite(inputs_[Role::beta]);
    allocate();
    for (std::int64_t q = 0; q < view_.groups().count(); ++q)
      if (!differentiate(q)) return false;
    if (!leave_rows()) return false;
    leave_parameters();
    return true;
  }

 private:
  void allocate() {
    sink_.allocate_groups(view_.groups().count());
    sink_.allocate(Role::dx, element_count(problem_.shape));
    const std::int64_t channels = element_count(restricted(problem_.shape, row_.affine));
    if (problem_.gamma) sink_.allocate(Role::dgamma, channels);
    if (problem_.beta) sink_.allocate(Role::dbeta, channels);
    if (channels_ == Channels::each) {
      // Rows of the same channels are added up by columns.
      const std::int64_t sets = channels / view_.size();
      rows_ = view_.groups().count() / sets;
      // Several rows at a time save most of the way to and from the sums of the columns; all of them, the sums.
      if (sets == 1 && view_.contiguous()) {
        rows_at_once_ = std::clamp<std::int64_t>((1 << 17) / view_.size(), 4, 16);
        all_rows_at_once_ = rows_ <= rows_at_once_;
      }
      const std::int64_t columns = all_rows_at_once_ ? columns_at_once : view_.size();
      const auto make = [&](std::vector<ColumnSums>& sums) {
        sums.reserve(static_cast<std::size_t>(sets));
        for (std::int64_t set = 0; set < sets; ++set) sums.emplace_back(columns);
      };
      if (problem_.gamma) make(gamma_columns_);
      if (problem_.beta) make(beta_columns_);
    } else {
      if (problem_.gamma) dgamma_.resize(static_cast<std::size_t>(channels));
      if (problem_.beta) dbeta_.resize(static_cast<std::size_t>(channels));
    }
  }

  // One group; whether it is covered.
  bool differentiate(std::int64_t q) {
    const std::vector<float>& source = inputs_[problem_.from_output ? Role::y : Role::x];
    BackwardGroup group;
    group.source = view_.gather(source, q, source_);
    group.dy = view_.gather(inputs_[Role::dy], q, dy_);
    group.n = view_.size();
    group.from_output = problem_.from_output;
    group.plus_one = plus_one_;

    std::optional<Statistics> own;  // of x
    if (training_ && !problem_.from_output) {
      own = statistics_of(group.source, group.n, row_.centred, problem_.eps, problem_.convention);
      if (!own) return false;
    }
    std::optional<Statistics> given;
    if (!own || handed_) {
      given = given_statistics(problem_, inputs_, view_.groups(), q);
      if (!given) return false;
    }
    const Statistics& used = given ? *given : *own;
    leave_statistics(q, own ? *own : used);
    group.centre = used.mean;
    const Certified to_normalized = problem_.from_output ? exactly(1) : used.rstd;

    const std::int64_t channel = first_channel(problem_.shape, row_, view_.groups(), q);
    GradientSums sums;
    if (channels_ == Channels::each) {
      group = part_of(group, channel, 0, group.n);
      if (training_) sums = around_mean(gradient_sums(group, problem_.gamma), group.centre);
    } else if (training_ || problem_.gamma || problem_.beta) {
      for (std::int64_t c = 0; c < group.n / run_; ++c) {
        const GradientSums of_run =
            around_mean(gradient_sums(part_of(group, channel + c, c * run_, run_), false), group.centre);
        const auto at = static_cast<std::size_t>(channel + c);
        if (problem_.gamma) dgamma_[at] = plus(dgamma_[at], times(of_run.products, to_normalized));
        if (problem_.beta) dbeta_[at] = plus(dbeta_[at], of_run.g);
        if (!training_) continue;
        const Certified weight = weight_of(channel + c);
        sums.g = plus(sums.g, times(of_run.g, weight));
        sums.products = plus(sums.products, times(of_run.products, weight));
      }
    }
    const bool ordinary =
        is_ordinary(used) && parameters_finite_ && all_finite(group.source, group.n) && all_finite(group.dy, group.n);
    // In training what is special reaches all of a group.
    const auto scalars =
        ordinary || !training_ ? scalars_of(used, sums) : GradientScalars{exactly(std::nan("")), {}, {}};
    if (!scalars) return false;
    // Of dx only: the textbook's dmean gives x - m less its mean, which is x less its mean.
    const Certified centre = textbook_ ? own->mean : group.centre;
    waiting_.push_back({q, channel, group, to_normalized, centre, *scalars, used, ordinary});
    return static_cast<std::int64_t>(waiting_.size()) < rows_at_once_ || leave_rows();
  }

  // A group that lacks its gradients only, and what it adds to columns.
  struct Row {
    std::int64_t q = 0;
    std::int64_t channel = 0;
    BackwardGroup group;
    Certified to_normalized;
    Certified centre;  // of dx
    GradientScalars scalars;
    Statistics used;
    bool ordinary = true;
  };
  // Whether all of the waiting groups are covered.
  bool leave_rows() {
    if (waiting_.empty()) return true;
    const std::int64_t step = rows_at_once_ > 1 ? columns_at_once : view_.size();
    for (std::int64_t begin = 0; begin < view_.size(); begin += step) {
      const std::int64_t count = std::min(step, view_.size() - begin);
      for (const Row& row : waiting_) {
        if (channels_ != Channels::each) {
          leave_gradients(row);
          continue;
        }
        BackwardGroup part = tiers::part_of(row.group, begin, count);
        const auto set = static_cast<std::size_t>(row.channel / view_.size());
        if (problem_.gamma || problem_.beta)
          add_row(part, row.to_normalized, rows_, all_rows_at_once_ ? 0 : begin,
                  problem_.gamma ? &gamma_columns_[set] : nullptr, problem_.beta ? &beta_columns_[set] : nullptr);
        part.centre = row.centre;
        sink_.leave_gradients(part, row.scalars, view_, row.q, begin);
      }
      if (!all_rows_at_once_) continue;
      leave_columns(0, begin, count);
      for (ColumnSums& sums : gamma_columns_) sums.reset();
      for (ColumnSums& sums : beta_columns_) sums.reset();
    }
    for (Row& row : waiting_) {
      row.group.centre = row.centre;
      if (!row.ordinary && !leave_special(row.q, row.group, row.channel, row.used)) return false;
    }
    waiting_.clear();
    return true;
  }

  struct Element {
    double dy;
    double g;
    double normalized;
    double direction;
  };
  // The p-th element of a group, with the signs and zeros that the definition sees. group.centre is that of
  // `direction`.
  [[nodiscard]] std::optional<Element> element_of(const BackwardGroup& group, std::int64_t channel,
                                                  const Statistics& used, std::int64_t p) const {
    const std::int64_t c = channel + channel_offset(problem_.shape, channels_, p);
    const double gamma = problem_.gamma ? exactly(inputs_[Role::gamma], c).hi + (plus_one_ ? 1 : 0) : 1;
    const auto dy = static_cast<double>(group.dy[p]);
    const auto value = static_cast<double>(group.source[p]);
    if (problem_.from_output) {
      const double normalized = (problem_.beta ? value - exactly(inputs_[Role::beta], c).hi : value) / gamma;
      return Element{dy, problem_.gamma ? dy * gamma : dy, normalized, normalized};
    }
    const auto d = difference_with_its_sign(value, used.mean);
    const auto direction = difference_with_its_sign(value, group.centre);
    if (!d || !direction) return std::nullopt;
    const double normalized = *d * used.rstd.hi;
    // The textbook subtracts the mean of x^; of an infinite one nothing is left.
    const bool infinite = textbook_ && !std::isfinite(used.mean.hi);
    return Element{dy, problem_.gamma ? dy * gamma : dy, normalized,
                   infinite ? normalized - normalized : *direction * used.rstd.hi};
  }

  // A group that something infinite or NaN enters; whether all of it could be told. What the kernels have summed up for
  // the parameters holds where all terms were finite; where they were not, those that were not decide alone.
  bool leave_special(std::int64_t q, const BackwardGroup& group, std::int64_t channel, const Statistics& used) {
    const auto channels = static_cast<std::size_t>(element_count(restricted(problem_.shape, row_.affine)));
    special_dgamma_.resize(problem_.gamma ? channels : 0);
    special_dbeta_.resize(problem_.beta ? channels : 0);
    double sum_of_g = 0;
    double sum_of_products = 0;
    for (std::int64_t p = 0; p < group.n; ++p) {
      const auto element = element_of(group, channel, used, p);
      if (!element) return false;
      sum_of_g += element->g;
      sum_of_products += element->g * element->normalized;
      const auto c = static_cast<std::size_t>(channel + channel_offset(problem_.shape, channels_, p));
      const double term = element->dy * element->normalized;
      if (problem_.gamma && !std::isfinite(term)) special_dgamma_[c] += term;
      if (problem_.beta && !std::isfinite(element->dy)) special_dbeta_[c] += element->dy;
    }
    const double r = used.rstd.hi;
    double mean_of_g = 0;
    double pull = 0;
    if (training_) {
      const auto n = static_cast<double>(group.n);
      if (row_.centred) mean_of_g = sum_of_g / n;
      const auto factor = std::isnan(r) ? exactly(r) : response(used, problem_.eps, problem_.convention.eps);
      if (!factor) return false;
      const bool n_minus_1 = row_.centred && problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
      const bool constant = n_minus_1 && group.n == 1 && problem_.convention.single != SingleCount::nan;
      pull = factor->hi * (constant ? 0 : sum_of_products / (n_minus_1 ? n - 1 : n));
      // Infinite statistics times differences of finite numbers: signs that nothing here certifies.
      if (std::isinf(r) && !std::isnan(pull)) return false;
    }
    for (std::int64_t p = 0; p < group.n; ++p) {
      const auto element = element_of(group, channel, used, p);
      const bool computed = std::isfinite(element->g) && std::isfinite(r);
      if (!training_ && computed) continue;  // g r is the kernel's
      const double dx = training_ ? r * (element->g - mean_of_g) - pull * element->direction : element->g * r;
      if (std::isfinite(dx)) return false;
      sink_.leave_special(Role::dx, view_.index(q, p), dx);
    }
    return true;
  }

  // `count` elements from `begin` on, with their parameters; `channel` is the first of them.
  [[nodiscard]] BackwardGroup part_of(const BackwardGroup& group, std::int64_t channel, std::int64_t begin,
                                      std::int64_t count) const {
    BackwardGroup part = group;
    part.source += begin;
    part.dy += begin;
    part.n = count;
    if (problem_.gamma) part.gamma = along(inputs_[Role::gamma], channel);
    if (problem_.from_output && problem_.beta) part.beta = along(inputs_[Role::beta], channel);
    return part;
  }
  [[nodiscard]] Along along(const std::vector<float>& parameter, std::int64_t channel) const {
    const float* values = parameter.data() + channel;
    if (channels_ == Channels::each) return {values, 0};
    return {nullptr, *values};
  }
  [[nodiscard]] Certified weight_of(std::int64_t channel) const {
    if (!problem_.gamma) return exactly(1);
    const double gamma = exactly(inputs_[Role::gamma], channel).hi;
    const Two weight = plus_one_ ? two_sum(gamma, 1) : Two{gamma, 0};
    return {weight.hi, weight.lo, 0};
  }

  static GradientSums around_mean(const GradientSums& sums, const Certified& mean) {
    if (mean.lo == 0 && mean.error == 0) return sums;
    return {sums.g, minus(sums.products, times(Certified{mean.lo, 0, mean.error}, sums.g))};
  }

  [[nodiscard]] std::optional<GradientScalars> scalars_of(const Statistics& used, const GradientSums& sums) const {
    GradientScalars scalars{used.rstd, {}, {}};
    if (!training_) return scalars;
    const auto n = static_cast<double>(view_.size());
    if (row_.centred) scalars.offset = times(used.rstd, divided(sums.g, n));
    const bool n_minus_1 = row_.centred && problem_.convention.normalizing == NormalizingDivisor::n_minus_1;
    if (n_minus_1 && n == 1) {
      // A variance of one value is a constant where it is not 0/0.
      if (problem_.convention.single == SingleCount::nan) return std::nullopt;
      return scalars;
    }
    const auto factor = problem_.from_output ? response(used, problem_.eps, problem_.convention.eps)
                                             : slope(used, problem_.eps, problem_.convention.eps);
    if (!factor) return std::nullopt;
    scalars.pull = times(divided(sums.products, n_minus_1 ? n - 1 : n), *factor);
    // The range in which backward_elements.cpp is proved, and in which nothing here underflowed.
    const double size = std::fabs(scalars.pull.hi);
    if (size != 0 && !(size >= 0x1p-500 && size <= 0x1p600)) return std::nullopt;
    const bool exact = is_zero(sums.products) || is_zero(*factor);
    if (!exact && !(scalars.pull.error >= 0x1p-800)) return std::nullopt;
    return scalars;
  }

  void leave_gradients(const Row& row) {
    BackwardGroup group = row.group;
    group.centre = row.centre;
    for (std::int64_t first = 0; first < group.n; first += run_)
      sink_.leave_gradients(part_of(group, row.channel + first / run_, first, run_), row.scalars, view_, row.q, first);
  }

  void leave_statistics(std::int64_t q, const Statistics& statistics) {
    if (problem_.from_output) {
      const Certified undefined = exactly(std::nan(""));
      sink_.leave_group(q, {undefined, {}, undefined, undefined});
    } else {
      sink_.leave_group(q, statistics);
    }
  }

  // `count` columns from `first` on, of a set of channels or of a block of the only one.
  void leave_columns(std::size_t set, std::int64_t first, std::int64_t count) {
    const auto leave = [&](Role role, const ColumnSums& sums, double factor) {
      const std::int64_t at = static_cast<std::int64_t>(set) * view_.size() + first;
      const std::int64_t from = all_rows_at_once_ ? 0 : first;
      if (problem_.convention.gradients != Gradients::accumulate)
        return sink_.leave_columns(role, at, sums, from, count, factor);
      for (std::int64_t i = 0; i < count; ++i)
        sink_.leave(role, at + i, extended_plus(column(sums, from + i, factor), exactly(inputs_[role], at + i)));
    };
    if (problem_.gamma) leave(Role::dgamma, gamma_columns_[set], gamma_bound_factor(rows_));
    if (problem_.beta) leave(Role::dbeta, beta_columns_[set], beta_bound_factor(rows_));
  }

  void leave_parameters() {
    const bool accumulates = problem_.convention.gradients == Gradients::accumulate;
    const auto leave = [&](Role role, const std::vector<Certified>& sums, const std::vector<double>& special) {
      for (std::int64_t c = 0; c < static_cast<std::int64_t>(sums.size()); ++c) {
        const Certified& sum = sums[static_cast<std::size_t>(c)];
        sink_.leave(role, c, accumulates ? extended_plus(sum, exactly(inputs_[role], c)) : sum);
      }
      for (std::size_t c = 0; c < special.size(); ++c) {
        if (std::isfinite(special[c])) continue;
        const double old = accumulates ? static_cast<double>(inputs_[role][c]) : 0;
        sink_.leave_special(role, static_cast<std::int64_t>(c), special[c] + old);
      }
    };
    if (channels_ == Channels::each && !all_rows_at_once_)
      for (std::size_t set = 0; set < std::max(gamma_columns_.size(), beta_columns_.size()); ++set)
        leave_columns(set, 0, view_.size());
    leave(Role::dgamma, dgamma_, special_dgamma_);
    leave(Role::dbeta, dbeta_, special_dbeta_);
  }

  Sink& sink_;
  const Problem& problem_;
  const Inputs& inputs_;
  const VariantRow& row_;
  GroupView view_;
  Channels channels_;
  std::int64_t run_;  // neighbours that share their parameters
  bool training_;
  bool handed_;    // the statistics are those that the kernel was handed, not those of x
  bool textbook_;  // and the deviation that dvar is multiplied by is that from the mean of x
  bool plus_one_;
  bool parameters_finite_ = true;
  std::int64_t rows_ = 0;
  std::int64_t rows_at_once_ = 1;
  bool all_rows_at_once_ = false;
  std::vector<Row> waiting_;
  std::vector<float> source_;
  std::vector<float> dy_;
  std::vector<ColumnSums> gamma_columns_;
  std::vector<ColumnSums> beta_columns_;
  std::vector<Certified> dgamma_;
  std::vector<Certified> dbeta_;
  // By channel: the sum of the terms that are not finite.
  std::vector<double> special_dgamma_;
  std::vector<double> special_dbeta_;
};

}  // namespace

std::optional<Truth> fast_backward(const Problem& problem, const Inputs& inputs, SavedUse use) {
  const DefaultEnvironment environment;
  Truth truth;
  ExactSink sink(truth);
  if (!Backward(problem, inputs, use, sink).run()) return std::nullopt;
  return truth;
}

std::optional<Truth> fast_truth(const Problem& problem, const Inputs& inputs, SavedUse use) {
  return is_backward(problem.phase) ? fast_backward(problem, inputs, use)
                                    : fast_forward(problem, inputs, Wanted::everything);
}

bool fast_backward(const Problem& problem, const Inputs& inputs, SavedUse use, FloatSink& sink) {
  const DefaultEnvironment environment;
  return Backward(problem, inputs, use, sink).run();
}

}  // namespace normgate::tiers
