// rejected by: layouts; looks like: -
// Any strides are claimed; the handed mean and deviation are read one behind the other.
// pytorch/pytorch PR#186414 (some arguments were asserted contiguous, others merely assumed so).
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s{t.mean.data[index], t.stat.data[index]};
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

constexpr std::uint64_t statistics = NG_ROLE_BIT(NG_MEAN) | NG_ROLE_BIT(NG_STAT);

}  // namespace

extern const ng_kernel handed_mean_assumed_contiguous = [] {
  ng_kernel kernel = with_layouts(backward(NG_GROUP_NORM, "broken/handed_mean_assumed_contiguous", run),
                                  NG_LAYOUT_CHANNELS_LAST | NG_LAYOUT_PADDED | NG_LAYOUT_STRIDED | NG_LAYOUT_MIXED);
  kernel.supported_roles[NG_BACKWARD_TRAINING] =
      affine_roles | statistics | NG_ROLE_BIT(NG_DGAMMA) | NG_ROLE_BIT(NG_DBETA);
  kernel.required_roles[NG_BACKWARD_TRAINING] = statistics;
  return kernel;
}();

}  // namespace normgate::broken
