// Merging the statistics of parts, in double: part p of a group, in row-major order of the reduced axes, is added to
// partial sum p mod 16 and these as a binary tree, as everywhere here (patterns.hpp). First a weighted mean, then the
// weighted sum of what the parts vary in themselves and around it. There are few parts, so one loop serves all layouts.
//
// The products of counts (24 bits) with means are exact, their sums and what follows have a rounding of 2^-53 each; a
// part without elements is not looked at. Hence what patterns.hpp promises: nothing here depends on other groups, on
// layout or on target, and nothing of float32 leaves the range of double.
#include "kernels/simd/job.hpp"
#include "kernels/simd/patterns.hpp"

namespace normgate::simd {

namespace {

// Partial sums, and their tree: i with i+8, i+4, i+2, i+1.
class Lanes {
 public:
  void add(std::int64_t position, double term) { sum_[position % sum_lanes] += term; }
  [[nodiscard]] double total() {
    for (std::int64_t half = sum_lanes / 2; half > 0; half /= 2)
      for (std::int64_t i = 0; i < half; ++i) sum_[i] += sum_[i + half];
    return sum_[0];
  }

 private:
  double sum_[sum_lanes] = {};
};

using Index = std::int64_t[NG_AXES];

float& at(const ng_tensor& tensor, const Index& index) {
  float* result = static_cast<float*>(tensor.data);
  for (int axis = 0; axis < NG_AXES; ++axis) result += index[axis] * tensor.stride[axis];
  return *result;
}

}  // namespace

void merge_statistics(const ng_call& call) {
  const ng_tensor* means = call.tensor[NG_PART_MEAN];
  const ng_tensor& variances = *call.tensor[NG_PART_STAT];
  const ng_tensor& counts = *call.tensor[NG_PART_COUNT];
  const ReducedAxes reduced = reduced_axes(call.variant);
  Index kept;
  Index parts;
  for (int axis = 0; axis < NG_AXES; ++axis) {
    kept[axis] = reduced.has[axis] ? 1 : call.extent[axis];
    parts[axis] = reduced.has[axis] ? call.extent[axis] : 1;
  }
  const auto for_each = [](const Index& extent, const auto& body) {
    Index i;
    for (i[0] = 0; i[0] < extent[0]; ++i[0])
      for (i[1] = 0; i[1] < extent[1]; ++i[1])
        for (i[2] = 0; i[2] < extent[2]; ++i[2])
          for (i[3] = 0; i[3] < extent[3]; ++i[3]) body(i);
  };
  // Integers: exact in any order.
  double n = 0;
  for_each(parts, [&](const Index& part) { n += static_cast<double>(at(counts, part)); });
  for_each(kept, [&](const Index& group) {
    // Calls body(position, count, where the part's statistics stand) for the parts that have elements.
    const auto for_each_part = [&](const auto& body) {
      std::int64_t position = 0;
      for_each(parts, [&](const Index& part) {
        const auto count = static_cast<double>(at(counts, part));
        Index place;
        for (int axis = 0; axis < NG_AXES; ++axis) place[axis] = group[axis] + part[axis];
        if (count != 0) body(position, count, place);
        ++position;
      });
    };
    double mean = 0;
    if (means != nullptr) {
      Lanes sum;
      for_each_part([&](std::int64_t position, double count, const Index& place) {
        sum.add(position, count * static_cast<double>(at(*means, place)));
      });
      mean = sum.total() / n;
      at(*call.tensor[NG_MEAN], group) = static_cast<float>(mean);
    }
    Lanes squares;
    for_each_part([&](std::int64_t position, double count, const Index& place) {
      const double d = means == nullptr ? 0 : static_cast<double>(at(*means, place)) - mean;
      squares.add(position, count * (static_cast<double>(at(variances, place)) + d * d));
    });
    at(*call.tensor[NG_STAT], group) = static_cast<float>(squares.total() / n);
  });
}

}  // namespace normgate::simd
