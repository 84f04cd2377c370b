// Layouts: from the order of the axes, a step and a pad to one stride per axis.
#include <fmt/format.h>

#include "reference/problem/problem.hpp"

namespace normgate {

// From the innermost axis outwards. `step` and `pad` belong to the innermost axis that has more than one element, since
// a row of layer_norm with s=1 is to be spread out too, not only one with s>1.
Strides strides_of(const Layout& layout, const Shape& shape, AxisSet axes) {
  Strides result;
  std::int64_t next = layout.step;
  std::int64_t last = 0;  // offset of the last element
  bool empty = false;
  bool innermost = true;
  for (std::size_t i = axis_count; i-- > 0;) {
    const Axis axis = layout.order[i];
    if (!axes.has(axis)) continue;
    const auto a = static_cast<std::size_t>(axis);
    if (shape[a] == 0) {
      empty = true;
      if (!layout.broadcast.has(axis)) result.stride[a] = next;
      continue;
    }
    if (layout.broadcast.has(axis)) continue;
    result.stride[a] = next;
    last += (shape[a] - 1) * next;
    if (shape[a] == 1) continue;
    next *= shape[a];
    if (innermost) next += layout.pad;
    innermost = false;
  }
  result.span = empty ? 0 : last + 1;
  return result;
}

std::string print(const Layout& layout) {
  constexpr std::string_view letters = "NGKS";
  std::string text;
  for (const Axis axis : layout.order) {
    const auto a = static_cast<std::size_t>(axis);
    text += a >= axis_count ? '?' : layout.broadcast.has(axis) ? static_cast<char>(letters[a] - 'A' + 'a') : letters[a];
  }
  if (layout.step != 1) text += fmt::format("*{}", layout.step);
  if (layout.pad != 0) text += fmt::format("+{}", layout.pad);
  return text;
}

}  // namespace normgate
