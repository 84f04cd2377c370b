// Where the fast tier's values go: stored as Exact with their certificates, or rounded to float32 where they are
// computed. A sink is what the phases' walks are parametrized by; to add one: a class with these members.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "reference/truth/forward.hpp"
#include "reference/truth/tiers/backward_elements.hpp"
#include "reference/truth/tiers/elements.hpp"
#include "reference/truth/tiers/given.hpp"
#include "reference/truth/tiers/group_view.hpp"
#include "reference/truth/tiers/rounding.hpp"

namespace normgate::tiers {

// `count` elements from `begin` on.
inline ForwardGroup part_of(ForwardGroup group, std::int64_t begin, std::int64_t count) {
  group.x += begin;
  if (group.gamma.values != nullptr) group.gamma.values += begin;
  if (group.beta.values != nullptr) group.beta.values += begin;
  group.n = count;
  return group;
}
inline BackwardGroup part_of(BackwardGroup group, std::int64_t begin, std::int64_t count) {
  group.source += begin;
  group.dy += begin;
  if (group.gamma.values != nullptr) group.gamma.values += begin;
  if (group.beta.values != nullptr) group.beta.values += begin;
  group.n = count;
  return group;
}

// A Truth.
class ExactSink {
 public:
  explicit ExactSink(Truth& truth) : truth_(truth) {}

  void allocate_groups(std::int64_t count) { truth_.groups.resize(static_cast<std::size_t>(count)); }
  void allocate(Role role, std::int64_t count) { truth_.out[role].resize(static_cast<std::size_t>(count)); }
  void leave_group(std::int64_t q, const Statistics& statistics) {
    truth_.groups[static_cast<std::size_t>(q)] = {exact_of(statistics.mean), exact_of(statistics.variance),
                                                  exact_of(statistics.rstd)};
  }
  void leave(Role role, std::int64_t at, const Certified& value) {
    truth_.out[role][static_cast<std::size_t>(at)] = exact_of(value);
  }
  // In the place of what a kernel left where something infinite or NaN entered.
  void leave_special(Role role, std::int64_t at, double value) {
    truth_.out[role][static_cast<std::size_t>(at)] = {value, 0, 0};
  }
  // y of the elements of group q from `begin` on.
  void leave_elements(const ForwardGroup& group, const GroupView& view, std::int64_t q, std::int64_t begin) {
    leave_run(Role::y, view, q, begin, group.n, [&](std::int64_t from, std::int64_t count, Exact* out) {
      store_elements(part_of(group, from, count), out);
    });
  }
  // `count` sums from the column `first` on, a multiple of 8, as the role's elements from `at` on.
  void leave_columns(Role role, std::int64_t at, const ColumnSums& sums, std::int64_t first, std::int64_t count,
                     double factor) {
    for (std::int64_t i = 0; i < count; ++i) leave(role, at + i, column(sums, first + i, factor));
  }
  // The same of dx.
  void leave_gradients(const BackwardGroup& group, const GradientScalars& scalars, const GroupView& view,
                       std::int64_t q, std::int64_t begin) {
    leave_run(Role::dx, view, q, begin, group.n, [&](std::int64_t from, std::int64_t count, Exact* out) {
      store_gradients(part_of(group, from, count), scalars, out);
    });
  }

 private:
  template <typename Store>
  void leave_run(Role role, const GroupView& view, std::int64_t q, std::int64_t begin, std::int64_t n, Store store) {
    std::vector<Exact>& out = truth_.out[role];
    if (view.contiguous()) return store(0, n, out.data() + view.first(q) + begin);
    for (std::int64_t from = 0; from < n; from += block) {
      const std::int64_t count = std::min(block, n - from);
      store(from, count, results_.data());
      view.scatter(results_.data(), begin + from, count, q, out);
    }
  }

  Truth& truth_;
  std::array<Exact, block> results_;  // of one block
};

// Values of float32. What a certificate does not decide is tried again with the precise test of rounding.hpp, and left
// for the exact tier where that does not decide either.
class FloatSink {
 public:
  struct Undecided {
    Role role{};
    std::int64_t at = 0;
    RoundedEnds ends;
  };

  explicit FloatSink(PerRole<std::vector<float>>& out) : out_(out) {}

  [[nodiscard]] const std::vector<Undecided>& undecided() const { return undecided_; }
  [[nodiscard]] std::int64_t decided() const { return decided_; }                      // undecided ones do not count
  [[nodiscard]] std::int64_t decided_precisely() const { return decided_precisely_; }  // among them
  [[nodiscard]] std::int64_t special() const { return special_; }  // NaN and infinities, which do not count either

  void allocate_groups(std::int64_t) {}
  void allocate(Role role, std::int64_t count) { out_[role].resize(static_cast<std::size_t>(count)); }
  void leave_group(std::int64_t, const Statistics&) {}
  // As in elements.cpp, "rounding", with |lo| <= u|hi| (1 + 4u): lo - R and its sum with hi err by at most
  // u|hi| (1 + 4u) + 2u R, which R - error = 1.01 u|hi| and `slack` cover.
  void leave(Role role, std::int64_t at, const Certified& value) {
    const double reach = value.error * slack + std::fabs(value.hi) * 0x1.03p-53;
    const auto low = static_cast<float>(value.hi + (value.lo - reach));
    const auto high = static_cast<float>(value.hi + (value.lo + reach));
    out_[role][static_cast<std::size_t>(at)] = low;
    ++decided_;
    if (!(low == high)) [[unlikely]]
      decide_precisely(role, at, exact_of(value));
  }
  void leave_special(Role role, std::int64_t at, double value) {
    out_[role][static_cast<std::size_t>(at)] = static_cast<float>(value);
  }
  void leave_elements(const ForwardGroup& group, const GroupView& view, std::int64_t q, std::int64_t begin) {
    leave_run(
        Role::y, view, q, begin, group.n,
        [&](std::int64_t from, std::int64_t count, float* out) {
          return round_elements(part_of(group, from, count), out, positions_.data());
        },
        [&](std::int64_t i, Exact* out) { store_elements(part_of(group, i, 1), out); });
  }
  void leave_gradients(const BackwardGroup& group, const GradientScalars& scalars, const GroupView& view,
                       std::int64_t q, std::int64_t begin) {
    leave_run(
        Role::dx, view, q, begin, group.n,
        [&](std::int64_t from, std::int64_t count, float* out) {
          return round_gradients(part_of(group, from, count), scalars, out, positions_.data());
        },
        [&](std::int64_t i, Exact* out) { store_gradients(part_of(group, i, 1), scalars, out); });
  }
  void leave_columns(Role role, std::int64_t at, const ColumnSums& sums, std::int64_t first, std::int64_t count,
                     double factor) {
    for (std::int64_t from = 0; from < count; from += block) {
      const std::int64_t some = std::min(block, count - from);
      const std::int64_t open =
          round_columns(sums, first + from, some, factor, out_[role].data() + at + from, positions_.data());
      for (std::int64_t k = 0; k < open; ++k) {
        const std::int64_t i = from + positions_[static_cast<std::size_t>(k)];
        decide_precisely(role, at + i, exact_of(column(sums, first + i, factor)));
      }
    }
    decided_ += count;
  }

 private:
  template <typename Round, typename Store>
  void leave_run(Role role, const GroupView& view, std::int64_t q, std::int64_t begin, std::int64_t n, Round round,
                 Store store) {
    std::vector<float>& out = out_[role];
    const bool direct = view.contiguous();
    for (std::int64_t from = 0; from < n; from += block) {
      const std::int64_t count = std::min(block, n - from);
      const std::int64_t open =
          round(from, count, direct ? out.data() + view.first(q) + begin + from : results_.data());
      if (!direct) view.scatter(results_.data(), begin + from, count, q, out);
      for (std::int64_t k = 0; k < open; ++k) {
        const std::int64_t i = from + positions_[static_cast<std::size_t>(k)];
        Exact exact;
        store(i, &exact);
        decide_precisely(role, view.index(q, begin + i), exact);
      }
    }
    decided_ += n;
  }

  void decide_precisely(Role role, std::int64_t at, const Exact& exact) {
    if (!exact.finite()) {
      out_[role][static_cast<std::size_t>(at)] = static_cast<float>(exact.hi);
      ++special_;
      --decided_;
      return;
    }
    const RoundedEnds ends = rounded_ends(exact, Format::float32);
    if (ends.low == ends.high) {
      out_[role][static_cast<std::size_t>(at)] = static_cast<float>(ends.high);
      ++decided_precisely_;
    } else {
      undecided_.push_back({role, at, ends});
      --decided_;
    }
  }

  PerRole<std::vector<float>>& out_;
  std::vector<Undecided> undecided_;
  std::int64_t decided_ = 0;
  std::int64_t decided_precisely_ = 0;
  std::int64_t special_ = 0;
  // Of one block.
  std::array<float, block> results_;
  std::array<std::int64_t, block> positions_;
};

}  // namespace normgate::tiers
