// Statistics of a part, and of the union of parts, in plain loops: what synchronized batch normalization is made of.
// The variance is over n in both; one that is over n-1 is made of the whole's.
#include "kernels/plain/statistics.hpp"

namespace normgate::plain {

void statistics(const Row& row, const ng_call& call) {
  const Work work(row, call);
  for_each(work.state, [&](const Index& channel) {
    for_each(work.others, [&](const Index& other) {
      const Index origin = channel + other;
      const Moments moments = moments_of(work, origin);
      if (work.mean) work.mean[origin] = moments.mean;
      work.stat[origin] = quotient(moments.squares, work.size);  // NaN for no elements
    });
  });
}

// A weighted mean, then the weighted sum of what the parts vary in themselves and around it. Counts are added as
// integers, since their sum may exceed those that a float holds. Parts without elements are skipped: 0/0 stands there.
//
// Worst error found: all of it, since a float32 sum of large values that cancel loses the small one:
//   3 parts of 1 element each, with means 16777216, 1 and -16777216
//   mean 0, by definition 0x1.555556p-2 (0.333333343)
void merge_statistics(const Row& row, const ng_call& call) {
  const Work work(row, call);
  const Tensor part_mean(call, NG_PART_MEAN);
  const Tensor part_stat(call, NG_PART_STAT);
  const Tensor part_count(call, NG_PART_COUNT);
  std::int64_t n = 0;
  for_each(work.group, [&](const Index& part) { n += static_cast<std::int64_t>(part_count[part]); });
  for_each(work.state, [&](const Index& channel) {
    for_each(work.others, [&](const Index& other) {
      const Index origin = channel + other;
      float mean = 0;
      if (row.centred) {
        float sum = 0;
        for_each(work.group, [&](const Index& part) {
          if (part_count[part] != 0) sum += part_count[part] * part_mean[origin + part];
        });
        mean = quotient(sum, n);
        work.mean[origin] = mean;
      }
      float squares = 0;
      for_each(work.group, [&](const Index& part) {
        if (part_count[part] == 0) return;
        const float d = row.centred ? part_mean[origin + part] - mean : 0;
        squares += part_count[part] * (part_stat[origin + part] + d * d);
      });
      work.stat[origin] = quotient(squares, n);
    });
  });
}

}  // namespace normgate::plain
