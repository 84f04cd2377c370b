#include "gate/proof/problems.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/truth/tiers/group_view.hpp"
#include "reference/truth/tiers/statistics.hpp"

namespace normgate::proof {

Shape draw_shape(Draw& draw, Variant variant) {
  const VariantRow& row = row_of(variant);
  Shape shape{};
  for (std::int64_t& extent : shape) extent = 1 + draw.below(4);
  // One reduced axis alone, or as drawn.
  if (draw.coin()) {
    for (std::size_t a = 0; a < axis_count; ++a)
      if (row.reduced.has(a)) shape[a] = 1;
    std::size_t a = draw.below(axis_count);
    while (!row.reduced.has(a)) a = draw.below(axis_count);
    shape[a] = 1 + draw.below(70);
  } else if (draw.coin()) {
    shape[draw.below(axis_count)] = 5 + draw.below(30);
  }
  return shape;
}

Problem draw_problem(Draw& draw, Phase phase) {
  Problem problem;
  problem.phase = phase;
  problem.variant = static_cast<Variant>(1 + draw.below(5));
  const bool has_running = !row_of(problem.variant).running.empty();
  problem.shape = draw_shape(draw, problem.variant);
  problem.gamma = draw.below(4) != 0;
  problem.beta = draw.below(4) != 0;
  Convention& convention = problem.convention;
  convention.normalizing = any<NormalizingDivisor>(draw, 2);
  convention.stored = any<StoredDivisor>(draw, 2);
  convention.single = any<SingleCount>(draw, 3);
  convention.momentum = any<MomentumForm>(draw, 4);
  convention.eps = any<EpsPlacement>(draw, 3);
  convention.gamma = any<GammaOffset>(draw, 2);
  convention.saved = any<SavedStatistic>(draw, 2);
  convention.gradients = any<Gradients>(draw, 2);
  convention.scalars = any<Scalars>(draw, 2);
  if (!is_training(phase)) {
    problem.given = has_running && draw.coin() ? Given::running : Given::saved;
  } else if (phase == Phase::forward_training) {
    problem.saved = draw.coin();
    problem.running = has_running && draw.coin();
    problem.step = 1 + draw.below(5);
  } else if (draw.below(4) != 0) {
    problem.saved = true;
    problem.handed = any<Handed>(draw, 2);
    problem.from_output = draw.below(4) == 0;
  }
  const bool doubles = convention.scalars == Scalars::float64;
  problem.eps = one_of(draw, std::initializer_list<double>{0, 0x1p-126, static_cast<double>(1e-5F), 1.0, 0x1p126,
                                                           0x1.8p-40, doubles ? 1e-5 : 0.25, doubles ? 0.1 : 3.0});
  problem.momentum = one_of(draw, std::initializer_list<double>{0, 1, 0.25, static_cast<double>(0.1F), 0x1p-24,
                                                                doubles ? 0.1 : 0.5, doubles ? 1e-30 : 0.75});
  do {
    problem.profile = any<Profile>(draw, 10);
  } while (problem.profile == Profile::special);
  if (is_backward(phase)) problem.cotangent = any<Cotangent>(draw, 6);
  problem.kappa = one_of(draw, std::initializer_list<double>{0, 1, 1000, 1e6});
  problem.scale = one_of(draw, std::initializer_list<std::int32_t>{-60, -7, 0, 0, 0, 13, 60});
  problem.key = draw.word();
  return problem;
}

bool spoil_some(Draw& draw, Inputs& inputs) {
  if (draw.coin()) return false;
  bool spoilt = false;
  for (std::size_t r = 0; r < role_count; ++r) {
    const Role role = static_cast<Role>(r);
    const std::uint32_t kind = draw.below(12);
    const bool variance = role == Role::stat || role == Role::running_var || role == Role::running_weight;
    if (kind < 1 || kind > 5 || inputs[role].empty()) continue;
    spoil(draw, inputs[role], kind, variance);
    spoilt = true;
  }
  return spoilt;
}

void sprinkle(Draw& draw, Inputs& inputs) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (std::size_t r = 0; r < role_count; ++r) {
    std::vector<float>& tensor = inputs[static_cast<Role>(r)];
    if (tensor.empty() || draw.below(3) != 0) continue;
    for (std::uint32_t count = 1 + draw.below(3); count > 0; --count)
      tensor[draw.below(static_cast<std::uint32_t>(tensor.size()))] = one_of(
          draw, std::initializer_list<float>{std::numeric_limits<float>::quiet_NaN(), infinity, -infinity, 0.0F});
  }
}

SavedUse draw_use(Draw& draw, const Problem& problem) {
  if (problem.from_output) return SavedUse::from_output;
  if (problem.phase == Phase::backward_training) return any<SavedUse>(draw, 4);
  return SavedUse::undeclared;
}

namespace {

// A line of thousands of values is of no use to anybody.
constexpr std::size_t longest_line = 256;

// eps where the floor's decision is hardest: the variance of a group, rounded, or a neighbour of that. x is kept as
// values where it is short enough, since it may depend on eps.
void put_floor_at_variance(Draw& draw, Problem& problem, const Inputs& inputs) {
  const VariantRow& row = row_of(problem.variant);
  const tiers::GroupView view(problem.shape, row);
  const std::vector<float>& x = inputs[Role::x];
  if (x.empty() || x.size() > longest_line) return;
  std::vector<float> buffer;
  const std::int64_t group = draw.below(static_cast<std::uint32_t>(view.groups().count()));
  const auto statistics =
      tiers::statistics_of(view.gather(x, group, buffer), view.size(), row.centred, 1, problem.convention);
  if (!statistics) return;
  double eps = statistics->variance.hi;
  if (problem.convention.scalars == Scalars::float64) {
    eps = std::nextafter(eps, one_of(draw, std::initializer_list<double>{0, eps, eps, 0x1p200}));
  } else {
    const auto near = static_cast<float>(eps);
    eps =
        static_cast<double>(std::nextafter(near, one_of(draw, std::initializer_list<float>{0, near, near, 0x1p120F})));
  }
  if (!(eps >= 0x1p-126 && eps <= 0x1p126)) return;
  problem.eps = eps;
  problem.values[Role::x] = x;
}

}  // namespace

Problem draw_any_problem(Draw& draw) {
  Problem problem = draw_problem(draw, normalizing_phases[draw.below(4)]);
  if (draw.below(12) == 0) problem.profile = Profile::special;
  problem.level = static_cast<std::int32_t>(1 + 2 * draw.below(16));
  const std::uint32_t length = draw.below(1024);
  if (length < 64) {
    const VariantRow& row = row_of(problem.variant);
    for (std::int64_t& extent : problem.shape) extent = std::min<std::int64_t>(extent, 3);
    std::size_t a = draw.below(axis_count);
    while (!row.reduced.has(a)) a = draw.below(axis_count);
    problem.shape[a] = 1 + draw.below(length == 0 ? 20000 : 700);
  }
  Inputs inputs = make_inputs(problem);
  const Inputs before = inputs;
  if (draw.below(8) == 0) {
    sprinkle(draw, inputs);
  } else {
    (void)spoil_some(draw, inputs);
  }
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    const bool spoilt =
        std::mismatch(inputs[role].begin(), inputs[role].end(), before[role].begin(), [](float a, float b) {
          return a == b || (a != a && b != b);
        }).first != inputs[role].end();
    if (spoilt && inputs[role].size() <= longest_line) problem.values[role] = inputs[role];
  }
  if (problem.convention.eps == EpsPlacement::floor && draw.coin()) put_floor_at_variance(draw, problem, inputs);
  if (!check(problem).empty()) problem.values = {};  // a handed y beside a gamma of 0
  return problem;
}

}  // namespace normgate::proof
