// rejected by: memory; looks like: wrote to the input
// g is kept where dy was, though nobody asked for work in place: whoever uses dy again finds it multiplied by gamma.
// (linkedin/Liger-Kernel PR#376)
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
    for (std::int64_t i = 0; i < group.n; ++i) t.dy[group.at(i)] = g_at(t, group.at(i));
    Tensors scratch = t;
    scratch.gamma = View();
    put_training_dx(*call, scratch, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel dx_written_into_dy = backward(NG_RMS_NORM, "broken/dx_written_into_dy", run);

}  // namespace normgate::broken
