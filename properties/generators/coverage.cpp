// The dimensions of coverage: cells, their names, an example of each.
#include "properties/generators/coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "properties/generators/plan.hpp"
#include "reference/problem/data.hpp"

namespace normgate {
namespace {

constexpr std::array profiles{Profile::conditioned,
                              Profile::exact,
                              Profile::exact_sum,
                              Profile::needle,
                              Profile::special,
                              Profile::near_constant,
                              Profile::constant,
                              Profile::outlier_channels,
                              Profile::parameter_rounding,
                              Profile::drift};
constexpr int profile_count = static_cast<int>(profiles.size());
// Profiles that any length and any subset may have, whatever the property.
constexpr std::array plain_profiles{Profile::conditioned, Profile::needle, Profile::drift, Profile::outlier_channels};
constexpr std::array cotangents{Cotangent::random,     Cotangent::ones,  Cotangent::pooled,
                                Cotangent::normalized, Cotangent::mixed, Cotangent::unit};
constexpr int cotangent_count = static_cast<int>(cotangents.size());
// AVX-512 has 16 lanes, and kernels unroll up to four times.
constexpr int residues = 64;

// Optional tensors: gamma, beta, and saved and running statistics, or in inference where the statistics come from.
constexpr int subsets = 16;
int subset_of(const Problem& p) {
  const bool third = is_training(p.phase) ? p.saved : p.given == Given::saved;
  return (p.gamma ? 1 : 0) | (p.beta ? 2 : 0) | (third ? 4 : 0) | (p.running ? 8 : 0);
}
void take_subset(Problem& p, Phase phase, int subset) {
  p.gamma = (subset & 1) != 0;
  p.beta = (subset & 2) != 0;
  const bool third = (subset & 4) != 0;
  if (is_training(phase)) {
    p.saved = third;
    p.running = (subset & 8) != 0;
  } else {
    p.given = third ? Given::saved : Given::running;
  }
}
std::string name_of_subset(int subset) {
  std::string text;
  constexpr std::array<std::string_view, 4> names{"gamma", "beta", "saved", "running"};
  for (std::size_t i = 0; i < names.size(); ++i)
    if ((subset >> i & 1) != 0) text += fmt::format("{}{}", text.empty() ? "" : "+", names[i]);
  return text.empty() ? "none" : text;
}

// What no dimension is about changes from cell to cell.
Problem example(const Subject& subject, std::int64_t length, int cell, Profile profile, int subset) {
  const auto i = static_cast<std::uint64_t>(cell);
  Problem p;
  p.shape = shape_with(subject.row, length, 1 + cell % 3, (i * 0x9E3779B97F4A7C15U) >> 40U);
  p.profile = profile;
  constexpr std::array kappas{5.0, 1.0, 50.0};
  p.kappa = kappas[i % kappas.size()];
  p.level = 1 + 2 * (cell % 3);
  constexpr std::array eps{1e-5F, 1e-3F, 0.1F, 1e-6F};
  p.eps = static_cast<double>(eps[i / 3 % eps.size()]);
  if (profile == Profile::exact) p.eps = exact_eps(subject.convention, p.level).value_or(p.eps);
  if (profile == Profile::parameter_rounding) p.eps = 1e-3;
  p.momentum = i % 2 == 0 ? 0.25 : static_cast<double>(0.1F);
  p.step = 1 + cell % 7;
  p.cotangent = cotangents[i % cotangents.size()];
  p.handed = i % 5 == 0 ? Handed::shifted : Handed::nearest;
  take_subset(p, subject.phase, subset);
  return p;
}
Problem everything_present(const Subject& subject, std::int64_t length, int cell) {
  Problem p = example(subject, length, cell, Profile::conditioned, 15);
  if (!is_training(subject.phase)) p.given = cell % 2 == 0 ? Given::running : Given::saved;
  return p;
}

struct Dimension {
  std::string_view name;
  int size;
  // Calls back with each cell of the problem.
  void (*cells)(const Problem&, const VariantRow&, const std::function<void(int)>&);
  Problem (*example)(const Subject&, int cell);
  std::string (*cell_name)(int cell);
  Effort from = Effort::quick;  // the least effort at which plans guarantee it
};
using Into = const std::function<void(int)>&;

int index_of_profile(Profile profile) {
  return static_cast<int>(std::find(profiles.begin(), profiles.end(), profile) - profiles.begin());
}
int index_of_cotangent(Cotangent cotangent) {
  return static_cast<int>(std::find(cotangents.begin(), cotangents.end(), cotangent) - cotangents.begin());
}
int residue_of(const Problem& p) { return static_cast<int>(group_size(p) % residues); }
// Below one round of the widest unroll, and behind one.
std::int64_t length_of(int residue, int choice) {
  return residue == 0 || choice % 2 != 0 ? residue + residues : residue;
}
template <typename List>
auto dealt(const List& list, int choice) {
  return list[static_cast<std::size_t>(choice) % list.size()];
}

// ---- layouts ----

constexpr std::array<std::string_view, 7> layout_kinds{"dense",   "channels last", "other order",     "padded",
                                                       "strided", "expanded",      "expanded along S"};
enum LayoutKind : int { dense, channels_last, other_order, padded, strided, expanded, expanded_along_s };
constexpr std::array last{Axis::n, Axis::s, Axis::g, Axis::k};
constexpr std::array turned{Axis::s, Axis::k, Axis::g, Axis::n};

// An order counts where the memory of this very shape differs for it.
void layout_cells(const Problem& p, const VariantRow& row, Into into) {
  for (std::size_t r = 0; r < role_count; ++r) {
    const Role role = static_cast<Role>(r);
    if (!use_of(p, role).present()) continue;
    const Layout& layout = p.layout[role];
    const AxisSet axes = axes_of(role, row);
    const auto cell = [&](LayoutKind kind) { into(static_cast<int>(r * layout_kinds.size()) + kind); };
    const auto wide = [&](Axis axis) { return axes.has(axis) && p.shape[static_cast<std::size_t>(axis)] > 1; };
    std::vector<Axis> order;
    for (const Axis axis : layout.order)
      if (wide(axis)) order.push_back(axis);
    const bool sorted = std::is_sorted(order.begin(), order.end());
    if (!sorted) cell(layout.order == last ? channels_last : other_order);
    if (layout.pad > 0) cell(padded);
    if (layout.step > 1) cell(strided);
    if (layout.broadcast == AxisSet{Axis::s} && wide(Axis::s))
      cell(expanded_along_s);
    else if (!layout.broadcast.empty())
      cell(expanded);
    if (sorted && layout.pad == 0 && layout.step == 1 && layout.broadcast.empty()) cell(dense);
  }
}
Problem layout_example(const Subject& subject, int cell) {
  const auto kinds = static_cast<int>(layout_kinds.size());
  const Role role = static_cast<Role>(cell / kinds);
  Problem p = everything_present(subject, 12, cell);
  p.shape = {2, 3, 4, 5};
  // Given statistics are one pair or the other.
  if (!is_training(subject.phase)) p.given = role == Role::mean || role == Role::stat ? Given::saved : Given::running;
  Layout layout;
  switch (cell % kinds) {
    case channels_last:
      layout.order = last;
      break;
    case other_order:
      layout.order = turned;
      break;
    case padded:
      layout.pad = 3;
      break;
    case strided:
      layout.step = 2;
      break;
    case expanded:
      layout.broadcast = AxisSet{Axis::n, Axis::g, Axis::k, Axis::s};
      p.cotangent = Cotangent::ones;
      break;
    case expanded_along_s:
      layout.broadcast = AxisSet{Axis::s};
      p.cotangent = Cotangent::pooled;
      break;
    default:
      break;
  }
  p.layout[role] = layout;
  if (!subject.kernel.mixed && layout.broadcast.empty())
    for (const Role tensor : {Role::x, Role::y, Role::dy, Role::dx}) p.layout[tensor] = layout;
  return p;
}
std::string layout_name(int cell) {
  const auto kinds = static_cast<int>(layout_kinds.size());
  return fmt::format("{} {}", name_of(static_cast<Role>(cell / kinds)),
                     layout_kinds[static_cast<std::size_t>(cell % kinds)]);
}

// ---- place in memory ----

constexpr int misalignments = 16;
constexpr int skews = 4;
constexpr int first_skew = misalignments;
constexpr int first_fence = first_skew + skews;
constexpr int first_in_place = first_fence + 2;
constexpr int first_threads = first_in_place + 2;
constexpr int places = first_threads + 3;
void place_cells(const Problem& p, const VariantRow&, Into into) {
  if (p.misalign < misalignments) into(p.misalign);
  into(first_skew + p.skew);
  into(first_fence + (p.fence == Fence::left ? 1 : 0));
  into(first_in_place + (p.in_place ? 1 : 0));
  into(first_threads + std::min(p.threads, 3) - 1);
}
Problem place_example(const Subject& subject, int cell) {
  Problem p = everything_present(subject, 20 + cell, cell);
  if (cell < first_skew)
    p.misalign = cell;
  else if (cell < first_fence)
    p.skew = cell - first_skew;
  else if (cell < first_in_place)
    p.fence = cell == first_fence ? Fence::right : Fence::left;
  else if (cell < first_threads)
    p.in_place = cell != first_in_place;
  else
    p.threads = cell - first_threads + 1;
  return p;
}
std::string place_name(int cell) {
  if (cell < first_skew) return fmt::format("misalign={}", cell);
  if (cell < first_fence) return fmt::format("skew={}", cell - first_skew);
  if (cell < first_in_place) return cell == first_fence ? "right fence" : "left fence";
  if (cell < first_threads) return cell == first_in_place ? "out of place" : "in place";
  constexpr std::array<std::string_view, 3> names{"one thread", "two threads", "more threads"};
  return std::string(names[static_cast<std::size_t>(cell - first_threads)]);
}

// ---- eps ----

// Two decades each: about 1e-12, 1e-10, … 1; 0 apart.
constexpr std::array orders{1e-12F, 1e-10F, 1e-8F, 1e-6F, 1e-4F, 1e-2F, 1.0F};
void order_cells(const Problem& p, const VariantRow&, Into into) {
  if (p.eps == 0) return into(0);
  int order = 1;
  for (double edge = 3e-11; edge < 1 && p.eps >= edge; edge *= 100) ++order;
  into(order);
}
Problem order_example(const Subject& subject, int cell) {
  Problem p = everything_present(subject, 30 + cell, cell);
  p.eps = cell == 0 ? 0 : static_cast<double>(orders[static_cast<std::size_t>(cell - 1)]);
  return p;
}

// Against the variance, which is about 4^scale.
constexpr std::array<std::string_view, 4> reaches{"far below the variance", "below the variance", "near the variance",
                                                  "above the variance"};
void reach_cells(const Problem& p, const VariantRow&, Into into) {
  if (p.eps == 0 || (p.profile != Profile::conditioned && p.profile != Profile::drift)) return;
  const double ratio = std::ldexp(p.eps, -2 * p.scale);
  into(ratio < 1e-6 ? 0 : ratio < 1e-2 ? 1 : ratio <= 1e2 ? 2 : 3);
}
Problem reach_example(const Subject& subject, int cell) {
  Problem p = everything_present(subject, 40 + cell, cell);
  constexpr std::array eps{1e-8F, 1e-3F, 0.1F, 1e-3F};
  constexpr std::array scales{0, 0, -2, -10};
  p.eps = static_cast<double>(dealt(eps, cell));
  p.scale = dealt(scales, cell);
  return p;
}

// ---- lengths ----

// 1, 2, 3, and each power of two with its neighbours.
constexpr int first_power = 2;
constexpr int last_power = 12;
constexpr int length_count = 1 + 3 * (last_power - first_power + 1);
std::int64_t length_at(int cell) {
  if (cell == 0) return 1;
  if (cell == 1) return 2;
  return (std::int64_t{1} << (first_power + (cell - 1) / 3)) - 1 + (cell - 1) % 3;
}
void length_cells(const Problem& p, const VariantRow&, Into into) {
  const std::int64_t length = group_size(p);
  for (int cell = 0; cell < length_count; ++cell)
    if (length_at(cell) == length) into(cell);
}

std::span<const Dimension> dimensions() {
  static constexpr Dimension list[] = {
      {"profile, length modulo 64", profile_count * residues,
       [](const Problem& p, const VariantRow&, Into into) {
         into(index_of_profile(p.profile) * residues + residue_of(p));
       },
       [](const Subject& subject, int cell) {
         const int profile = cell / residues;
         const int residue = cell % residues;
         return example(subject, length_of(residue, profile + residue), cell, dealt(profiles, profile),
                        (residue + profile) % subsets);
       },
       [](int cell) { return fmt::format("{} {}", name_of(dealt(profiles, cell / residues)), cell % residues); }},
      {"length modulo 64, optional tensors", residues * subsets,
       [](const Problem& p, const VariantRow&, Into into) { into(residue_of(p) * subsets + subset_of(p)); },
       [](const Subject& subject, int cell) {
         const int residue = cell / subsets;
         return example(subject, length_of(residue, cell), cell, dealt(plain_profiles, residue + cell), cell % subsets);
       },
       [](int cell) { return fmt::format("{} {}", cell / subsets, name_of_subset(cell % subsets)); }},
      {"profile, optional tensors", profile_count * subsets,
       [](const Problem& p, const VariantRow&, Into into) {
         into(index_of_profile(p.profile) * subsets + subset_of(p));
       },
       [](const Subject& subject, int cell) {
         return example(subject, 17 + cell % 30, cell, dealt(profiles, cell / subsets), cell % subsets);
       },
       [](int cell) {
         return fmt::format("{} {}", name_of(dealt(profiles, cell / subsets)), name_of_subset(cell % subsets));
       }},
      {"cotangent, profile", cotangent_count * profile_count,
       [](const Problem& p, const VariantRow&, Into into) {
         if (is_backward(p.phase)) into(index_of_cotangent(p.cotangent) * profile_count + index_of_profile(p.profile));
       },
       [](const Subject& subject, int cell) {
         Problem p = example(subject, 21 + cell % 11, cell, dealt(profiles, cell), 7);
         p.cotangent = dealt(cotangents, cell / profile_count);
         return p;
       },
       [](int cell) {
         return fmt::format("{} {}", name_of(dealt(cotangents, cell / profile_count)), name_of(dealt(profiles, cell)));
       }},
      {"cotangent, handed statistics", cotangent_count * 2,
       [](const Problem& p, const VariantRow&, Into into) {
         if (p.phase == Phase::backward_training && p.saved)
           into(index_of_cotangent(p.cotangent) * 2 + (p.handed == Handed::shifted ? 1 : 0));
       },
       [](const Subject& subject, int cell) {
         Problem p = example(subject, 26 + cell, cell, Profile::conditioned, 7);
         p.cotangent = dealt(cotangents, cell / 2);
         p.handed = cell % 2 != 0 ? Handed::shifted : Handed::nearest;
         return p;
       },
       [](int cell) {
         return fmt::format("{} {}", name_of(dealt(cotangents, cell / 2)), cell % 2 != 0 ? "shifted" : "nearest");
       }},
      {"tensor, layout", static_cast<int>(role_count * layout_kinds.size()), layout_cells, layout_example, layout_name},
      {"place in memory", places, place_cells, place_example, place_name},
      {"order of eps", 1 + static_cast<int>(orders.size()), order_cells, order_example,
       [](int cell) { return cell == 0 ? "0" : fmt::format("{:g}", dealt(orders, cell - 1)); }},
      {"eps against the variance", static_cast<int>(reaches.size()), reach_cells, reach_example,
       [](int cell) { return std::string(dealt(reaches, cell)); }},
      {"length", length_count, length_cells,
       [](const Subject& subject, int cell) { return everything_present(subject, length_at(cell), 3 * cell); },
       [](int cell) { return std::to_string(length_at(cell)); }},
      {"profile, length modulo 64, optional tensors", profile_count * residues * subsets,
       [](const Problem& p, const VariantRow&, Into into) {
         into((index_of_profile(p.profile) * residues + residue_of(p)) * subsets + subset_of(p));
       },
       [](const Subject& subject, int cell) {
         const int residue = cell / subsets % residues;
         return example(subject, length_of(residue, cell), cell, dealt(profiles, cell / subsets / residues),
                        cell % subsets);
       },
       [](int cell) {
         return fmt::format("{} {} {}", name_of(dealt(profiles, cell / subsets / residues)), cell / subsets % residues,
                            name_of_subset(cell % subsets));
       },
       Effort::thorough},
  };
  return list;
}

class Covered {
 public:
  Covered(const VariantRow& row, std::span<const Problem> problems) : row_(row) {
    for (const Dimension& dimension : dimensions())
      marks_.emplace_back(static_cast<std::size_t>(dimension.size), false);
    for (const Problem& problem : problems) add(problem);
  }
  void add(const Problem& problem) {
    // Of lengths and layouts an empty one says nothing.
    if (element_count(problem.shape) == 0) return;
    for (std::size_t d = 0; d < marks_.size(); ++d)
      dimensions()[d].cells(problem, row_, [&](int cell) { marks_[d][static_cast<std::size_t>(cell)] = true; });
  }
  [[nodiscard]] bool has(std::size_t dimension, int cell) const {
    return marks_[dimension][static_cast<std::size_t>(cell)];
  }

 private:
  const VariantRow& row_;
  std::vector<std::vector<bool>> marks_;
};

// The example of a cell, if the claim leaves it there.
std::optional<Problem> possible_example(const Dimension& dimension, int cell, const Subject& subject) {
  Problem problem = inside_claim(dimension.example(subject, cell), subject);
  if (!check(problem).empty()) return std::nullopt;
  bool there = false;
  dimension.cells(problem, subject.row, [&](int each) { there = there || each == cell; });
  if (!there) return std::nullopt;
  return problem;
}

}  // namespace

std::vector<CoverageRow> coverage_of(const Subject& subject, Effort effort, std::span<const Problem> problems) {
  const Covered covered(subject.row, problems);
  std::vector<CoverageRow> rows;
  for (std::size_t d = 0; d < dimensions().size(); ++d) {
    const Dimension& dimension = dimensions()[d];
    CoverageRow row;
    row.name = dimension.name;
    row.guaranteed = effort >= dimension.from;
    for (int cell = 0; cell < dimension.size; ++cell) {
      if (covered.has(d, cell)) {
        ++row.covered;
        ++row.possible;
      } else if (possible_example(dimension, cell, subject)) {
        ++row.possible;
        row.missing.push_back(dimension.cell_name(cell));
      }
    }
    if (row.possible > 0) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Problem> missing_problems(const Subject& subject, Effort effort, std::span<const Problem> problems,
                                      const std::function<bool(Profile)>& takes) {
  Covered covered(subject.row, problems);
  std::vector<Problem> result;
  for (std::size_t d = 0; d < dimensions().size(); ++d) {
    const Dimension& dimension = dimensions()[d];
    if (effort < dimension.from) continue;
    for (int cell = 0; cell < dimension.size; ++cell) {
      if (covered.has(d, cell)) continue;
      auto problem = possible_example(dimension, cell, subject);
      if (!problem || !takes(problem->profile)) continue;
      covered.add(*problem);
      result.push_back(std::move(*problem));
    }
  }
  return result;
}

}  // namespace normgate
