// The elements of one group as one contiguous run: in place where they are, else gathered into a buffer of the
// group's size; and back.
#pragma once

#include <algorithm>
#include <vector>

#include "reference/problem/groups.hpp"

namespace normgate::tiers {

class GroupView {
 public:
  GroupView(const Shape& shape, const VariantRow& row) : groups_(shape, row), shape_(shape) {
    std::int64_t stride = 1;
    for (std::size_t a = axis_count; a-- > 0;) {
      if (row.reduced.has(a) && shape[a] != 1) {
        // The dimensions so far, innermost first; an axis that continues the last one is merged with it.
        if (dimensions_ > 0 && stride_[dimensions_ - 1] * extent_[dimensions_ - 1] == stride) {
          extent_[dimensions_ - 1] *= shape[a];
        } else {
          stride_[dimensions_] = stride;
          extent_[dimensions_++] = shape[a];
        }
      }
      stride *= shape[a];
    }
  }

  [[nodiscard]] const Groups& groups() const { return groups_; }
  [[nodiscard]] std::int64_t size() const { return extent_[0] * extent_[1]; }
  [[nodiscard]] bool contiguous() const { return stride_[0] == 1 && extent_[1] == 1; }
  // The dense index of a group's first element.
  [[nodiscard]] std::int64_t first(std::int64_t group) const {
    return dense_index(shape_, {Axis::n, Axis::g, Axis::k, Axis::s}, groups_.origin(group));
  }

  // The dense index of its i-th element.
  [[nodiscard]] std::int64_t index(std::int64_t group, std::int64_t i) const {
    return first(group) + i / extent_[0] * stride_[1] + i % extent_[0] * stride_[0];
  }

  // Group q of a dense tensor; `buffer` holds it where it is not contiguous.
  [[nodiscard]] const float* gather(const std::vector<float>& tensor, std::int64_t group,
                                    std::vector<float>& buffer) const {
    const float* from = tensor.data() + first(group);
    if (contiguous()) return from;
    buffer.resize(static_cast<std::size_t>(size()));
    float* to = buffer.data();
    for (std::int64_t outer = 0; outer < extent_[1]; ++outer) {
      const float* run = from + outer * stride_[1];
      if (stride_[0] == 1) {
        to = std::copy_n(run, extent_[0], to);
      } else {
        for (std::int64_t i = 0; i < extent_[0]; ++i) *to++ = run[i * stride_[0]];
      }
    }
    return buffer.data();
  }

  // Puts `count` values that belong to the group's elements from `begin` on where they belong in a dense tensor.
  template <typename Value>
  void scatter(const Value* values, std::int64_t begin, std::int64_t count, std::int64_t group,
               std::vector<Value>& tensor) const {
    Value* to = tensor.data() + first(group);
    while (count > 0) {
      const std::int64_t inner = begin % extent_[0];
      const std::int64_t run = std::min(count, extent_[0] - inner);
      Value* place = to + begin / extent_[0] * stride_[1] + inner * stride_[0];
      if (stride_[0] == 1) {
        std::copy_n(values, run, place);
      } else {
        for (std::int64_t i = 0; i < run; ++i) place[i * stride_[0]] = values[i];
      }
      values += run;
      begin += run;
      count -= run;
    }
  }

 private:
  Groups groups_;
  Shape shape_;
  std::size_t dimensions_ = 0;
  // Of the elements of a group, innermost first; no row reduces more than two runs of axes that are not neighbours.
  std::array<std::int64_t, 2> extent_{1, 1};
  std::array<std::int64_t, 2> stride_{1, 0};
};

// How the parameters of a channel lie along a group: one channel, one channel per element, or runs of S elements
// each.
enum class Channels { one, each, runs };

inline Channels channels_along(const Shape& shape, const VariantRow& row) {
  const bool channel_varies = (row.reduced.has(Axis::g) && shape[1] > 1) || (row.reduced.has(Axis::k) && shape[2] > 1);
  if (!channel_varies) return Channels::one;
  return row.reduced.has(Axis::s) && shape[3] > 1 ? Channels::runs : Channels::each;
}

// How many channels further than a group's first element its p-th is.
inline std::int64_t channel_offset(const Shape& shape, Channels channels, std::int64_t p) {
  return channels == Channels::one ? 0 : channels == Channels::each ? p : p / shape[3];
}

// The channel of a group's first element; the others follow one by one (no row reduces N together with G or K).
inline std::int64_t first_channel(const Shape& shape, const VariantRow& row, const Groups& groups, std::int64_t group) {
  return dense_index(shape, row.affine, groups.origin(group));
}

}  // namespace normgate::tiers
