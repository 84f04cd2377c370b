// rejected by: threads; looks like: -
// Each thread begins its totals of dgamma and dbeta with what is there, and puts them back when it is done: the
// additions of the others in the meantime are lost. Every thread waits for the last one to have begun, so that this
// race ends the same way each time. Wrong only on several threads.
// davisking/dlib PR#2999 and PR#3001 (no atomics), meta-pytorch/tritonbench PR#1266 (a lock without a barrier).
#include <thread>
#include <vector>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  const std::int64_t rows = group_count(*call);
  const std::int64_t workers = call->threads > 0 ? call->threads : 1;
  const std::int64_t channels = call->extent[NG_G] * call->extent[NG_K];
  if (rows == 0 || channels == 0) return NG_OK;
  std::vector<std::vector<float>> totals(static_cast<std::size_t>(workers));
  const auto totals_of = [&](std::int64_t worker) -> std::vector<float>& {
    return totals[static_cast<std::size_t>(worker)];
  };
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    std::vector<float>& mine = totals_of(worker);
    const Group group(*call, 0);
    for (std::int64_t i = 0; i < channels; ++i) {
      mine.push_back(t.dgamma.value(group.at(i), 0));
      mine.push_back(t.dbeta.value(group.at(i), 0));
    }
  }
  std::vector<std::thread> threads;
  for (std::int64_t worker = 0; worker < workers; ++worker)
    threads.emplace_back([=, &t, &totals_of] {
      std::vector<float>& mine = totals_of(worker);
      for (std::int64_t row = rows * worker / workers; row < rows * (worker + 1) / workers; ++row) {
        const Group group(*call, row);
        const Statistics s = handed(*call, t, group);
        for (std::int64_t i = 0; i < channels; ++i) {
          const At at = group.at(i);
          mine[static_cast<std::size_t>(2 * i)] += t.dy[at] * xhat_at(t, at, s);
          mine[static_cast<std::size_t>(2 * i + 1)] += t.dy[at];
        }
        put_training_dx(*call, t, group, s);
      }
    });
  for (std::thread& thread : threads) thread.join();
  const Group group(*call, 0);
  for (std::int64_t worker = 0; worker < workers; ++worker)
    for (std::int64_t i = 0; i < channels; ++i) {
      t.dgamma.put(group.at(i), totals_of(worker)[static_cast<std::size_t>(2 * i)]);
      t.dbeta.put(group.at(i), totals_of(worker)[static_cast<std::size_t>(2 * i + 1)]);
    }
  return NG_OK;
}

}  // namespace

extern const ng_kernel threads_lose_updates_of_dgamma = [] {
  ng_kernel kernel = backward(NG_LAYER_NORM, "broken/threads_lose_updates_of_dgamma", run);
  kernel.max_threads = 4;
  return kernel;
}();

}  // namespace normgate::broken
