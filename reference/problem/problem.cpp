// What a problem means: its groups, the tensors it has, and whether it makes sense.
#include "reference/problem/problem.hpp"

#include <fmt/format.h>

#include <cmath>

namespace normgate {

std::int64_t group_size(const Problem& problem) {
  return element_count(restricted(problem.shape, row_of(problem.variant).reduced));
}

std::int64_t group_count(const Problem& problem) {
  return element_count(restricted(problem.shape, row_of(problem.variant).reduced.complement()));
}

std::int64_t group_index(const Problem& problem, const Shape& at) {
  return dense_index(problem.shape, row_of(problem.variant).reduced.complement(), at);
}

Problem training_of(const Problem& statistics) {
  Problem training = statistics;
  training.phase = Phase::forward_training;
  training.gamma = training.beta = false;
  training.saved = true;
  training.convention = {};
  training.convention.saved = SavedStatistic::variance;
  return training;
}

namespace {

RoleUse use_in_statistics(const Problem& problem, Role role) {
  const bool centred = row_of(problem.variant).centred;
  const bool merges = problem.phase == Phase::merge_statistics;
  switch (role) {
    case Role::x:
      return {.read = !merges};
    case Role::mean:
      return {.write = centred};
    case Role::stat:
      return {.write = true};
    case Role::part_mean:
      return {.read = merges && centred};
    case Role::part_stat:
    case Role::part_count:
      return {.read = merges};
    default:
      return {};
  }
}

RoleUse use_in_double_backward(const Problem& problem, Role role) {
  switch (role) {
    case Role::x:
    case Role::dy:
    case Role::ddx:
      return {.read = true};
    case Role::gamma:
    case Role::ddgamma:
      return {.read = problem.gamma};
    case Role::ddbeta:
      return {.read = problem.beta};
    case Role::ddy:
    case Role::dx:
      return {.write = true};
    case Role::dgamma:
      return {.write = problem.gamma};
    default:
      return {};
  }
}

}  // namespace

RoleUse use_of(const Problem& problem, Role role) {
  if (is_statistics(problem.phase)) return use_in_statistics(problem, role);
  if (problem.phase == Phase::double_backward) return use_in_double_backward(problem, role);
  const VariantRow& row = row_of(problem.variant);
  const bool training = is_training(problem.phase);
  const bool backward = is_backward(problem.phase);
  const bool running =
      !row.running.empty() && (training ? problem.running && !backward : problem.given == Given::running);
  const bool weight = running && problem.convention.momentum == MomentumForm::accumulated_weight;
  // The statistics of the call itself: written by a forward training, read by its backward and where they are given.
  const bool own = training ? problem.saved : problem.given == Given::saved;
  const bool own_read = own && (backward || !training);
  const bool accumulates = problem.convention.gradients == Gradients::accumulate;
  const bool from_output = backward && problem.from_output;
  switch (role) {
    case Role::x:
      return {.read = !from_output};
    case Role::y:
      return {.read = from_output, .write = !backward};
    case Role::gamma:
      return {.read = problem.gamma};
    case Role::beta:
      return {.read = problem.beta && (!backward || from_output)};
    case Role::mean:
      return {.read = own_read && row.centred && !from_output, .write = own && !own_read && row.centred};
    case Role::stat:
      return {.read = own_read, .write = own && !own_read};
    case Role::running_mean:
      return {.read = running && row.centred, .write = running && row.centred && training};
    case Role::running_var:
      return {.read = running, .write = running && training};
    case Role::running_weight:
      return {.read = weight, .write = weight && training};
    case Role::dy:
      return {.read = backward};
    case Role::dx:
      return {.write = backward};
    case Role::dgamma:
      return {.read = backward && problem.gamma && accumulates, .write = backward && problem.gamma};
    case Role::dbeta:
      return {.read = backward && problem.beta && accumulates, .write = backward && problem.beta};
    case Role::mean_lo:
    case Role::stat_lo:
    case Role::residual:
    case Role::dresidual:
    case Role::reserve:
    case Role::part_mean:
    case Role::part_stat:
    case Role::part_count:
    case Role::ddx:
    case Role::ddgamma:
    case Role::ddbeta:
    case Role::ddy:
      break;
  }
  return {};
}

namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 40U;
constexpr std::int64_t most_parts = std::int64_t{1} << 28U;  // so that counts add up to at most 2^52

bool is_float(double value) { return std::isnan(value) || static_cast<double>(static_cast<float>(value)) == value; }

// `field` is `value`; right is …
std::string wrong(std::string_view field, std::string_view value, std::string_view right) {
  return fmt::format("{} is {}; right is {}.", field, value, right);
}

std::string check_shape(const Problem& problem) {
  constexpr std::array<std::string_view, axis_count> names{"n", "g", "k", "s"};
  std::int64_t elements = 1;
  for (std::size_t a = 0; a < axis_count; ++a) {
    const std::int64_t extent = problem.shape[a];
    if (extent < 0 || extent >= most_elements)
      return wrong(names[a], fmt::format("{}", extent), "an extent from 0 to 2^40-1");
    // Both factors are below 2^40, so look before multiplying. An extent of 0 counts as 1: strides must not overflow.
    if (extent > 0 && elements > (most_elements - 1) / extent)
      return wrong("n·g·k·s",
                   fmt::format("{}·{}·{}·{}", problem.shape[0], problem.shape[1], problem.shape[2], problem.shape[3]),
                   "fewer than 2^40 elements (an extent of 0 counted as 1)");
    elements *= extent > 0 ? extent : 1;
  }
  return "";
}

std::string check_statistics(const Problem& problem, const VariantRow& row) {
  const std::string_view phase = name_of(problem.phase);
  const bool has_running = !row.running.empty();
  if (is_statistics(problem.phase)) {
    if (problem.saved) return wrong("saved", "1", fmt::format("0 in {}, which always writes statistics", phase));
    if (problem.running) return wrong("running", "1", fmt::format("0 in {}, which updates no state", phase));
    if (problem.given != Given::none)
      return wrong("given", problem.given == Given::running ? "running" : "saved", fmt::format("none in {}", phase));
    if (problem.in_place) return wrong("in_place", "1", fmt::format("0 in {}, which has no y", phase));
    if (problem.phase == Phase::merge_statistics && group_size(problem) > most_parts)
      return wrong("the number of parts", fmt::format("{}", group_size(problem)), "at most 2^28");
    return "";
  }
  if (problem.phase == Phase::double_backward) {
    if (problem.saved) return wrong("saved", "1", fmt::format("0 in {}, which takes statistics from x", phase));
    if (problem.running) return wrong("running", "1", fmt::format("0 in {}, which updates no state", phase));
    if (problem.given != Given::none)
      return wrong("given", problem.given == Given::running ? "running" : "saved",
                   fmt::format("none in {}, which takes statistics from x", phase));
    if (problem.in_place) return wrong("in_place", "1", fmt::format("0 in {}", phase));
    return "";
  }
  if (is_training(problem.phase)) {
    if (problem.given != Given::none)
      return wrong("given", problem.given == Given::running ? "running" : "saved",
                   fmt::format("none in {}, which is about the statistics of x itself", phase));
    if (problem.running && problem.phase == Phase::backward_training)
      return wrong("running", "1", "0 in backward_training: gradients do not depend on running statistics");
    if (problem.running && !has_running)
      return wrong("running", "1", fmt::format("0: {} has no running statistics", row.name));
    return "";
  }
  if (problem.saved) return wrong("saved", "1", fmt::format("0 in {} (given=saved reads statistics)", phase));
  if (problem.running)
    return wrong("running", "1", fmt::format("0 in {}, which updates no state (given=running reads it)", phase));
  if (problem.given == Given::none)
    return wrong("given", "none", fmt::format("{} in {}", has_running ? "running or saved" : "saved", phase));
  if (problem.given == Given::running && !has_running)
    return wrong("given", "running", fmt::format("saved: {} has no running statistics", row.name));
  return "";
}

// The fields that only backward phases have.
std::string check_gradients(const Problem& problem) {
  const bool training = problem.phase == Phase::backward_training;
  if (problem.from_output && !training) return wrong("from_output", "1", "0 outside backward_training");
  if (problem.from_output && !problem.saved)
    return wrong("from_output", "1", "1 only with saved=1: y alone does not tell the deviation");
  if (problem.handed != Handed::nearest && !(training && problem.saved))
    return wrong("handed", "shifted", "nearest where backward_training is not handed statistics (saved=1)");
  if (problem.cotangent != Cotangent::random && !has_cotangent(problem.phase))
    return wrong("cotangent", name_of(problem.cotangent),
                 fmt::format("random in {}, which has no dy", name_of(problem.phase)));
  return "";
}

std::string check_scalars(const Problem& problem) {
  const bool any_double =
      problem.profile == Profile::parameter_rounding || problem.convention.scalars == Scalars::float64;
  const double smallest = 0x1p-126;
  const double largest = 0x1p126;
  if (!(problem.eps == 0 || (problem.eps >= smallest && problem.eps <= largest)))
    return wrong("eps", shortest(problem.eps), "0 or a number from 2^-126 (1.1754944e-38) to 2^126 (8.507059e+37)");
  if (!any_double && !is_float(problem.eps))
    return wrong("eps", fmt::format("{} ({})", shortest(problem.eps), hexfloat(problem.eps)),
                 fmt::format("a float32, the nearest is {} (others: profile=parameter_rounding or scalars:float64)",
                             shortest(static_cast<float>(problem.eps))));
  if (!(problem.momentum >= 0 && problem.momentum <= 1))
    return wrong("momentum", shortest(problem.momentum), "a number from 0 to 1");
  if (!any_double && !is_float(problem.momentum))
    return wrong("momentum", fmt::format("{} ({})", shortest(problem.momentum), hexfloat(problem.momentum)),
                 fmt::format("a float32, the nearest is {} (others: profile=parameter_rounding or scalars:float64)",
                             shortest(static_cast<float>(problem.momentum))));
  if (problem.step < 1) return wrong("step", fmt::format("{}", problem.step), "a count from 1, this call included");
  return "";
}

std::string check_dials(const Problem& problem) {
  if (!(problem.kappa >= 0 && problem.kappa <= 0x1p60))
    return wrong("kappa", shortest(problem.kappa), "a number from 0 to 2^60 (1.1529215e+18)");
  if (problem.scale < -60 || problem.scale > 60)
    return wrong("scale", fmt::format("{}", problem.scale), "an exponent from -60 to 60");
  if (problem.level < 1 || problem.level > 31 || problem.level % 2 == 0)
    return wrong("level", fmt::format("{}", problem.level), "an odd integer from 1 to 31");
  if (problem.skew < 0 || problem.skew > 3)
    return wrong("skew", fmt::format("{}", problem.skew), "from 0 to 3 elements");
  if (problem.misalign < 0 || problem.misalign > 63)
    return wrong("misalign", fmt::format("{}", problem.misalign), "from 0 to 63 elements");
  if (problem.threads < 1 || problem.threads > 256)
    return wrong("threads", fmt::format("{}", problem.threads), "from 1 to 256");
  return "";
}

// Elements that are one in memory must be equal.
std::string check_broadcast(const Problem& problem) {
  for (std::size_t i = 0; i < role_count; ++i) {
    const Role role = static_cast<Role>(i);
    const Layout& layout = problem.layout[role];
    if (layout.broadcast.empty()) continue;
    const std::string field = fmt::format("{}.layout", name_of(role));
    if (role != Role::dy || !is_backward(problem.phase))
      return wrong(field, print(layout), "capital letters: only dy of a backward phase may be broadcast");
    if (problem.in_place) return wrong(field, print(layout), "capital letters where dx is written over dy");
    if (!problem.values[Role::dy].empty())
      return wrong(field, print(layout), "capital letters where dy has explicit values");
    if (problem.profile == Profile::special)
      return wrong(field, print(layout), "capital letters in profile special, where single elements of dy differ");
    const bool along_s = problem.cotangent == Cotangent::pooled && layout.broadcast == AxisSet{Axis::s};
    if (problem.cotangent != Cotangent::ones && !along_s)
      return wrong(
          field, print(layout),
          "lower case only for axes along which dy is constant: any with cotangent=ones, s with cotangent=pooled");
  }
  return "";
}

std::string check_layouts(const Problem& problem) {
  for (std::size_t i = 0; i < role_count; ++i) {
    const Role role = static_cast<Role>(i);
    const Layout& layout = problem.layout[role];
    const std::string field = fmt::format("{}.layout", name_of(role));
    unsigned seen = 0;
    for (const Axis axis : layout.order)
      if (static_cast<std::size_t>(axis) < axis_count) seen |= 1U << static_cast<unsigned>(axis);
    if (seen != 0xFU) return wrong(field, print(layout), "each of N, G, K and S once, like NSGK*2+3");
    if (layout.step < 1 || layout.step > 1024) return wrong(field, print(layout), "a step (after *) from 1 to 1024");
    if (layout.pad < 0 || layout.pad > (std::int64_t{1} << 20U))
      return wrong(field, print(layout), "a pad (after +) from 0 to 2^20");
  }
  const Role in = in_place_input(problem.phase);
  const Role out = in_place_output(problem.phase);
  if (problem.in_place && problem.layout[in] != problem.layout[out])
    return fmt::format("in_place is 1 while {}.layout is {} and {}.layout is {}; right is one layout for both.",
                       name_of(in), print(problem.layout[in]), name_of(out), print(problem.layout[out]));
  return check_broadcast(problem);
}

std::string check_values(const Problem& problem, const VariantRow& row) {
  for (std::size_t i = 0; i < role_count; ++i) {
    const Role role = static_cast<Role>(i);
    const std::vector<float>& values = problem.values[role];
    if (values.empty()) continue;
    if (!use_of(problem, role).read)
      return fmt::format("values has {} numbers for {}, which this problem does not read; right is none.",
                         values.size(), name_of(role));
    if (role == Role::part_count)
      for (const float value : values)
        if (!(value >= 0 && value <= largest_count && std::floor(value) == value))
          return fmt::format("values has a {} in part_count; right is an integer from 0 to 2^24.",
                             shortest(static_cast<double>(value)));
    const auto wanted = static_cast<std::uint64_t>(element_count(restricted(problem.shape, axes_of(role, row))));
    if (values.size() != wanted)
      return fmt::format("values has {} numbers for {}; right is {}, one for each element.", values.size(),
                         name_of(role), wanted);
  }
  // x̂ = (y - beta)/gamma: where gamma is 0, y does not tell it.
  if (problem.from_output && problem.gamma) {
    const bool plus_one = problem.convention.gamma == GammaOffset::plus_one;
    for (const float value : problem.values[Role::gamma])
      if (value == (plus_one ? -1.0F : 0.0F))
        return fmt::format("values has a {} in gamma while from_output is 1; right is a gamma that is not 0{}.",
                           plus_one ? "-1" : "0", plus_one ? " when 1 is added" : "");
  }
  return "";
}

}  // namespace

std::string check(const Problem& problem) {
  const VariantRow& row = row_of(problem.variant);
  std::string sentence = check_shape(problem);
  if (sentence.empty()) sentence = check_statistics(problem, row);
  if (sentence.empty()) sentence = check_gradients(problem);
  if (sentence.empty()) sentence = check_scalars(problem);
  if (sentence.empty()) sentence = check_dials(problem);
  if (sentence.empty()) sentence = check_layouts(problem);
  if (sentence.empty()) sentence = check_values(problem, row);
  return sentence;
}

}  // namespace normgate
