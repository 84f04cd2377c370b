// The forward phases in double-double, group by group. A running statistic is a weighted sum of certified numbers.
#include <cmath>

#include "reference/truth/running.hpp"
#include "reference/truth/tiers/elements.hpp"
#include "reference/truth/tiers/environment.hpp"
#include "reference/truth/tiers/fast.hpp"
#include "reference/truth/tiers/given.hpp"
#include "reference/truth/tiers/group_view.hpp"
#include "reference/truth/tiers/sinks.hpp"
#include "reference/truth/tiers/special.hpp"
#include "reference/truth/tiers/sums.hpp"

namespace normgate::tiers {
namespace {

constexpr std::int64_t long_run = 64;

template <typename Sink>
class Forward {
 public:
  Forward(const Problem& problem, const Inputs& inputs, Wanted wanted, Sink& sink)
      : sink_(sink),
        problem_(problem),
        inputs_(inputs),
        wanted_(wanted),
        row_(row_of(problem.variant)),
        view_(problem.shape, row_),
        channels_(channels_along(problem.shape, row_)),
        beta_(use_of(problem, Role::beta).read) {}

  // Whether the problem is covered.
  bool run() {
    if (element_count(problem_.shape) == 0) return false;
    allocate();
    const bool parameters_finite = all_finite(inputs_[Role::gamma]) && all_finite(inputs_[Role::beta]);
    const bool training = is_training(problem_.phase);
    for (std::int64_t q = 0; q < view_.groups().count(); ++q) {
      std::optional<Statistics> statistics;
      const float* x = nullptr;
      if (training || wanted_ == Wanted::everything) x = view_.gather(inputs_[Role::x], q, x_);
      if (training) {
        statistics = statistics_of(x, view_.size(), row_.centred, problem_.eps, problem_.convention);
      } else {
        statistics = given_statistics(problem_, inputs_, view_.groups(), q);
      }
      if (!statistics) return false;
      leave_statistics(q, *statistics);
      if (problem_.running) take_in(q, *statistics);
      if (wanted_ == Wanted::statistics) continue;
      leave_elements(q, x, *statistics);
      if (is_ordinary(*statistics) && parameters_finite && all_finite(x, view_.size())) continue;
      if (!leave_special_elements(q, x, *statistics)) return false;
    }
    return !problem_.running || update_state();
  }

 private:
  void allocate() {
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (role == Role::y && wanted_ == Wanted::statistics) continue;
      if (use_of(problem_, role).write)
        sink_.allocate(role, element_count(restricted(problem_.shape, axes_of(role, row_))));
    }
    sink_.allocate_groups(view_.groups().count());
    if (problem_.running)
      batch_.resize(static_cast<std::size_t>(element_count(restricted(problem_.shape, row_.running))));
  }

  void leave_statistics(std::int64_t q, const Statistics& statistics) {
    sink_.leave_group(q, statistics);
    if (!problem_.saved || !is_training(problem_.phase)) return;
    if (row_.centred) sink_.leave(Role::mean, q, statistics.mean);
    sink_.leave(Role::stat, q,
                problem_.convention.saved == SavedStatistic::rstd ? statistics.rstd : statistics.variance);
  }

  void leave_elements(std::int64_t q, const float* x, const Statistics& statistics) {
    ForwardGroup group;
    group.centre = statistics.mean;
    group.rstd = statistics.rstd;
    group.plus_one = problem_.gamma && problem_.convention.gamma == GammaOffset::plus_one;
    const std::int64_t channel = first_channel(problem_.shape, row_, view_.groups(), q);
    // Runs of one channel are taken one by one where they are long, and expanded block by block where they are short.
    const bool long_runs = channels_ == Channels::runs && problem_.shape[3] >= long_run;
    const std::int64_t step = long_runs ? problem_.shape[3] : channels_ == Channels::runs ? block : view_.size();
    for (std::int64_t begin = 0; begin < view_.size(); begin += step) {
      group.x = x + begin;
      group.n = std::min(step, view_.size() - begin);
      const auto parameter = [&](Role role, float* expanded) {
        if (long_runs) return Along{nullptr, inputs_[role][static_cast<std::size_t>(channel + begin / step)]};
        return along(inputs_[role], channel, begin, group.n, expanded);
      };
      if (problem_.gamma) group.gamma = parameter(Role::gamma, gammas_.data());
      if (beta_) group.beta = parameter(Role::beta, betas_.data());
      sink_.leave_elements(group, view_, q, begin);
    }
  }

  // The elements of a group that something infinite or NaN enters; whether all could be told.
  bool leave_special_elements(std::int64_t q, const float* x, const Statistics& statistics) {
    const bool ordinary = is_ordinary(statistics);
    const std::int64_t first = first_channel(problem_.shape, row_, view_.groups(), q);
    const double plus = problem_.convention.gamma == GammaOffset::plus_one ? 1 : 0;
    for (std::int64_t p = 0; p < view_.size(); ++p) {
      const std::int64_t c = first + channel_offset(problem_.shape, channels_, p);
      const double gamma = problem_.gamma ? exactly(inputs_[Role::gamma], c).hi + plus : 1;
      const double beta = beta_ ? exactly(inputs_[Role::beta], c).hi : 0;
      const auto value = static_cast<double>(x[p]);
      if (ordinary && std::isfinite(value) && std::isfinite(gamma) && std::isfinite(beta)) continue;
      const auto d = difference_with_its_sign(value, statistics.mean);
      if (!d) return false;
      const double y = gamma * (*d * statistics.rstd.hi) + beta;
      if (std::isfinite(y)) return false;
      sink_.leave_special(Role::y, view_.index(q, p), y);
    }
    return true;
  }

  // A parameter along `count` elements of a group from `begin` on; `channel` is that of the group's first.
  [[nodiscard]] Along along(const std::vector<float>& parameter, std::int64_t channel, std::int64_t begin,
                            std::int64_t count, float* expanded) const {
    const float* values = parameter.data() + channel;
    switch (channels_) {
      case Channels::one:
        return {nullptr, *values};
      case Channels::each:
        return {values + begin, 0};
      case Channels::runs:
        break;
    }
    const std::int64_t length = problem_.shape[3];
    float* to = expanded;
    for (std::int64_t i = begin; i < begin + count;) {
      const std::int64_t end = std::min(begin + count, (i / length + 1) * length);
      to = std::fill_n(to, end - i, values[i / length]);
      i = end;
    }
    return {expanded, 0};
  }

  // What the groups of one channel add to its running statistics: one group in batch_norm, one of N in instance_norm.
  struct Batch {
    Certified mean;
    Certified variance;
    std::int64_t count = 0;
  };

  void take_in(std::int64_t q, const Statistics& statistics) {
    Batch& batch =
        batch_[static_cast<std::size_t>(dense_index(problem_.shape, row_.running, view_.groups().origin(q)))];
    const bool n_minus_1 = problem_.convention.stored == StoredDivisor::n_minus_1;
    Certified variance;
    if (n_minus_1 && view_.size() == 1) {
      if (problem_.convention.single == SingleCount::nan) variance = exactly(std::nan(""));
    } else {
      variance = extended_divided(statistics.sum_of_squares, static_cast<double>(view_.size() - (n_minus_1 ? 1 : 0)));
    }
    batch.mean = extended_plus(batch.mean, statistics.mean);
    batch.variance = extended_plus(batch.variance, variance);
    ++batch.count;
  }

  bool update_state() {
    const double momentum = problem_.momentum;
    // Products with a weight far below those of float32 would leave the range of double; a count is to be exact.
    if (momentum != 0 && momentum < 0x1p-200) return false;
    if (problem_.step > std::int64_t{1} << 53) return false;
    Certified keep;
    Certified take;
    const auto step = static_cast<double>(problem_.step);
    const Two rest = two_sum(1, -momentum);
    switch (problem_.convention.momentum) {
      case MomentumForm::new_weight:
        keep = {rest.hi, rest.lo, 0};
        take = exactly(momentum);
        break;
      case MomentumForm::old_weight:
        keep = exactly(momentum);
        take = {rest.hi, rest.lo, 0};
        break;
      case MomentumForm::cumulative:
        keep = divided(exactly(step - 1), step);
        take = divided(exactly(1), step);
        break;
      case MomentumForm::accumulated_weight:
        keep = exactly(momentum);
        take = exactly(1);
        break;
    }
    const bool keeps = keeps_variance(problem_.convention, view_.size());
    for (std::size_t c = 0; c < batch_.size(); ++c) {
      const Batch& batch = batch_[c];
      const auto at = static_cast<std::int64_t>(c);
      const auto count = static_cast<double>(batch.count);
      const auto updated = [&](Role role, const Certified& sum) {
        return extended_plus(extended_times(keep, exactly(inputs_[role], at)),
                             extended_times(take, extended_divided(sum, count)));
      };
      sink_.leave(Role::running_mean, at, updated(Role::running_mean, batch.mean));
      sink_.leave(Role::running_var, at,
                  keeps ? exactly(inputs_[Role::running_var], at) : updated(Role::running_var, batch.variance));
    }
    if (use_of(problem_, Role::running_weight).write)
      sink_.leave(
          Role::running_weight, 0,
          extended_plus(extended_times(exactly(momentum), exactly(inputs_[Role::running_weight], 0)), exactly(1)));
    return true;
  }

  Sink& sink_;
  const Problem& problem_;
  const Inputs& inputs_;
  Wanted wanted_;
  const VariantRow& row_;
  GroupView view_;
  Channels channels_;
  bool beta_;
  std::vector<float> x_;
  // Of one block.
  std::array<float, block> gammas_;
  std::array<float, block> betas_;
  std::vector<Batch> batch_;
};

}  // namespace

std::optional<Truth> fast_forward(const Problem& problem, const Inputs& inputs, Wanted wanted) {
  const DefaultEnvironment environment;
  Truth truth;
  ExactSink sink(truth);
  if (!Forward(problem, inputs, wanted, sink).run()) return std::nullopt;
  return truth;
}

bool fast_forward(const Problem& problem, const Inputs& inputs, FloatSink& sink) {
  const DefaultEnvironment environment;
  return Forward(problem, inputs, Wanted::everything, sink).run();
}

}  // namespace normgate::tiers
