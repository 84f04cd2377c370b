// sound: rows are shared out over threads, with every promise of a loop per row
// A row is computed by one thread, the same way on whichever; more threads than rows stay idle.
#include <algorithm>
#include <thread>
#include <vector>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const std::int64_t rows = group_count(*call);
  const std::int64_t workers = std::clamp<std::int64_t>(call->threads, 1, std::max<std::int64_t>(rows, 1));
  const auto share = [&](std::int64_t worker) {
    for (std::int64_t row = rows * worker / workers; row < rows * (worker + 1) / workers; ++row)
      put_normalized(t, Group(*call, row), static_cast<float>(call->eps));
  };
  std::vector<std::thread> threads;
  for (std::int64_t worker = 1; worker < workers; ++worker) threads.emplace_back(share, worker);
  share(0);
  for (std::thread& thread : threads) thread.join();
  return NG_OK;
}

constexpr ng_claim claim =
    promising(NG_THREAD_INVARIANT | NG_ROW_INDEPENDENT | NG_BATCH_INVARIANT | NG_LAYOUT_INVARIANT | NG_DIVIDES_BY_N);

}  // namespace

extern const ng_kernel rows_on_threads = [] {
  ng_kernel kernel = with_claim(training(NG_LAYER_NORM, "sound/rows_on_threads", run), &claim);
  kernel.max_threads = 8;
  return kernel;
}();

}  // namespace normgate::broken
