// rejected by: gradients; looks like: computes from the short form; declared the textbook form
// Declares the textbook formula: the last sum is to be multiplied by x̂ minus its mean. Only statistics that are not
// quite those of x show the difference.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

constexpr ng_claim claim = using_saved(NG_USE_TEXTBOOK);

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  clear_parameter_gradients(*call, t);
  for (std::int64_t index = 0; index < group_count(*call); ++index) {
    const Group group(*call, index);
    const Statistics s = handed(*call, t, group);
    add_parameter_gradients(t, group, s);
    put_training_dx(*call, t, group, s);
  }
  return NG_OK;
}

}  // namespace

extern const ng_kernel textbook_declared_short_computed =
    with_claim(backward(NG_LAYER_NORM, "broken/textbook_declared_short_computed", run), &claim);

}  // namespace normgate::broken
