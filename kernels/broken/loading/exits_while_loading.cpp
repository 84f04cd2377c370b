// rejected while loading: a static constructor ends the process, with success.
#include <unistd.h>

#include "kernels/abi/normgate.h"

namespace {

struct Initialization {
  Initialization() { _exit(0); }
};
const Initialization initialization;

constexpr ng_plugin plugin{sizeof(ng_plugin), NG_ABI_VERSION, 0, "exits", nullptr, nullptr, 0, 0, nullptr};

}  // namespace

extern "C" NG_EXPORT const ng_plugin* normgate_plugin_v1(size_t) { return &plugin; }
