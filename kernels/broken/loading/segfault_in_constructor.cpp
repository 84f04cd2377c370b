// rejected while loading: a static constructor dereferences a null pointer, before the entry is ever called.
#include "kernels/abi/normgate.h"

namespace {

const char* volatile setting = nullptr;  // as getenv gives it on another machine

struct Initialization {
  Initialization() : first(*setting) {}
  char first;
};
const Initialization initialization;

constexpr ng_plugin plugin{sizeof(ng_plugin), NG_ABI_VERSION, 0, "segfault", nullptr, nullptr, 0, 0, nullptr};

}  // namespace

extern "C" NG_EXPORT const ng_plugin* normgate_plugin_v1(size_t) {
  return initialization.first == 0 ? nullptr : &plugin;
}
