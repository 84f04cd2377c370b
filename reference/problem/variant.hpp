// The algebra: four axes, five rows. A normalization is two subsets of the axes and one bit.
//
// To add a variant: a row in variant.cpp. What is not in the row (eps, presence of gamma, given statistics, …) is a
// field of the problem (problem.hpp) or of the convention (convention.hpp), never of the variant.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace normgate {

enum class Axis : std::uint8_t { n = 0, g = 1, k = 2, s = 3 };
inline constexpr std::size_t axis_count = 4;

// A subset of the axes.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) bits_ = static_cast<std::uint8_t>(bits_ | (1U << static_cast<unsigned>(axis)));
  }
  [[nodiscard]] constexpr bool has(Axis axis) const { return ((bits_ >> static_cast<unsigned>(axis)) & 1U) != 0; }
  [[nodiscard]] constexpr bool has(std::size_t axis) const { return ((bits_ >> axis) & 1U) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  constexpr void insert(Axis axis) { bits_ = static_cast<std::uint8_t>(bits_ | (1U << static_cast<unsigned>(axis))); }
  [[nodiscard]] constexpr AxisSet complement() const {
    AxisSet result;
    result.bits_ = static_cast<std::uint8_t>(~bits_ & 0xFU);
    return result;
  }
  friend constexpr bool operator==(AxisSet, AxisSet) = default;

 private:
  std::uint8_t bits_ = 0;
};

enum class Variant : std::int32_t { batch_norm = 1, layer_norm = 2, group_norm = 3, instance_norm = 4, rms_norm = 5 };

struct VariantRow {
  Variant variant;
  std::string_view name;
  AxisSet reduced;  // the axes that one mean and one variance are taken over
  AxisSet affine;   // the axes of gamma and beta
  bool centred;     // whether the mean is subtracted (else the "variance" is the mean square)
  AxisSet running;  // the axes of running_mean and running_var; empty: no running statistics
};

[[nodiscard]] std::span<const VariantRow> variant_table();
[[nodiscard]] const VariantRow& row_of(Variant variant);
[[nodiscard]] std::optional<Variant> variant_named(std::string_view name);

// Extents of N, G, K, S; all >= 0.
using Shape = std::array<std::int64_t, axis_count>;
[[nodiscard]] constexpr std::int64_t element_count(const Shape& shape) {
  return shape[0] * shape[1] * shape[2] * shape[3];
}

// The shape with extent 1 on the axes that are not in `axes`.
[[nodiscard]] constexpr Shape restricted(const Shape& shape, AxisSet axes) {
  Shape result{};
  for (std::size_t a = 0; a < axis_count; ++a) result[a] = axes.has(a) ? shape[a] : 1;
  return result;
}

// Row-major index of (n, g, k, s) in a dense tensor that has only `axes` of `shape`; other coordinates are ignored.
[[nodiscard]] constexpr std::int64_t dense_index(const Shape& shape, AxisSet axes, const Shape& at) {
  std::int64_t index = 0;
  for (std::size_t a = 0; a < axis_count; ++a)
    if (axes.has(a)) index = index * shape[a] + at[a];
  return index;
}

enum class Phase : std::int32_t {
  forward_training = 1,
  forward_inference = 2,
  backward_training = 3,
  backward_inference = 4,
  statistics = 5,
  merge_statistics = 6,
  double_backward = 8
};
// Those that write an element for each of x …
inline constexpr std::array normalizing_phases{Phase::forward_training, Phase::forward_inference,
                                               Phase::backward_training, Phase::backward_inference};
// … and all.
inline constexpr std::array judged_phases{Phase::forward_training,   Phase::forward_inference, Phase::backward_training,
                                          Phase::backward_inference, Phase::statistics,        Phase::merge_statistics,
                                          Phase::double_backward};
[[nodiscard]] std::string_view name_of(Phase phase);
[[nodiscard]] std::optional<Phase> phase_named(std::string_view name);

// The tensors of a call; the numbers are those of the C ABI.
enum class Role : std::int32_t {
  x = 0,
  y = 1,
  gamma = 2,
  beta = 3,
  mean = 4,
  mean_lo = 5,
  stat = 6,
  stat_lo = 7,
  running_mean = 8,
  running_var = 9,
  running_weight = 10,
  dy = 11,
  dx = 12,
  dgamma = 13,
  dbeta = 14,
  residual = 15,
  dresidual = 16,
  reserve = 17,
  part_mean = 18,
  part_stat = 19,
  part_count = 20,
  ddx = 21,
  ddgamma = 22,
  ddbeta = 23,
  ddy = 24
};
inline constexpr std::size_t role_count = 25;
[[nodiscard]] constexpr std::size_t index_of(Role role) { return static_cast<std::size_t>(role); }
[[nodiscard]] std::string_view name_of(Role role);
[[nodiscard]] std::optional<Role> role_named(std::string_view name);
// The axes that a role's tensor has in a row (none for running_weight, which is one element).
[[nodiscard]] AxisSet axes_of(Role role, const VariantRow& row);

// For each role something; the common way to pass tensors about.
template <typename T>
class PerRole {
 public:
  T& operator[](Role role) { return items_[index_of(role)]; }
  const T& operator[](Role role) const { return items_[index_of(role)]; }
  friend bool operator==(const PerRole&, const PerRole&) = default;

 private:
  std::array<T, role_count> items_{};
};

}  // namespace normgate
