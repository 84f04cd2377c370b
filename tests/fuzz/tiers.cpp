#include "tests/fuzz/tiers.hpp"

#include <fmt/format.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "reference/truth/backward.hpp"
#include "reference/truth/tiers/fast.hpp"

namespace normgate::fuzz {
namespace {

// Few enough that a hundred digits take no time.
constexpr std::int64_t most_elements = 48;

class Bytes {
 public:
  Bytes(const std::uint8_t* bytes, std::size_t size) : at_(bytes), end_(bytes + size) {}
  std::uint8_t next() { return at_ == end_ ? std::uint8_t{0} : *at_++; }
  std::uint32_t below(std::uint32_t n) { return next() % n; }
  template <typename Enum>
  Enum any(std::uint32_t count) {
    return static_cast<Enum>(below(count));
  }
  float pattern() {
    std::uint32_t bits = 0;
    for (unsigned i = 0; i < 4; ++i) bits |= static_cast<std::uint32_t>(next()) << (8 * i);
    return std::bit_cast<float>(bits);
  }
  float integer(int exponent) { return std::ldexp(static_cast<float>(static_cast<std::int8_t>(next())), exponent); }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

constexpr std::array eps_values{0x1p-126,
                                0.0,
                                1.0,
                                0x1p126,
                                9.99999974737875163555145263671875e-06,
                                0.25,
                                3.0,
                                35.5,
                                1e-5,
                                0x1.fffffffffffffp-40,
                                0x1p-149 * 0x1p60,
                                8.0};
constexpr std::array momentum_values{0.25, 0.0, 1.0, 0.1, 0.5, 1e-30, 0x1p-24, 0.100000001490116119384765625};

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}
bool same_bits(const Exact& a, const Exact& b) {
  return same_bits(a.hi, b.hi) && same_bits(a.lo, b.lo) && same_bits(a.bound, b.bound);
}
bool same_bits(const std::vector<Exact>& a, const std::vector<Exact>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Exact& left, const Exact& right) { return same_bits(left, right); });
}
bool same_bits(const GroupTruth& a, const GroupTruth& b) {
  return same_bits(a.mean, b.mean) && same_bits(a.variance, b.variance) && same_bits(a.rstd, b.rstd);
}

// The tensor in which they differ, or "".
std::string difference(const Truth& a, const Truth& b) {
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!same_bits(a.out[role], b.out[role])) return std::string(name_of(role));
  }
  const bool same = std::equal(a.groups.begin(), a.groups.end(), b.groups.begin(), b.groups.end(),
                               [](const GroupTruth& left, const GroupTruth& right) { return same_bits(left, right); });
  return same ? "" : "the groups' statistics";
}

void choose(std::int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

std::string complaint_about_targets(const proof::Trial& trial, const Inputs& inputs) {
  std::optional<std::optional<Truth>> first;
  std::string complaint;
  choose(0);  // 0: what the CPU has
  for (std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0 && complaint.empty(); rest &= rest - 1) {
    const std::int64_t target = rest & -rest;
    choose(target);
    const std::optional<Truth> got = tiers::fast_truth(trial.problem, inputs, trial.use);
    if (!first) {
      first = got;
    } else if (got.has_value() != first->has_value()) {
      complaint = fmt::format("{} covers what another target does not, or the reverse", hwy::TargetName(target));
    } else if (got) {
      if (const std::string where = difference(**first, *got); !where.empty())
        complaint = fmt::format("{} has other bits in {}", hwy::TargetName(target), where);
    }
    choose(0);
  }
  return complaint;
}

}  // namespace

std::optional<proof::Trial> trial_of(const std::uint8_t* bytes, std::size_t size) {
  Bytes from(bytes, size);
  proof::Trial trial;
  Problem& problem = trial.problem;
  problem.phase = normalizing_phases[from.below(4)];
  problem.variant = static_cast<Variant>(1 + from.below(5));
  const VariantRow& row = row_of(problem.variant);
  std::int64_t room = most_elements;
  for (std::int64_t& extent : problem.shape) {
    extent = std::min<std::int64_t>(1 + from.below(17), room);
    room /= extent;
  }
  const std::uint32_t use = from.below(4);
  trial.format = from.any<tiers::Format>(3);
  Convention& convention = problem.convention;
  convention.normalizing = from.any<NormalizingDivisor>(2);
  convention.stored = from.any<StoredDivisor>(2);
  convention.single = from.any<SingleCount>(3);
  convention.momentum = from.any<MomentumForm>(4);
  convention.eps = from.any<EpsPlacement>(3);
  convention.gamma = from.any<GammaOffset>(2);
  convention.saved = from.any<SavedStatistic>(2);
  convention.scalars = Scalars::float64;
  const std::uint8_t flags = from.next();
  problem.gamma = (flags & 1U) == 0;
  problem.beta = (flags & 2U) == 0;
  convention.gradients = (flags & 4U) != 0 ? Gradients::accumulate : Gradients::overwrite;
  const bool has_running = !row.running.empty();
  if (!is_training(problem.phase)) {
    problem.given = has_running && (flags & 8U) != 0 ? Given::running : Given::saved;
  } else if (problem.phase == Phase::forward_training) {
    problem.saved = (flags & 16U) != 0;
    problem.running = has_running && (flags & 8U) != 0;
  } else {
    problem.saved = (flags & 24U) != 0;
    problem.from_output = (flags & 24U) == 24U;
    trial.use = problem.from_output ? SavedUse::from_output : static_cast<SavedUse>(use);
  }
  problem.eps = eps_values[from.below(eps_values.size())];
  problem.momentum = momentum_values[from.below(momentum_values.size())];
  problem.step = 1 + from.next();
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!use_of(problem, role).read) continue;
    const std::uint8_t how = from.next();
    std::vector<float>& values = problem.values[role];
    values.resize(static_cast<std::size_t>(element_count(restricted(problem.shape, axes_of(role, row)))));
    for (float& value : values) value = how % 2 == 0 ? from.pattern() : from.integer(static_cast<std::int8_t>(how) / 2);
  }
  if (!check(problem).empty()) return std::nullopt;
  return trial;
}

std::string complaint_about(const proof::Trial& trial) {
  const Inputs inputs = make_inputs(trial.problem);
  if (std::string complaint = complaint_about_targets(trial, inputs); !complaint.empty()) return complaint;
  const proof::Agreement agreement = proof::agreement_of(trial, inputs);
  if (!agreement.disagreements.empty()) return agreement.disagreements.front();
  if (!agreement.undecided.empty()) return agreement.undecided.front();
  return {};
}

}  // namespace normgate::fuzz
