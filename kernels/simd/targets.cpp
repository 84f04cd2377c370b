// The compiled targets and the choice among them. To add one: a line of `known`, with the flags of /proc/cpuinfo that
// Highway asks the CPU for.
#include "kernels/simd/targets.hpp"

#include <hwy/highway.h>
#include <strings.h>

#include <cstdio>
#include <cstdlib>

namespace normgate::simd {

namespace {

constexpr const char* variable = "NORMGATE_SIMD_TARGET";

struct Known {
  std::int64_t bit;
  const char* name;  // Highway's, as the variable wants it
  ng_target target;
};

#define NORMGATE_SSSE3 "sse sse2 ssse3"
#define NORMGATE_SSE4 NORMGATE_SSSE3 " sse4_1 sse4_2 pclmulqdq aes"
#define NORMGATE_AVX2 NORMGATE_SSE4 " avx avx2 abm bmi1 bmi2 fma f16c"
#define NORMGATE_AVX3 NORMGATE_AVX2 " avx512f avx512bw avx512dq avx512cd avx512vl"
constexpr Known known[] = {
    {HWY_AVX3, "AVX3", {sizeof(ng_target), "avx3", "NORMGATE_SIMD_TARGET=AVX3", NORMGATE_AVX3}},
    {HWY_AVX2, "AVX2", {sizeof(ng_target), "avx2", "NORMGATE_SIMD_TARGET=AVX2", NORMGATE_AVX2}},
    {HWY_SSE4, "SSE4", {sizeof(ng_target), "sse4", "NORMGATE_SIMD_TARGET=SSE4", NORMGATE_SSE4}},
    {HWY_SSSE3, "SSSE3", {sizeof(ng_target), "ssse3", "NORMGATE_SIMD_TARGET=SSSE3", NORMGATE_SSSE3}},
    {HWY_EMU128, "EMU128", {sizeof(ng_target), "emu128", "NORMGATE_SIMD_TARGET=EMU128", nullptr}},
    {HWY_SCALAR, "SCALAR", {sizeof(ng_target), "scalar", "NORMGATE_SIMD_TARGET=SCALAR", nullptr}},
};

constexpr bool compiled(const Known& entry) { return (entry.bit & (HWY_TARGETS)) != 0; }
// The baseline runs on whatever runs this plugin at all, even if libhwy was built by a compiler with another one.
bool on_this_cpu(const Known& entry) {
  return entry.bit == HWY_STATIC_TARGET || (entry.bit & hwy::SupportedTargets()) != 0;
}

struct Choice {
  hwy::ChosenTarget target;
  char refusal[160] = "";

  Choice() {
    const char* wanted = std::getenv(variable);
    const bool any = wanted == nullptr || *wanted == '\0';
    bool found = false;
    for (const Known& entry : known) {
      if (found || !compiled(entry) || (!any && strcasecmp(wanted, entry.name) != 0)) continue;
      if (!on_this_cpu(entry)) {
        if (any) continue;
        std::snprintf(refusal, sizeof refusal, "%s=%s: not on this CPU", variable, entry.name);
        return;
      }
      target.Update(entry.bit);
      found = true;
    }
    if (!found) std::snprintf(refusal, sizeof refusal, "%s=%.40s: not compiled", variable, any ? "" : wanted);
  }
};

const Choice& choice() {
  static const Choice made;
  return made;
}

}  // namespace

const ng_target* compiled_target(std::int32_t index) {
  for (const Known& entry : known)
    if (compiled(entry) && index-- == 0) return &entry.target;
  return nullptr;
}

std::int32_t compiled_target_count() {
  std::int32_t count = 0;
  while (compiled_target(count) != nullptr) ++count;
  return count;
}

const hwy::ChosenTarget& chosen_target() { return choice().target; }
const char* target_refusal() { return choice().refusal; }

}  // namespace normgate::simd
