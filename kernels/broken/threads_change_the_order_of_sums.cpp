// rejected by: threads; looks like: -
// Promises the same bits on any number of threads, and adds up as many partial sums as there are threads.
// The kind of PaddlePaddle/Paddle#56100 (results differ between runs): each result alone is right.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

float sum_in_parts(const View& x, const Group& group, std::int64_t parts) {
  float sum = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    float partial = 0;
    for (std::int64_t i = group.n * part / parts; i < group.n * (part + 1) / parts; ++i) partial += x[group.at(i)];
    sum += partial;
  }
  return sum;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float mean = sum_in_parts(t.x, group, call->threads > 0 ? call->threads : 1) / group.count();
    const float variance = squares_around(t.x, group, mean) / group.count();
    put_y(t, group, mean, 1 / std::sqrt(variance + static_cast<float>(call->eps)));
  }
  return NG_OK;
}

constexpr ng_claim claim = promising(NG_THREAD_INVARIANT | NG_ROW_INDEPENDENT | NG_BATCH_INVARIANT);

}  // namespace

extern const ng_kernel threads_change_the_order_of_sums = [] {
  ng_kernel kernel = with_claim(training(NG_LAYER_NORM, "broken/threads_change_the_order_of_sums", run), &claim);
  kernel.max_threads = 8;
  return kernel;
}();

}  // namespace normgate::broken
