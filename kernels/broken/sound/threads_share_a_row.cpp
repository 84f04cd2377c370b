// sound: threads share each row, and promise no bits
// As many partial sums as there are threads: other bits on another number of them, and never more additions on the
// longest path than one after the other.
#include <algorithm>
#include <thread>
#include <vector>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

template <typename Term>
float shared_sum(std::int64_t n, std::int64_t workers, const Term& term) {
  std::vector<float> partial(static_cast<std::size_t>(workers), 0.0F);
  const auto share = [&](std::int64_t worker) {
    float sum = 0;
    for (std::int64_t i = n * worker / workers; i < n * (worker + 1) / workers; ++i) sum += term(i);
    partial[static_cast<std::size_t>(worker)] = sum;
  };
  std::vector<std::thread> threads;
  for (std::int64_t worker = 1; worker < workers; ++worker) threads.emplace_back(share, worker);
  share(0);
  for (std::thread& thread : threads) thread.join();
  float sum = 0;
  for (const float part : partial) sum += part;
  return sum;
}

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    // Threads cost more than a short row.
    const std::int64_t workers = group.n < 64 ? 1 : std::max<std::int64_t>(call->threads, 1);
    const float mean = shared_sum(group.n, workers, [&](std::int64_t i) { return t.x[group.at(i)]; }) / group.count();
    const float squares = shared_sum(group.n, workers, [&](std::int64_t i) {
      const float d = t.x[group.at(i)] - mean;
      return d * d;
    });
    put_y(t, group, mean, 1 / std::sqrt(squares / group.count() + static_cast<float>(call->eps)));
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel threads_share_a_row = [] {
  ng_kernel kernel = training(NG_LAYER_NORM, "sound/threads_share_a_row", run);
  kernel.max_threads = 4;
  return kernel;
}();

}  // namespace normgate::broken
