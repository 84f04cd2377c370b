// sound: each thread has totals of dgamma and dbeta of its own, declared as blocks of rows that end anywhere
// However the rows are split, a total has at most as many additions on its path as rows one after the other, which is
// what a claim of zeros counts. Without a promise for other numbers of threads.
#include <algorithm>
#include <thread>
#include <vector>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  const std::int64_t rows = group_count(*call);
  const std::int64_t channels = call->extent[NG_G] * call->extent[NG_K];
  if (rows == 0 || channels == 0) return NG_OK;
  const std::int64_t workers = std::clamp<std::int64_t>(call->threads, 1, rows);
  const auto width = static_cast<std::size_t>(2 * channels);
  std::vector<float> totals(static_cast<std::size_t>(workers) * width, 0.0F);
  const auto share = [&](std::int64_t worker) {
    float* const mine = totals.data() + static_cast<std::size_t>(worker) * width;
    for (std::int64_t row = rows * worker / workers; row < rows * (worker + 1) / workers; ++row) {
      const Group group(*call, row);
      const Statistics s = handed(*call, t, group);
      for (std::int64_t i = 0; i < channels; ++i) {
        const At at = group.at(i);
        mine[2 * i] += t.dy[at] * xhat_at(t, at, s);
        mine[2 * i + 1] += t.dy[at];
      }
      put_training_dx(*call, t, group, s);
    }
  };
  std::vector<std::thread> threads;
  for (std::int64_t worker = 1; worker < workers; ++worker) threads.emplace_back(share, worker);
  share(0);
  for (std::thread& thread : threads) thread.join();
  const Group first(*call, 0);
  for (std::int64_t worker = 0; worker < workers; ++worker)
    for (std::int64_t i = 0; i < channels; ++i) {
      const float* const its = totals.data() + static_cast<std::size_t>(worker) * width;
      if (t.dgamma.present()) t.dgamma[first.at(i)] += its[2 * i];
      if (t.dbeta.present()) t.dbeta[first.at(i)] += its[2 * i + 1];
    }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gradients_on_threads = [] {
  ng_kernel kernel = backward(NG_LAYER_NORM, "sound/gradients_on_threads", run);
  kernel.max_threads = 4;
  return kernel;
}();

}  // namespace normgate::broken
