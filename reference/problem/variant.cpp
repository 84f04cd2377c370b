// The variant table, and the names of phases and roles. A new variant is a row here; everything else reads the row.
#include "reference/problem/variant.hpp"

#include <cassert>

namespace normgate {

namespace {

constexpr AxisSet every_axis{Axis::n, Axis::g, Axis::k, Axis::s};
constexpr AxisSet channel{Axis::g, Axis::k};

//                          reduced               affine   centred  running
constexpr std::array<VariantRow, 5> variants{{
    {Variant::batch_norm, "batch_norm", {Axis::n, Axis::s}, channel, true, channel},
    {Variant::layer_norm, "layer_norm", channel, channel, true, {}},
    {Variant::group_norm, "group_norm", {Axis::k, Axis::s}, channel, true, {}},
    {Variant::instance_norm, "instance_norm", {Axis::s}, channel, true, channel},
    {Variant::rms_norm, "rms_norm", channel, channel, false, {}},
}};

struct PhaseName {
  Phase phase;
  std::string_view name;
};
constexpr std::array<PhaseName, 7> phases{{
    {Phase::forward_training, "forward_training"},
    {Phase::forward_inference, "forward_inference"},
    {Phase::backward_training, "backward_training"},
    {Phase::backward_inference, "backward_inference"},
    {Phase::statistics, "statistics"},
    {Phase::merge_statistics, "merge_statistics"},
    {Phase::double_backward, "double_backward"},
}};

// By number.
constexpr std::array<std::string_view, role_count> roles{
    "x",         "y",         "gamma",        "beta",        "mean",           "mean_lo",
    "stat",      "stat_lo",   "running_mean", "running_var", "running_weight", "dy",
    "dx",        "dgamma",    "dbeta",        "residual",    "dresidual",      "reserve",
    "part_mean", "part_stat", "part_count",   "ddx",         "ddgamma",        "ddbeta",
    "ddy"};

}  // namespace

std::span<const VariantRow> variant_table() { return variants; }

const VariantRow& row_of(Variant variant) {
  for (const VariantRow& row : variants)
    if (row.variant == variant) return row;
  assert(false && "a variant without a row");
  return variants.front();
}

std::optional<Variant> variant_named(std::string_view name) {
  for (const VariantRow& row : variants)
    if (row.name == name) return row.variant;
  return std::nullopt;
}

std::string_view name_of(Phase phase) {
  for (const PhaseName& entry : phases)
    if (entry.phase == phase) return entry.name;
  return "unknown_phase";
}

std::optional<Phase> phase_named(std::string_view name) {
  for (const PhaseName& entry : phases)
    if (entry.name == name) return entry.phase;
  return std::nullopt;
}

std::string_view name_of(Role role) {
  return index_of(role) < role_count ? roles[index_of(role)] : std::string_view("unknown_role");
}

std::optional<Role> role_named(std::string_view name) {
  for (std::size_t i = 0; i < role_count; ++i)
    if (roles[i] == name) return static_cast<Role>(i);
  return std::nullopt;
}

AxisSet axes_of(Role role, const VariantRow& row) {
  switch (role) {
    case Role::x:
    case Role::y:
    case Role::dy:
    case Role::dx:
    case Role::residual:
    case Role::dresidual:
    case Role::part_mean:
    case Role::part_stat:
    case Role::ddx:
    case Role::ddy:
      return every_axis;
    case Role::part_count:
      return row.reduced;
    case Role::gamma:
    case Role::beta:
    case Role::dgamma:
    case Role::dbeta:
    case Role::ddgamma:
    case Role::ddbeta:
      return row.affine;
    case Role::mean:
    case Role::mean_lo:
    case Role::stat:
    case Role::stat_lo:
      return row.reduced.complement();
    case Role::running_mean:
    case Role::running_var:
      return row.running;
    case Role::running_weight:
    case Role::reserve:
      break;
  }
  return {};
}

}  // namespace normgate
