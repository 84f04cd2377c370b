// rejected by: gradients; looks like: means of dx over G*K
// The means of a batch_norm are over the number of channels instead of the batch; a square test hid it.
// (RubixML/ML PR#423)
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    const Sums sums = sums_of(t, group, s);
    const auto width = static_cast<float>(call->extent[NG_G] * call->extent[NG_K]);
    put_dx(t, group, s, sums.g / width, sums.g_xhat / width);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel divides_by_the_width = backward(NG_BATCH_NORM, "broken/divides_by_the_width", run);

}  // namespace normgate::broken
