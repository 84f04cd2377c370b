// rejected while loading: a static constructor waits for something that never comes, without using the processor.
#include <unistd.h>

#include "kernels/abi/normgate.h"

namespace {

struct Initialization {
  Initialization() {
    for (;;) pause();
  }
};
const Initialization initialization;

constexpr ng_plugin plugin{sizeof(ng_plugin), NG_ABI_VERSION, 0, "hangs", nullptr, nullptr, 0, 0, nullptr};

}  // namespace

extern "C" NG_EXPORT const ng_plugin* normgate_plugin_v1(size_t) { return &plugin; }
