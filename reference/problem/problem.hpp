// A problem: everything about one call of a kernel but the kernel. Printed as one line that parses back.
//
//   forward_training layer_norm n=4 g=1 k=768 s=1 eps=1e-05 profile=conditioned kappa=1000 key=0x1f2e
//
// Phase and variant come first; the rest are `field=value`, any order when parsed, one order when printed. Extents and
// key are always printed, other fields only where they differ from their default. What is left out when parsed has its
// default, extents 1 and the key 0. Real numbers of at most nine significant digits mean the float32 nearest to them
// (eps=1e-5), longer and hexadecimal ones the nearest double.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/problem/convention.hpp"
#include "reference/problem/variant.hpp"

namespace normgate {

// Where an element stands in memory: one stride per axis. `order` lists the axes from outermost to innermost (those the
// role lacks are skipped), `step` is the distance of two neighbours on the innermost axis with more than one element,
// `pad` the elements left free after each innermost run. Axes in `broadcast` have stride 0: all their elements are one
// in memory. Text: "NSGK", "NGKS*2", "NGKS*2+3", broadcast axes in lower case: "NGKs", "ngks". Default "NGKS".
struct Layout {
  std::array<Axis, axis_count> order{Axis::n, Axis::g, Axis::k, Axis::s};
  std::int64_t step = 1;  // >= 1
  std::int64_t pad = 0;   // >= 0
  AxisSet broadcast{};    // dy only: an upstream gradient that was expanded
  friend bool operator==(const Layout&, const Layout&) = default;
};
struct Strides {
  std::array<std::int64_t, axis_count> stride{};  // elements; 0 on axes that the tensor does not have
  std::int64_t span = 0;                          // elements from the first to one past the last; 0 if empty
};
// `shape` is the problem's, `axes` those of the role.
[[nodiscard]] Strides strides_of(const Layout& layout, const Shape& shape, AxisSet axes);

// The families of data, run side by side since none alone sees all bugs (data.hpp says what each draws).
enum class Profile : std::int32_t {
  conditioned,
  exact,
  exact_sum,
  needle,
  special,
  near_constant,
  constant,
  outlier_channels,
  parameter_rounding,
  drift
};

// The families of upstream gradients, chosen against the null space of the backward operator (1 and x̂, where gamma is
// absent): data.hpp says what each draws.
enum class Cotangent : std::int32_t { random, ones, pooled, normalized, mixed, unit };

// Statistics that an inference phase is given.
enum class Given : std::int32_t { none, running, saved };
// The statistics that backward_training is handed: the float32 nearest to the true ones, or values some percent away,
// which only a kernel that uses them as it declares turns into the declared function.
enum class Handed : std::int32_t { nearest, shifted };
// Which fence the data stand flush against.
enum class Fence : std::int32_t { right, left };

struct Problem {
  Phase phase = Phase::forward_training;
  Variant variant = Variant::layer_norm;
  Shape shape{1, 1, 1, 1};

  PerRole<Layout> layout{};  // x.layout=NSGK, gamma.layout=NGKS*2, …
  bool gamma = true;         // gamma=0: absent, and dgamma with it
  bool beta = true;          // beta=0: absent, and dbeta with it
  bool saved = false;    // saved=1: forward_training writes mean (centred rows) and stat, backward_training reads them
  bool running = false;  // running=1: forward_training updates running_mean and running_var
  bool from_output = false;   // from_output=1: backward_training is handed y, beta and stat in place of x and mean
  Given given = Given::none;  // inference only: given=running, given=saved; never none there
  Handed handed = Handed::nearest;                      // backward_training with saved=1
  Cotangent cotangent = Cotangent::random;              // where there is a dy
  bool in_place = false;                                // y is x; backward: dx is dy
  double eps = 9.99999974737875163555145263671875e-06;  // the float32 nearest to 1e-5
  double momentum = 0.100000001490116119384765625;      // the float32 nearest to 0.1
  std::int64_t step = 1;
  Convention convention{};

  Profile profile = Profile::conditioned;
  double kappa = 1;        // nominal |mean|/sigma
  std::int32_t scale = 0;  // data are about 2^scale large
  std::int32_t level = 1;  // profile exact and exact_sum: an odd size of the integers
  Fence fence = Fence::right;
  std::int32_t misalign = 0;  // elements that data are moved off the fence's alignment
  std::int32_t skew = 0;      // further elements per role number, so that tensors are misaligned to each other
  std::int32_t threads = 1;
  std::uint64_t key = 0;                 // all data follow from it
  PerRole<std::vector<float>> values{};  // values=x:[1,2.5,nan];gamma:[…] replaces the profile for these roles

  friend bool operator==(const Problem&, const Problem&) = default;  // NaN in values compares unequal
};

// Elements that one mean and one variance are taken over; number of such groups.
[[nodiscard]] std::int64_t group_size(const Problem& problem);
[[nodiscard]] std::int64_t group_count(const Problem& problem);
// The group that element `at` belongs to: its row-major index among the groups.
[[nodiscard]] std::int64_t group_index(const Problem& problem, const Shape& at);

[[nodiscard]] constexpr bool is_backward(Phase phase) {
  return phase == Phase::backward_training || phase == Phase::backward_inference;
}
[[nodiscard]] constexpr bool is_forward(Phase phase) {
  return phase == Phase::forward_training || phase == Phase::forward_inference;
}
[[nodiscard]] constexpr bool is_training(Phase phase) {
  return phase == Phase::forward_training || phase == Phase::backward_training;
}
// Neither of both is double_backward, whose statistics are those of x, as in training: it has a first and a second
// upstream gradient, and nothing is saved, handed, given, accumulated or in place.
[[nodiscard]] constexpr bool has_cotangent(Phase phase) {
  return is_backward(phase) || phase == Phase::double_backward;
}
[[nodiscard]] constexpr bool has_own_statistics(Phase phase) {
  return is_training(phase) || phase == Phase::double_backward;
}
// Statistics alone, of a part or of the union of parts. A group of merge_statistics has parts for elements: its extents
// count parts, and group_size() is their number. Convention, eps, momentum and step mean nothing in these phases, gamma
// and beta neither: stat is the variance over n.
[[nodiscard]] constexpr bool is_statistics(Phase phase) {
  return phase == Phase::statistics || phase == Phase::merge_statistics;
}
// The forward training whose saved mean and variance a problem of phase `statistics` asks for.
[[nodiscard]] Problem training_of(const Problem& statistics);
// A count is a float32 integer.
inline constexpr float largest_count = 0x1p24F;
// The tensor that is overwritten where a problem is in place, and the one it shares memory with.
[[nodiscard]] constexpr Role in_place_output(Phase phase) { return is_backward(phase) ? Role::dx : Role::y; }
[[nodiscard]] constexpr Role in_place_input(Phase phase) { return is_backward(phase) ? Role::dy : Role::x; }

// Whether a role's tensor is part of the problem, and whether the kernel reads or writes it.
struct RoleUse {
  bool read = false;
  bool write = false;
  [[nodiscard]] bool present() const { return read || write; }
};
[[nodiscard]] RoleUse use_of(const Problem& problem, Role role);

[[nodiscard]] std::string print(const Problem& problem);
struct ProblemOrError {
  std::optional<Problem> problem;
  std::string error;  // names the field and what would be right
};
[[nodiscard]] ProblemOrError parse_problem(std::string_view line);
// "" or a sentence: what is wrong with the problem (inference without given statistics, momentum outside [0,1], …).
[[nodiscard]] std::string check(const Problem& problem);

[[nodiscard]] std::string_view name_of(Profile profile);
[[nodiscard]] std::string_view name_of(Cotangent cotangent);
[[nodiscard]] std::string print(const Layout& layout);

// Shortest decimal that reads back as the same float ("1e-05", "nan", "-inf", "-0"); of the float32 if the value is
// one, of the double otherwise.
[[nodiscard]] std::string shortest(double value);
[[nodiscard]] std::string hexfloat(double value);

}  // namespace normgate
