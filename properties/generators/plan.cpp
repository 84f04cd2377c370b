#include "properties/generators/plan.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "properties/generators/coverage.hpp"

namespace normgate {
namespace {

// eps is never only the default; 0 only for data with a variance. All are float32 values.
constexpr std::array<float, 8> eps_values{1e-5F, 1e-3F, 1e-6F, 0.1F, 1e-12F, 1.0F, 1e-8F, 0x1p-40F};
// Both weights of a step are exact for 0.25, neither for 0.1; 0.5 hides a reversed momentum and is left out.
// Steps beyond any table or cap of a kernel.
constexpr std::array<std::int64_t, 12> step_values{1, 2, 3, 4, 5, 7, 17, 33, 129, 257, 1000, 70000};
constexpr std::array<float, 6> momentum_values{0.1F, 0.9F, 0.25F, 0.99F, 0.75F, 0.3F};
// The null space of the backward operator, what lies close to it, and what does not.
constexpr std::array cotangents{Cotangent::random, Cotangent::mixed,  Cotangent::ones,
                                Cotangent::unit,   Cotangent::pooled, Cotangent::normalized};

std::uint64_t splitmix(std::uint64_t& state) {  // Steele, Lea & Flood 2014
  state += 0x9E3779B97F4A7C15U;
  std::uint64_t z = state;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

std::uint64_t hash_of(std::string_view text) {  // FNV-1a
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

// The value that a generator of plain combinators gives for a key: a pure function, usable on any thread.
template <typename T>
T drawn(const rc::Gen<T>& gen, std::uint64_t key) {
  constexpr int size = 100;
  return gen(rc::Random(key), size).value();
}

// The default, channels last, or any of the 24 orders; dense, padded or spread.
Layout drawn_layout(std::uint32_t choice) {
  Layout layout;
  if (choice % 3 == 1) layout.order = {Axis::n, Axis::s, Axis::g, Axis::k};
  if (choice % 3 == 2)
    for (std::uint32_t i = (choice >> 4U) % 24; i > 0; --i)
      std::next_permutation(layout.order.begin(), layout.order.end());
  if ((choice >> 12U) % 4 == 1) layout.pad = 1 + (choice >> 16U) % 9;
  if ((choice >> 12U) % 4 == 2) layout.step = 2 + (choice >> 16U) % 2;
  return layout;
}

struct Drawn {
  std::uint32_t split, groups, eps, momentum, step, affine, layouts, places, fence;
};

rc::Gen<Drawn> drawn_fields() {
  const auto word = rc::gen::inRange<std::uint32_t>(0, 1U << 30U);
  return rc::gen::map(rc::gen::tuple(word, word, word, word, word, word, word, word, word), [](const auto& t) {
    return Drawn{std::get<0>(t), std::get<1>(t), std::get<2>(t), std::get<3>(t), std::get<4>(t),
                 std::get<5>(t), std::get<6>(t), std::get<7>(t), std::get<8>(t)};
  });
}

bool supports(const Subject& subject, Role role) {
  const auto& roles = subject.kernel.roles[static_cast<std::size_t>(subject.phase)];
  return ((roles.supported >> index_of(role)) & 1U) != 0;
}
bool requires_role(const Subject& subject, Role role) {
  const auto& roles = subject.kernel.roles[static_cast<std::size_t>(subject.phase)];
  return ((roles.required >> index_of(role)) & 1U) != 0;
}

void restrict_layout(Layout& layout, bool tensor, const runner::KernelInfo& kernel) {
  if (kernel.strided) return;
  layout.step = 1;
  if (!tensor || !kernel.padded) layout.pad = 0;
  constexpr std::array channels_last{Axis::n, Axis::s, Axis::g, Axis::k};
  if (layout.order != Layout{}.order) layout.order = tensor && kernel.channels_last ? channels_last : Layout{}.order;
}

}  // namespace

Problem inside_claim(Problem problem, const Subject& subject) {
  const auto& kernel = subject.kernel;
  problem.variant = subject.row.variant;
  problem.phase = subject.phase;
  problem.convention = subject.convention;
  const auto settle = [&](bool wanted, Role role) {
    return supports(subject, role) && (wanted || requires_role(subject, role));
  };
  problem.gamma = settle(problem.gamma, Role::gamma);
  problem.beta = settle(problem.beta, Role::beta);
  const bool backward = is_backward(subject.phase);
  if (is_statistics(subject.phase)) {
    // Nothing of a call but shape, layout and data means anything.
    const Problem defaults;
    problem.gamma = defaults.gamma;
    problem.beta = defaults.beta;
    problem.saved = problem.running = problem.in_place = false;
    problem.given = Given::none;
    problem.eps = defaults.eps;
    problem.momentum = defaults.momentum;
    problem.step = defaults.step;
  } else if (subject.phase == Phase::double_backward) {
    problem.saved = problem.running = problem.in_place = false;
    problem.given = Given::none;
  } else if (is_training(subject.phase)) {
    problem.given = Given::none;
    // Where y stands in place of x, no mean is handed.
    const bool no_mean = backward && kernel.claim.saved_use == SavedUse::from_output;
    const bool mean = !subject.row.centred || no_mean || settle(problem.saved, Role::mean);
    problem.saved = mean && settle(problem.saved, Role::stat);
    problem.running = !backward && !subject.row.running.empty() && settle(problem.running, Role::running_mean) &&
                      settle(problem.running, Role::running_var);
    if (subject.convention.momentum == MomentumForm::accumulated_weight && !supports(subject, Role::running_weight))
      problem.running = false;
  } else {
    const bool centred = subject.row.centred;
    const bool running = !subject.row.running.empty() && supports(subject, Role::running_var) &&
                         (!centred || supports(subject, Role::running_mean));
    const bool saved = supports(subject, Role::stat) && (!centred || supports(subject, Role::mean));
    problem.saved = problem.running = false;
    if (problem.given == Given::none) problem.given = Given::running;
    if (!running) problem.given = Given::saved;
    if (!saved || requires_role(subject, Role::running_var)) problem.given = Given::running;
  }
  // A kernel that works from y needs y and the deviation, whatever else it is handed.
  problem.from_output =
      subject.phase == Phase::backward_training && problem.saved && kernel.claim.saved_use == SavedUse::from_output;
  // Without a declared use nothing is judged where the handed statistics are far from the true ones.
  if (subject.phase != Phase::backward_training || !problem.saved || kernel.claim.saved_use == SavedUse::undeclared)
    problem.handed = Handed::nearest;
  if (!has_cotangent(subject.phase)) problem.cotangent = Cotangent::random;
  problem.in_place = problem.in_place && (backward ? kernel.gradient_in_place : kernel.in_place);
  // A kernel of contiguous rows: S = 1, since the reduced axes G K are not innermost otherwise.
  if (subject.row.reduced == AxisSet{Axis::g, Axis::k} && !kernel.strided && !kernel.channels_last &&
      problem.shape[3] != 1) {
    problem.shape[0] *= problem.shape[3];
    problem.shape[3] = 1;
  }
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    const bool tensor = role == Role::x || role == Role::y || role == Role::dy || role == Role::dx ||
                        role == Role::ddx || role == Role::ddy;
    restrict_layout(problem.layout[role], tensor, kernel);
  }
  const Role in = in_place_input(subject.phase);
  const Role out = in_place_output(subject.phase);
  AxisSet& broadcast = problem.layout[Role::dy].broadcast;
  if (!backward || !kernel.mixed || !kernel.strided || problem.in_place || problem.profile == Profile::special ||
      !problem.values[Role::dy].empty())
    broadcast = {};
  const bool along_s = problem.cotangent == Cotangent::pooled && broadcast == AxisSet{Axis::s};
  if (problem.cotangent != Cotangent::ones && !along_s) broadcast = {};
  if (!kernel.mixed) {
    for (const Role role : {Role::y, Role::dy, Role::dx, Role::ddx, Role::ddy})
      problem.layout[role] = problem.layout[Role::x];
    problem.layout[Role::part_stat] = problem.layout[Role::part_mean];
  }
  if (problem.in_place) problem.layout[out] = problem.layout[in];
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!use_of(problem, role).present()) problem.layout[role] = Layout{};
  }
  problem.threads = std::min(problem.threads, kernel.max_threads);
  if (kernel.alignment > 4) problem.misalign = problem.skew = 0;
  return problem;
}

Shape shape_with(const VariantRow& row, std::int64_t length, std::int64_t groups, std::uint64_t choice) {
  Shape shape{1, 1, 1, 1};
  // The reduced axes, innermost last; the outer one takes a small divisor of the length.
  std::array<std::size_t, axis_count> reduced{};
  std::size_t reduced_count = 0;
  for (std::size_t a = 0; a < axis_count; ++a)
    if (row.reduced.has(a)) reduced[reduced_count++] = a;
  std::int64_t outer = 1;
  if (reduced_count > 1) {
    // Any divisor up to 64, and from time to time the length itself.
    std::array<std::int64_t, 64> divisors{};
    std::size_t count = 0;
    for (std::int64_t d = 1; d <= 64; ++d)
      if (length % d == 0) divisors[count++] = d;
    outer = divisors[choice % count];
    if (choice % 7 == 6 && length > 0) outer = length;
    shape[reduced[0]] = outer;
  }
  shape[reduced[reduced_count - 1]] = length / outer;
  // The kept axes: the groups on one of them, two on the other from time to time.
  std::array<std::size_t, axis_count> kept{};
  std::size_t kept_count = 0;
  for (std::size_t a = 0; a < axis_count; ++a)
    if (!row.reduced.has(a)) kept[kept_count++] = a;
  std::size_t main = (choice >> 4U) % kept_count;
  // Rows (layer_norm, rms_norm) mostly lie along N, since S > 1 spreads a row in memory.
  if (row.reduced == AxisSet{Axis::g, Axis::k} && (choice >> 8U) % 4 != 0) main = 0;
  shape[kept[main]] = groups;
  const std::size_t second = (main + 1) % kept_count;
  if (kept_count > 1 && (choice >> 12U) % 3 == 0 && main != second &&
      (row.reduced != AxisSet{Axis::g, Axis::k} || main != 0))
    shape[kept[second]] = 2;
  return shape;
}

Planner::Planner(const Subject& subject, Effort effort, std::uint64_t seed, std::string_view property)
    : subject_(subject), effort_(effort), property_hash_(hash_of(property)), state_(seed ^ property_hash_) {}

bool Planner::primary() const { return subject_.convention == subject_.kernel.conventions.front(); }

std::int64_t Planner::by_effort(std::int64_t quick, std::int64_t standard, std::int64_t thorough) const {
  switch (effort_) {
    case Effort::quick:
      return primary() ? quick : std::max<std::int64_t>(1, quick / 4);
    case Effort::standard:
      return primary() ? standard : std::max<std::int64_t>(1, standard / 4);
    case Effort::thorough:
      break;
  }
  return thorough;
}

std::vector<std::int64_t> Planner::lengths(std::int64_t most, std::int64_t one_in) const {
  // AVX-512 has 16 lanes and kernels unroll up to four times; beyond, powers of two (blocks, tiles, lanes of a tree)
  // and widths of real models, at which kernels have been seen to change path (769, 1216, 2432, 3584, …). 147 to 235
  // leave every number of vectors of 16 behind a loop of eight of them, 411 to 491 some behind one of sixteen.
  std::int64_t dense = 68;
  if (effort_ == Effort::standard) dense = 130;
  if (effort_ == Effort::thorough) dense = 300;
  std::vector<std::int64_t> all;
  for (std::int64_t n = 1; n <= dense; ++n) all.push_back(n);
  for (const std::int64_t n :
       {96,  98,  100, 147, 153,  165,  179,  192,  205,  215,  235,  320,  384,  385,  392,  411,  459,  491,
        640, 768, 769, 896, 1000, 1216, 1280, 1536, 1568, 1600, 2050, 2304, 2432, 2560, 3072, 3584, 5003, 5120})
    if (n > dense) all.push_back(n);
  for (std::int64_t power = 64; power <= (std::int64_t{1} << 20); power *= 2)
    for (const std::int64_t n : {power - 1, power, power + 1})
      if (n > dense) all.push_back(n);
  // Between them any length: some of each octave, as the seed says.
  std::uint64_t state = state_;
  for (std::int64_t octave = 128; octave < 65536; octave *= 2)
    for (std::int64_t i = octave < 1024 ? by_effort(8, 16, 40) : by_effort(2, 6, 20); i > 0; --i)
      all.push_back(octave + static_cast<std::int64_t>(splitmix(state) % static_cast<std::uint64_t>(octave)));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  // Other conventions than the first change formulas, not access: a few lengths of each kind do.
  if (!primary()) one_in = std::max<std::int64_t>(one_in, 11);
  std::vector<std::int64_t> result;
  auto at = static_cast<std::int64_t>(property_hash_ % static_cast<std::uint64_t>(one_in));
  for (const std::int64_t n : all) {
    if (n > most) break;
    // Counts at which degrees of freedom end are never left out.
    if (at++ % one_in == 0 || n <= 3) result.push_back(n);
  }
  return result;
}

void Planner::add(const Recipe& recipe) {
  const Drawn d = drawn(drawn_fields(), splitmix(state_));
  Problem p;
  const std::int64_t few =
      std::max<std::int64_t>(1, std::min<std::int64_t>(7, 4096 / std::max<std::int64_t>(1, recipe.length)));
  const std::int64_t groups = recipe.groups > 0 ? recipe.groups : 1 + static_cast<std::int64_t>(d.groups) % few;
  p.shape = shape_with(subject_.row, recipe.length, groups, d.split);
  p.profile = recipe.profile;
  p.kappa = recipe.kappa;
  p.scale = recipe.scale;
  p.level = recipe.level;
  p.eps = recipe.eps >= 0 ? recipe.eps : static_cast<double>(eps_values[d.eps % eps_values.size()]);
  p.momentum = recipe.momentum >= 0 ? recipe.momentum
                                    : static_cast<double>(momentum_values[d.momentum % momentum_values.size()]);
  p.step = recipe.step > 0 ? recipe.step : step_values[d.step % step_values.size()];
  // With a variance, eps may be absent.
  const bool varies = recipe.profile == Profile::conditioned || recipe.profile == Profile::outlier_channels ||
                      recipe.profile == Profile::needle || recipe.profile == Profile::drift;
  if (recipe.eps < 0 && recipe.length > 1 && varies && (d.eps >> 8U) % 8 == 0) p.eps = 0;
  if (recipe.profile == Profile::parameter_rounding) {
    // Values that float32 does not have, as frameworks pass them.
    constexpr std::array<double, 4> decimals{1e-5, 1e-3, 1e-12, 0.3};
    p.eps = decimals[d.eps % decimals.size()];
    p.momentum = d.momentum % 2 == 0 ? 0.1 : 0.9;
  }
  p.gamma = recipe.gamma >= 0 ? recipe.gamma != 0 : d.affine % 4 != 0;
  p.beta = recipe.beta >= 0 ? recipe.beta != 0 : (d.affine >> 4U) % 4 != 0;
  p.saved = recipe.saved >= 0 ? recipe.saved != 0 : (d.affine >> 12U) % 3 != 0;
  p.running = recipe.running >= 0 ? recipe.running != 0 : (d.affine >> 16U) % 3 != 0;
  p.given = (d.affine >> 8U) % 3 == 0 ? Given::saved : Given::running;
  if (recipe.given != Given::none) p.given = recipe.given;
  if (is_training(subject_.phase)) p.given = Given::none;
  // Momentum and step mean nothing to gradients: their words are free.
  p.handed = recipe.handed.value_or(d.step % 3 == 0 ? Handed::shifted : Handed::nearest);
  p.cotangent = recipe.cotangent.value_or(cotangents[d.momentum % cotangents.size()]);
  constexpr std::array<std::int32_t, 5> thread_counts{2, 3, 4, 8, 64};
  p.threads = recipe.threads > 0  ? recipe.threads
              : d.places % 4 != 0 ? 1
                                  : thread_counts[(d.places >> 4U) % thread_counts.size()];
  if (recipe.layouts) {
    p.layout[Role::x] = drawn_layout(d.layouts);
    p.layout[Role::y] = (d.layouts & 64U) != 0 ? drawn_layout(d.places) : p.layout[Role::x];
    p.layout[Role::dx] = (d.layouts & 128U) != 0 ? drawn_layout(d.fence) : p.layout[Role::x];
    p.layout[Role::dy] = (d.layouts & 256U) != 0 ? drawn_layout(d.split) : p.layout[Role::dx];
    p.layout[Role::part_mean] = p.layout[Role::x];
    p.layout[Role::part_stat] = p.layout[Role::y];
    p.layout[Role::ddx] = p.layout[Role::y];
    p.layout[Role::ddy] = p.layout[Role::dy];
    // An upstream gradient that was expanded: all of it, or along the positions.
    if (p.cotangent == Cotangent::ones && (d.layouts & 512U) != 0)
      p.layout[Role::dy].broadcast = AxisSet{Axis::n, Axis::g, Axis::k, Axis::s};
    if (p.cotangent == Cotangent::pooled) p.layout[Role::dy].broadcast = AxisSet{Axis::s};
    if ((d.places & 64U) != 0)
      for (const Role role : {Role::gamma, Role::beta, Role::mean, Role::stat, Role::running_mean, Role::running_var,
                              Role::dgamma, Role::dbeta, Role::part_count, Role::ddgamma, Role::ddbeta})
        p.layout[role].step = 1 + (d.places >> index_of(role)) % 3;
    p.in_place = d.places % 3 == 0;
    p.fence = d.fence % 2 == 0 ? Fence::right : Fence::left;
    p.misalign = (d.fence >> 4U) % 3 == 0 ? static_cast<std::int32_t>((d.fence >> 8U) % 16) : 0;
    p.skew = (d.fence >> 12U) % 3 == 0 ? static_cast<std::int32_t>(1 + (d.fence >> 16U) % 3) : 0;
  }
  add(p);
}

void Planner::add(Problem problem) {
  if (problem.key == 0) problem.key = splitmix(state_) >> 16U;
  problem = inside_claim(std::move(problem), subject_);
  if (check(problem).empty()) problems_.push_back(std::move(problem));
}

void Planner::add_threads() {
  std::int32_t threads = 2;
  for (const std::int64_t length : {1, 5, 64, 100, 768, 9000}) {
    Recipe recipe;
    recipe.length = length;
    recipe.groups = length > 1000 ? 3 : 37;
    recipe.kappa = 10;
    recipe.threads = threads;
    add(recipe);
    threads = threads % 5 + 2;
  }
}

void Planner::add_counts() {
  const auto add_one = [&](std::int64_t length, std::int64_t groups) {
    Recipe recipe;
    recipe.length = length;
    recipe.groups = groups;
    recipe.kappa = 3;
    add(recipe);
  };
  using Count = std::pair<std::int64_t, std::int64_t>;
  for (const auto& [length, groups] : {Count{4, 9}, {3, 49}, {5, 128}}) add_one(length, groups);
  if (!primary()) return;
  for (const auto& [length, groups] : {Count{8, 65}, {1, 257}, {20, 33}, {33, 17}, {64, 100}, {128, 9}})
    add_one(length, groups);
  for (const auto& [length, groups] : {Count{7, 1025}, {2, 5000}, {768, 11}, {256, 17}, {129, 130}, {512, 129}})
    add_one(length, groups);
  add_one(3, 65536 + 7);
  add_roots();
}

void Planner::add_count_residues() {
  if (!primary()) return;
  for (std::int64_t r = 0; r < 16; ++r)
    for (const Shape& shape : {Shape{2, 1, 33 + r, 3}, Shape{17 + r, 1, 3, 5}}) {
      Problem p;
      p.shape = shape;
      p.saved = p.running = true;
      p.given = Given::running;
      p.kappa = 3;
      add(p);
      if (shape[0] != 2) continue;
      for (const Role role : {Role::x, Role::y, Role::dy, Role::dx})
        p.layout[role].order = {Axis::n, Axis::s, Axis::g, Axis::k};
      add(p);
    }
}

// lengths() leaves some of these tails out.
void Planner::add_tails() {
  if (!primary()) return;
  for (std::int64_t length = 192; length < 256; ++length) {
    Recipe recipe;
    recipe.length = length;
    recipe.groups = 1;
    recipe.kappa = 1;
    add(recipe);
  }
}

// Groups of zeros: the saved statistic is the reciprocal root of eps, and nothing else rounds. Some digits of a
// radicand hide a root that is a few units off, as one of Newton's steps too few leaves it, and others show it.
void Planner::add_roots() {
  std::uint64_t state = property_hash_;
  for (std::int64_t i = 0; i < by_effort(24, 48, 96); ++i) {
    const std::uint64_t word = splitmix(state);
    Recipe recipe;
    recipe.length = i % 2 == 0 ? 1 : 16;
    recipe.groups = 1;
    recipe.profile = Profile::constant;
    recipe.kappa = 0;
    recipe.eps = std::ldexp(1 + static_cast<double>(word >> 41U) * 0x1p-23, -static_cast<int>(word % 30));
    recipe.saved = 1;
    add(recipe);
  }
}

void Planner::add_shapes(const std::vector<Profile>& profiles) {
  std::vector<Shape> shapes{{1024, 1, 2, 1}, {64, 1, 96, 1}, {2, 1, 3, 16}, {2, 2, 3, 7}, {3, 4, 5, 1},
                            {1, 1, 65, 100}, {2, 1, 127, 9}, {1, 6, 1, 35}, {2, 3, 4, 5}, {1, 8, 4, 35},
                            {4, 1, 32, 1},   {2, 16, 3, 9},  {1, 1, 1, 1},  {1, 1, 8, 1}, {7, 1, 3, 9},
                            {9, 2, 2, 3},    {17, 1, 5, 3},  {7, 1, 2, 49}, {2, 2, 8, 9}, {2, 3, 9, 7},
                            {1, 2, 17, 7},   {2, 32, 2, 49}, {3, 2, 32, 4}};
  if (effort_ != Effort::quick) shapes.push_back({8, 1, 32, 784});
  if (!primary()) shapes = {{2, 1, 3, 16}, {3, 4, 5, 1}, {7, 1, 17, 9}, {2, 2, 8, 9}, {1, 1, 768, 1}};
  std::size_t i = 0;
  for (const Shape& shape : shapes)
    for (const Profile profile : primary() ? profiles : std::vector<Profile>{profiles.front()}) {
      Problem problem;
      problem.shape = shape;
      problem.profile = profile;
      problem.kappa = 5;
      problem.saved = problem.running = true;
      problem.given = i % 2 == 0 ? Given::running : Given::saved;
      problem.in_place = i % 3 == 0;
      problem.cotangent = cotangents[i % cotangents.size()];
      add(problem);
      for (const Role role : {Role::x, Role::y, Role::dy, Role::dx})
        problem.layout[role].order = {Axis::n, Axis::s, Axis::g, Axis::k};
      add(problem);
      ++i;
    }
}

// Fast paths are chosen by size and by what is absent.
void Planner::add_subsets() {
  const std::vector<std::int64_t> lengths =
      primary() ? std::vector<std::int64_t>{4, 8, 16, 32, 64, 128, 256, 512, 768, 1024, 1280, 2048, 4096}
                : std::vector<std::int64_t>{512, 768};
  for (const std::int64_t length : lengths)
    for (const int subset : {0, 1, 2, 3}) {
      Recipe recipe;
      recipe.length = length;
      recipe.groups = length > 1000 ? 2 : 3;
      // The truth of gradients costs several times that of y.
      if (is_backward(subject_.phase) && length != 1024) recipe.groups = length > 1000 || !primary() ? 1 : 2;
      recipe.gamma = subset & 1;
      recipe.beta = subset >> 1;
      recipe.kappa = 2;
      recipe.layouts = !primary();
      add(recipe);
    }
}

void Planner::cover(const std::function<bool(Profile)>& takes) {
  if (!primary()) return;
  for (Problem& problem : missing_problems(subject_, effort_, problems_, takes)) add(std::move(problem));
}

}  // namespace normgate
