// Groups of 2^24 + 3 elements and tensors of 10^8 through the fast tier, rounded where they are computed: values
// against the exact tier, and how much memory that takes beside inputs and outputs. Label `large`: half a minute, and
// two gigabytes.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>

#include "reference/truth/backward.hpp"
#include "reference/truth/tiers/exact.hpp"
#include "reference/truth/tiers/fast.hpp"
#include "reference/truth/tiers/given.hpp"
#include "reference/truth/tiers/rounded_floats.hpp"
#include "reference/truth/tiers/scalars.hpp"
#include "tests/reference/truth/support.hpp"

namespace normgate {
namespace {

constexpr std::int64_t long_group = (std::int64_t{1} << 24) + 3;
constexpr double mebibyte = 1048576;

// From /proc/self/status, in MiB.
double memory(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(field + ":")) continue;
    std::istringstream rest(line.substr(field.size() + 1));
    double kibibytes = 0;
    rest >> kibibytes;
    return kibibytes / 1024;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// The peak of what is resident during `work`, above what was before, in MiB.
template <typename Work>
double extra_memory(Work work) {
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
  const double before = memory("VmRSS");
  work();
  return memory("VmHWM") - before;
}

// A linear congruential stream (Knuth's): 10^8 Philox blocks would take longer than what is examined.
class Stream {
 public:
  explicit Stream(std::uint64_t key) : state_(key) {}
  // An integer of ±2^19 times 2^-16, around `centre`.
  float next(float centre) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return centre + static_cast<float>(static_cast<std::int32_t>(state_ >> 44U) - (1 << 19)) * 0x1p-16F;
  }

 private:
  std::uint64_t state_;
};

Inputs inputs_of(const Problem& problem) {
  Inputs inputs;
  for (std::size_t r = 0; r < role_count; ++r) {
    const auto role = static_cast<Role>(r);
    if (!use_of(problem, role).read) continue;
    Stream stream(r + 1);
    auto& values = inputs[role];
    values.resize(
        static_cast<std::size_t>(element_count(restricted(problem.shape, axes_of(role, row_of(problem.variant))))));
    for (float& value : values) value = stream.next(role == Role::x ? 100.0F : 0.25F);
  }
  return inputs;
}

double size_of(const PerRole<std::vector<float>>& tensors) {
  std::size_t elements = 0;
  for (std::size_t r = 0; r < role_count; ++r) elements += tensors[static_cast<Role>(r)].size();
  return static_cast<double>(elements) * sizeof(float) / mebibyte;
}

// Rounds the outputs within `buffers` groups of extra memory, and compares some with the exact tier: those beside the
// ends of the group, of chunks and of vectors, and some in between.
tiers::RoundedFloats examine(const Problem& problem, const Inputs& inputs, double buffers, std::vector<Role> roles) {
  const std::string line = print(problem);
  SCOPED_TRACE(line);
  tiers::RoundedFloats rounded;
  const double extra =
      extra_memory([&] { tiers::correctly_rounded_floats(problem, inputs, SavedUse::recomputes, rounded); });
  const double outputs = size_of(rounded.out);
  const double group = static_cast<double>(group_size(problem)) * sizeof(float) / mebibyte;
  std::printf("%s: %.0f MiB of inputs, %.0f of outputs, %.0f more\n", line.c_str(), size_of(inputs), outputs,
              extra - outputs);
  testing::Test::RecordProperty("extra_mebibytes", std::to_string(extra - outputs));
  // 24 for the certificates of columns, what was read late, and the allocator's rounding.
  EXPECT_LE(extra, outputs + buffers * group + 24);
  EXPECT_EQ(rounded.counts.definition + rounded.counts.special, 0);
  // Random values are never near a boundary, but for the certificate.
  EXPECT_GE(rounded.counts.fast, element_count(problem.shape) - 100);

  constexpr double infinity = std::numeric_limits<double>::infinity();
  tiers::ExactValues exact(problem, inputs, SavedUse::recomputes);
  for (const Role role : roles) {
    const std::vector<float>& values = rounded.out[role];
    EXPECT_FALSE(values.empty());
    std::vector<std::size_t> places{0, 7, 8, 65535, 65536, 1000003, 16777218, values.size() / 3, values.size() - 1};
    for (const std::size_t at : places) {
      if (at >= values.size()) continue;
      EXPECT_EQ(exact.round(role, at, tiers::Format::float32, {-infinity, infinity}).value,
                static_cast<double>(values[at]))
          << name_of(role) << " at " << at;
    }
  }
  return rounded;
}

void examine(const std::string& line, double buffers, const std::vector<Role>& roles) {
  const Problem problem = problem_of(line);
  (void)examine(problem, inputs_of(problem), buffers, roles);
}

TEST(Large, RowsOfLayerNorm) {
  const std::string shape = " n=1 g=1 k=" + std::to_string(long_group) + " s=1";
  examine("forward_training layer_norm saved=1" + shape, 0, {Role::y, Role::mean, Role::stat});
  examine("backward_training layer_norm" + shape, 0, {Role::dx, Role::dgamma, Role::dbeta});
}

// Groups that are strided are gathered.
TEST(Large, GroupsOfBatchNorm) {
  const std::string shape = " n=" + std::to_string(long_group) + " g=1 k=2 s=1";
  examine("forward_training batch_norm running=1" + shape, 1, {Role::y, Role::running_mean, Role::running_var});
  examine("backward_training batch_norm" + shape, 2, {Role::dx, Role::dgamma, Role::dbeta});
}

TEST(Large, GroupsOfRmsNormAndInstanceNorm) {
  const std::string length = std::to_string(long_group);
  examine("backward_training rms_norm n=1 g=1 s=1 k=" + length, 0, {Role::dx, Role::dgamma});
  examine("forward_training instance_norm saved=1 n=1 g=1 k=1 s=" + length, 0, {Role::y, Role::mean, Role::stat});
}

TEST(Large, AHundredMillionElementsForward) {
  examine("forward_training layer_norm saved=1 n=100000 g=1 k=1000 s=1", 0, {Role::y, Role::mean, Role::stat});
  examine("forward_training group_norm n=5 g=2 k=100 s=100000", 0, {Role::y});
}

// With what the storing sink says, block of rows by block of rows: its dgamma and dbeta add up to those of the whole.
TEST(Large, AHundredMillionElementsBackward) {
  const Problem whole = problem_of("backward_training layer_norm n=100000 g=1 k=1000 s=1");
  const Inputs inputs = inputs_of(whole);
  const tiers::RoundedFloats rounded = examine(whole, inputs, 0, {Role::dx, Role::dbeta});
  constexpr std::int64_t rows = 1000;
  constexpr std::size_t columns = 1000;
  Problem part = whole;
  part.shape[0] = rows;
  std::array<std::vector<tiers::Certified>, 2> sums;
  sums.fill(std::vector<tiers::Certified>(columns));
  constexpr std::array<Role, 2> parameters{Role::dgamma, Role::dbeta};
  std::size_t differing = 0;
  const double extra = extra_memory([&] {
    for (std::int64_t first = 0; first < whole.shape[0]; first += rows) {
      const auto begin = static_cast<std::ptrdiff_t>(first) * static_cast<std::ptrdiff_t>(columns);
      const auto end = begin + static_cast<std::ptrdiff_t>(rows) * static_cast<std::ptrdiff_t>(columns);
      Inputs some = {};
      some[Role::gamma] = inputs[Role::gamma];
      for (const Role role : {Role::x, Role::dy})
        some[role].assign(inputs[role].begin() + begin, inputs[role].begin() + end);
      const auto truth = tiers::fast_backward(part, some, SavedUse::recomputes);
      ASSERT_TRUE(truth.has_value());
      for (std::size_t i = 0; i < truth->out[Role::dx].size(); ++i) {
        const auto ends = tiers::rounded_ends(truth->out[Role::dx][i], tiers::Format::float32);
        const auto value = static_cast<double>(rounded.out[Role::dx][static_cast<std::size_t>(begin) + i]);
        differing += ends.low <= value && value <= ends.high ? 0 : 1;
      }
      for (std::size_t r = 0; r < 2; ++r)
        for (std::size_t c = 0; c < columns; ++c) {
          const Exact& value = truth->out[parameters[r]][c];
          sums[r][c] = tiers::plus(sums[r][c], tiers::Certified{value.hi, value.lo, value.bound});
        }
    }
  });
  std::printf("%s in blocks of %d rows: %.0f MiB\n", print(whole).c_str(), static_cast<int>(rows), extra);
  EXPECT_LE(extra, 64);
  EXPECT_EQ(differing, 0U);
  for (std::size_t r = 0; r < 2; ++r)
    for (std::size_t c = 0; c < columns; ++c) {
      const auto ends = tiers::rounded_ends(tiers::exact_of(sums[r][c]), tiers::Format::float32);
      const auto value = static_cast<double>(rounded.out[parameters[r]][c]);
      EXPECT_TRUE(ends.low <= value && value <= ends.high) << name_of(parameters[r]) << " at " << c;
    }
}

}  // namespace
}  // namespace normgate
