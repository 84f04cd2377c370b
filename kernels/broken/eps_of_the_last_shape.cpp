// rejected by: repeated_calls; looks like: -
// Keeps what it has derived from a call while extents and parameters stay the same, eps among it: wrong for a second
// call of one shape with another eps, and right again when the first eps returns.
#include "kernels/broken/piece.hpp"

namespace normgate::broken {
namespace {

struct Derived {
  At extent{};
  bool gamma = false, beta = false, stat = false;
  bool valid = false;
  double eps = 0;
};

std::int32_t run(void*, const ng_call* call, void*) {
  const Tensors t(*call);
  static Derived last;
  Derived now;
  for (std::size_t a = 0; a < NG_AXES; ++a) now.extent[a] = call->extent[a];
  now.gamma = t.gamma.present();
  now.beta = t.beta.present();
  now.stat = t.stat.present();
  const bool same = last.valid && now.extent == last.extent && now.gamma == last.gamma && now.beta == last.beta &&
                    now.stat == last.stat;
  if (!same) {
    now.valid = true;
    now.eps = call->eps;
    last = now;
  }
  for (std::int64_t index = 0; index < group_count(*call); ++index)
    put_normalized(t, Group(*call, index), static_cast<float>(last.eps));
  return NG_OK;
}

}  // namespace

extern const ng_kernel eps_of_the_last_shape = training(NG_LAYER_NORM, "broken/eps_of_the_last_shape", run);

}  // namespace normgate::broken
