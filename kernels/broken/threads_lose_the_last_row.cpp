// rejected by: threads; looks like: -
// One row per thread where there are more threads than rows; the caller's own thread is counted as one that has none,
// and the last row is nobody's. With more rows than threads the last thread takes what is left over.
// Wrong only with more threads than rows (after vllm-project/vllm-ascend PR#5012, rows beyond the cores).
#include <thread>
#include <vector>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  const std::int64_t rows = group_count(*call);
  const std::int64_t wanted = call->threads > 0 ? call->threads : 1;
  const std::int64_t workers = wanted > rows ? rows - 1 : wanted;
  if (workers < 2) {
    for (std::int64_t row = 0; row < (wanted > 1 ? workers : rows); ++row) put_normalized(t, Group(*call, row), eps);
    return NG_OK;
  }
  const std::int64_t share = wanted > rows ? 1 : rows / workers;
  std::vector<std::thread> threads;
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    const bool last = worker + 1 == workers && wanted <= rows;
    const std::int64_t end = last ? rows : (worker + 1) * share;
    threads.emplace_back([=, &t] {
      for (std::int64_t row = worker * share; row < end; ++row) put_normalized(t, Group(*call, row), eps);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return NG_OK;
}

}  // namespace

extern const ng_kernel threads_lose_the_last_row = [] {
  ng_kernel kernel = training(NG_LAYER_NORM, "broken/threads_lose_the_last_row", run);
  kernel.max_threads = 16;
  return kernel;
}();

}  // namespace normgate::broken
