// rejected by: repeated_calls; looks like: -
// Packs gamma once for each address that it is handed: right until the memory holds other values.
#include <map>
#include <vector>

#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  const auto eps = static_cast<float>(call->eps);
  static std::map<const float*, std::vector<float>> packed;
  const std::vector<float>* gamma = nullptr;
  if (t.gamma.present() && group_count(*call) > 0) {
    const Group group(*call, 0);
    std::vector<float>& kept = packed[t.gamma.data];
    if (static_cast<std::int64_t>(kept.size()) != group.n) {
      kept.clear();
      for (std::int64_t i = 0; i < group.n; ++i) kept.push_back(t.gamma[group.at(i)]);
    }
    gamma = &kept;
  }
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const float mean = sum_of(t.x, group) / group.count();
    const float rstd = 1 / std::sqrt(squares_around(t.x, group, mean) / group.count() + eps);
    for (std::int64_t i = 0; i < group.n; ++i) {
      const At at = group.at(i);
      const float scale = gamma != nullptr ? (*gamma)[static_cast<std::size_t>(i)] : 1;
      t.y[at] = (t.x[at] - mean) * rstd * scale + t.beta.value(at, 0);
    }
    t.mean.put(group.first, mean);
    t.stat.put(group.first, rstd);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel gamma_kept_by_its_address = training(NG_LAYER_NORM, "broken/gamma_kept_by_its_address", run);

}  // namespace normgate::broken
