// Walks over the groups of a problem: which elements share one mean and one variance.
#pragma once

#include "reference/problem/problem.hpp"

namespace normgate {

class Groups {
 public:
  Groups(const Shape& shape, const VariantRow& row) : shape_(shape), reduced_(row.reduced) {
    kept_shape_ = restricted(shape, reduced_.complement());
    reduced_shape_ = restricted(shape, reduced_);
    std::int64_t stride = 1;
    for (std::size_t a = axis_count; a-- > 0;) {
      stride_[a] = stride;
      stride *= shape[a];
    }
  }

  [[nodiscard]] std::int64_t count() const { return element_count(kept_shape_); }
  [[nodiscard]] std::int64_t size() const { return element_count(reduced_shape_); }

  // The coordinates of a group's first element.
  [[nodiscard]] Shape origin(std::int64_t group) const {
    Shape at{};
    for (std::size_t a = axis_count; a-- > 0;) {
      if (reduced_.has(a)) continue;
      at[a] = group % shape_[a];
      group /= shape_[a];
    }
    return at;
  }

  // Calls visit(index, at) for each element of the group in row-major order of the reduced axes; `index` is that of
  // the dense tensor x.
  template <typename Visit>
  void for_each(std::int64_t group, Visit visit) const {
    const Shape first = origin(group);
    const auto& r = reduced_shape_;
    Shape at{};
    for (std::int64_t n = 0; n < r[0]; ++n)
      for (std::int64_t g = 0; g < r[1]; ++g)
        for (std::int64_t k = 0; k < r[2]; ++k)
          for (std::int64_t s = 0; s < r[3]; ++s) {
            at = {first[0] + n, first[1] + g, first[2] + k, first[3] + s};
            visit(at[0] * stride_[0] + at[1] * stride_[1] + at[2] * stride_[2] + at[3] * stride_[3], at);
          }
  }

 private:
  Shape shape_;
  AxisSet reduced_;
  Shape kept_shape_{};
  Shape reduced_shape_{};
  std::array<std::int64_t, axis_count> stride_{};
};

}  // namespace normgate
