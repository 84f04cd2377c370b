// Kernels for the runner's tests: a good one, and one for each misdeed that a worker must survive and tell.
// `good` is no normalization: y = x + gamma, mean and stat take the last x of their group, running_mean grows by 1 and
// running_var doubles, so that every stride and every value can be checked exactly. Backward: dx = dy + gamma + mean,
// dbeta takes the last x (or y) of its channel and dgamma the last dy as they were before the call; where gradients
// accumulate they are added to.
#include <pthread.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include "kernels/abi/normgate.h"

namespace {

float* data_of(const ng_call* call, int role) { return static_cast<float*>(call->tensor[role]->data); }
std::int64_t count_of(const ng_call* call) {
  return call->extent[0] * call->extent[1] * call->extent[2] * call->extent[3];
}

template <typename Visit>
void each(const ng_call* call, Visit visit) {
  for (std::int64_t n = 0; n < call->extent[0]; ++n)
    for (std::int64_t g = 0; g < call->extent[1]; ++g)
      for (std::int64_t k = 0; k < call->extent[2]; ++k)
        for (std::int64_t s = 0; s < call->extent[3]; ++s) {
          const std::int64_t at[4] = {n, g, k, s};
          visit(at);
        }
}
float* element(const ng_call* call, int role, const std::int64_t* at) {
  const std::int64_t* stride = call->tensor[role]->stride;
  return data_of(call, role) + at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2] + at[3] * stride[3];
}

std::int32_t good_backward(const ng_call* call) {
  const int from = call->tensor[NG_X] != nullptr ? NG_X : NG_Y;
  // Sums start from 0; what is added to stays.
  each(call, [&](const std::int64_t* at) {
    for (const int role : {NG_DGAMMA, NG_DBETA})
      if (call->tensor[role] != nullptr && call->accumulate == 0) *element(call, role, at) = 0;
  });
  const auto is_last = [&](const std::int64_t* at) {
    return at[0] == call->extent[0] - 1 && at[3] == call->extent[3] - 1;
  };
  each(call, [&](const std::int64_t* at) {
    const float dy = *element(call, NG_DY, at);
    if (is_last(at) && call->tensor[NG_DGAMMA] != nullptr) *element(call, NG_DGAMMA, at) += dy;
    if (is_last(at) && call->tensor[NG_DBETA] != nullptr) *element(call, NG_DBETA, at) += *element(call, from, at);
    const float gamma = call->tensor[NG_GAMMA] != nullptr ? *element(call, NG_GAMMA, at) : 0;
    const float mean = call->tensor[NG_MEAN] != nullptr ? *element(call, NG_MEAN, at) : 0;
    *element(call, NG_DX, at) = dy + gamma + mean;
  });
  return NG_OK;
}

std::int32_t good(void*, const ng_call* call, void*) {
  if (call->tensor[NG_DX] != nullptr) return good_backward(call);
  each(call, [&](const std::int64_t* at) {
    const float x = *element(call, NG_X, at);
    const float gamma = call->tensor[NG_GAMMA] != nullptr ? *element(call, NG_GAMMA, at) : 0;
    *element(call, NG_Y, at) = x + gamma;
    if (call->tensor[NG_MEAN] != nullptr) *element(call, NG_MEAN, at) = x;
    if (call->tensor[NG_STAT] != nullptr) *element(call, NG_STAT, at) = x;
  });
  if (call->phase == NG_FORWARD_TRAINING && call->tensor[NG_RUNNING_MEAN] != nullptr) {
    for (std::int64_t g = 0; g < call->extent[1]; ++g)
      for (std::int64_t k = 0; k < call->extent[2]; ++k) {
        const std::int64_t at[4] = {0, g, k, 0};
        *element(call, NG_RUNNING_MEAN, at) += 1;
        *element(call, NG_RUNNING_VAR, at) *= 2;
      }
  }
  return NG_OK;
}

volatile float sink;

std::int32_t over_read(void*, const ng_call* call, void* workspace) {
  sink = data_of(call, NG_X)[count_of(call)];
  return good(nullptr, call, workspace);
}
std::int32_t under_read(void*, const ng_call* call, void* workspace) {
  sink = data_of(call, NG_X)[-1];
  return good(nullptr, call, workspace);
}
std::int32_t over_write(void*, const ng_call* call, void* workspace) {
  data_of(call, NG_Y)[count_of(call)] = 1;
  return good(nullptr, call, workspace);
}
std::int32_t under_write(void*, const ng_call* call, void* workspace) {
  data_of(call, NG_Y)[-1] = 1;
  return good(nullptr, call, workspace);
}
std::int32_t write_input(void*, const ng_call* call, void*) {
  data_of(call, NG_X)[3] = 1;
  return NG_OK;
}
std::int32_t unwritten_tail(void*, const ng_call* call, void*) {
  for (std::int64_t i = 0; i + 3 < count_of(call); ++i) data_of(call, NG_Y)[i] = 1;
  return NG_OK;
}
std::int32_t writes_all_strides_as_one(void*, const ng_call* call, void*) {
  for (std::int64_t i = 0; i < count_of(call); ++i) data_of(call, NG_Y)[i] = 1;
  return NG_OK;
}
std::int32_t dy_as_contiguous(void*, const ng_call* call, void*) {
  for (std::int64_t i = 0; i < count_of(call); ++i) data_of(call, NG_DX)[i] = data_of(call, NG_DY)[i];
  for (const int role : {NG_DGAMMA, NG_DBETA})
    each(call, [&](const std::int64_t* at) { *element(call, role, at) = 1; });
  return NG_OK;
}
std::int32_t write_dy(void*, const ng_call* call, void* workspace) {
  const std::int32_t status = good(nullptr, call, workspace);
  data_of(call, NG_DY)[3] = 1;
  return status;
}
std::int32_t no_parameter_gradients(void*, const ng_call* call, void*) {
  each(call, [&](const std::int64_t* at) { *element(call, NG_DX, at) = *element(call, NG_DY, at); });
  return NG_OK;
}
// The old gradients are read although they are to be overwritten.
std::int32_t adds_always(void*, const ng_call* call, void*) {
  each(call, [&](const std::int64_t* at) {
    *element(call, NG_DX, at) = *element(call, NG_DY, at);
    *element(call, NG_DGAMMA, at) += 1;
    *element(call, NG_DBETA, at) += 1;
  });
  return NG_OK;
}
std::int32_t exits(void*, const ng_call*, void*) { _exit(0); }
std::int32_t aborts(void*, const ng_call*, void*) { std::abort(); }
std::int32_t hangs(void*, const ng_call*, void*) {
  for (;;) asm volatile("");
}
std::int32_t sleeps(void*, const ng_call*, void*) {
  for (;;) pause();
}
std::int32_t null_pointer(void*, const ng_call* call, void*) {
  volatile float* volatile nothing = nullptr;
  nothing[2] = static_cast<float>(call->step);
  return NG_OK;
}
std::int32_t prints(void*, const ng_call* call, void*) {
  const std::string line(1023, '#');
  for (int i = 0; i < 5 * 1024; ++i) std::puts(line.c_str());
  std::fputs("::error::injected\n", stderr);
  return good(nullptr, call, nullptr);
}
std::int32_t flushes_to_zero(void*, const ng_call* call, void*) {
  _mm_setcsr(_mm_getcsr() | 0x8040U);
  return good(nullptr, call, nullptr);
}
// y is 1 where a subnormal is kept; so the next call's state can be seen.
std::int32_t tells_subnormals(void*, const ng_call* call, void*) {
  volatile float small = 0x1p-140F;
  volatile float half = 0.5F;
  const float kept = small * half > 0 ? 1.0F : 0.0F;
  for (std::int64_t i = 0; i < count_of(call); ++i) data_of(call, NG_Y)[i] = kept;
  return NG_OK;
}
std::int32_t invalid_status(void*, const ng_call*, void*) { return 17; }
std::int32_t refuses(void*, const ng_call* call, void*) {
  std::snprintf(call->text, call->text_size, "not on a\x1b[31m Tuesday");
  return NG_REFUSED;
}
std::int32_t supports_nothing(const ng_call* call) {
  std::snprintf(call->text, call->text_size, "only k = 7");
  return 0;
}
std::int32_t throws(void*, const ng_call*, void*) { throw std::runtime_error("out of luck"); }
std::int32_t text_overflow(void*, const ng_call* call, void*) {
  std::memset(call->text, 'a', call->text_size + 1);
  return NG_FAILED;
}
std::int32_t endless_text(void*, const ng_call* call, void*) {
  std::memset(call->text, 'a', call->text_size);
  return NG_FAILED;
}

std::int32_t late_write(void*, const ng_call* call, void*) {
  good(nullptr, call, nullptr);
  float* y = data_of(call, NG_Y);
  std::thread([y] {
    usleep(30'000);
    y[1] = 12345;
  }).detach();
  return NG_OK;
}
std::int32_t late_crash(void*, const ng_call* call, void*) {
  good(nullptr, call, nullptr);
  std::thread([] {
    usleep(30'000);
    volatile float* volatile nothing = nullptr;
    *nothing = 1;
  }).detach();
  return NG_OK;
}

std::int32_t crashes_in_a_thread(void*, const ng_call* call, void*) {
  std::thread([call] { data_of(call, NG_Y)[count_of(call)] = 1; }).join();
  return NG_OK;
}

std::int32_t ask_workspace(void*, const ng_call*, std::size_t* bytes, std::size_t* alignment) {
  *bytes = 100;
  *alignment = 64;
  return NG_OK;
}
// 100 bytes at alignment 64 leave 28 bytes of slack behind them.
std::int32_t workspace_over(void*, const ng_call* call, void* workspace) {
  static_cast<float*>(workspace)[25] = 1;
  return good(nullptr, call, workspace);
}
std::int32_t workspace_far(void*, const ng_call* call, void* workspace) {
  static_cast<float*>(workspace)[32] = 1;
  return good(nullptr, call, workspace);
}
// Fails unless the workspace is aligned and poisoned.
std::int32_t workspace_used(void*, const ng_call* call, void* workspace) {
  if (reinterpret_cast<std::uintptr_t>(workspace) % 64 != 0) return NG_FAILED;
  float* sums = static_cast<float*>(workspace);
  if (sums[24] < 1e38F) return NG_FAILED;  // neither NaN nor huge
  for (int i = 0; i < 25; ++i) sums[i] = 0;
  return good(nullptr, call, workspace);
}

std::int32_t misaligned(void*, const ng_call* call, void*) {
  const float* volatile x = data_of(call, NG_X) + 1;
  asm volatile("movaps (%0), %%xmm0" : : "r"(x) : "xmm0");
  asm volatile("movaps 4(%0), %%xmm0" : : "r"(x) : "xmm0");
  return NG_OK;
}
// Says by y[0] how x lies: its address modulo 64, and in y[1] whether 16 bytes behind it can be read.
std::int32_t tells_alignment(void*, const ng_call* call, void*) {
  good(nullptr, call, nullptr);
  data_of(call, NG_Y)[0] = static_cast<float>(reinterpret_cast<std::uintptr_t>(data_of(call, NG_X)) % 64);
  for (int i = 0; i < 4; ++i) {
    sink = data_of(call, NG_X)[count_of(call) + i];
  }
  return NG_OK;
}

std::atomic<int> plans{0};
std::int32_t make_plan(const ng_call*, void** plan) {
  if (plans != 0) return NG_FAILED;  // the former one has not been released
  ++plans;
  *plan = &plans;
  return NG_OK;
}
std::int32_t run_plan(void* plan, const ng_call* call, void*) {
  if (plan != &plans) return NG_FAILED;
  good(nullptr, call, nullptr);
  return call->step == 3 ? NG_OUT_OF_MEMORY : NG_OK;
}
void release_plan(void*) { --plans; }

// A plan that knows whether it is for a call in place, and whether its dy was expanded: no other call may run on it.
struct PlanInPlace {
  bool in_place, expanded;
};
PlanInPlace places_of(const ng_call* call) {
  return {call->tensor[NG_DX]->data == call->tensor[NG_DY]->data, call->tensor[NG_DY]->stride[2] == 0};
}
std::int32_t make_plan_in_place(const ng_call* call, void** plan) {
  *plan = new PlanInPlace(places_of(call));
  return NG_OK;
}
std::int32_t run_plan_in_place(void* plan, const ng_call* call, void*) {
  const auto* known = static_cast<const PlanInPlace*>(plan);
  const PlanInPlace now = places_of(call);
  if (known->in_place != now.in_place || known->expanded != now.expanded) return NG_FAILED;
  return good(nullptr, call, nullptr);
}
void release_plan_in_place(void* plan) { delete static_cast<PlanInPlace*>(plan); }

// Tells what it was given: y[0..] = eps, momentum, step, threads, convention fields.
std::int32_t tells_call(void*, const ng_call* call, void*) {
  good(nullptr, call, nullptr);
  float* y = data_of(call, NG_Y);
  y[0] = static_cast<float>(call->eps);
  y[1] = static_cast<float>(call->momentum);
  y[2] = static_cast<float>(call->step);
  y[3] = static_cast<float>(call->convention->stored_divisor);
  y[4] = static_cast<float>(call->convention->eps_placement);
  y[5] = static_cast<float>(call->variant);
  y[6] = static_cast<float>(call->tensor[NG_BETA] == nullptr);
  y[7] = static_cast<float>(std::atoi(std::getenv("OMP_NUM_THREADS")));
  return NG_OK;
}

struct Kernel {
  const char* name;
  std::int32_t (*run)(void*, const ng_call*, void*);
  std::int32_t (*supports)(const ng_call*) = nullptr;
  std::int32_t (*prepare)(const ng_call*, void**) = nullptr;
  std::int32_t (*workspace)(void*, const ng_call*, std::size_t*, std::size_t*) = nullptr;
  void (*release)(void*) = nullptr;
  std::int32_t alignment = 0;
  std::int32_t over_read_bytes = 0;
};

const Kernel kernels[] = {
    {.name = "good", .run = good},
    {.name = "over_read", .run = over_read},
    {.name = "under_read", .run = under_read},
    {.name = "over_write", .run = over_write},
    {.name = "under_write", .run = under_write},
    {.name = "write_input", .run = write_input},
    {.name = "unwritten_tail", .run = unwritten_tail},
    {.name = "ignores_strides", .run = writes_all_strides_as_one},
    {.name = "dy_as_contiguous", .run = dy_as_contiguous},
    {.name = "write_dy", .run = write_dy},
    {.name = "no_parameter_gradients", .run = no_parameter_gradients},
    {.name = "adds_always", .run = adds_always},
    {.name = "exits", .run = exits},
    {.name = "aborts", .run = aborts},
    {.name = "hangs", .run = hangs},
    {.name = "sleeps", .run = sleeps},
    {.name = "null_pointer", .run = null_pointer},
    {.name = "prints", .run = prints},
    {.name = "flushes_to_zero", .run = flushes_to_zero},
    {.name = "tells_subnormals", .run = tells_subnormals},
    {.name = "invalid_status", .run = invalid_status},
    {.name = "refuses", .run = refuses},
    {.name = "supports_nothing", .run = good, .supports = supports_nothing},
    {.name = "throws", .run = throws},
    {.name = "text_overflow", .run = text_overflow},
    {.name = "endless_text", .run = endless_text},
    {.name = "late_write", .run = late_write},
    {.name = "late_crash", .run = late_crash},
    {.name = "crashes_in_a_thread", .run = crashes_in_a_thread},
    {.name = "workspace_over", .run = workspace_over, .workspace = ask_workspace},
    {.name = "workspace_far", .run = workspace_far, .workspace = ask_workspace},
    {.name = "workspace_used", .run = workspace_used, .workspace = ask_workspace},
    {.name = "misaligned", .run = misaligned},
    {.name = "tells_alignment", .run = tells_alignment, .alignment = 64, .over_read_bytes = 16},
    {.name = "plans", .run = run_plan, .prepare = make_plan, .release = release_plan},
    {.name = "plan_in_place",
     .run = run_plan_in_place,
     .prepare = make_plan_in_place,
     .release = release_plan_in_place},
    {.name = "tells_call", .run = tells_call},
};
constexpr std::int32_t kernel_count = sizeof kernels / sizeof kernels[0];

const ng_convention conventions[2] = {{.struct_size = sizeof(ng_convention),
                                       .normalizing_divisor = 0,
                                       .stored_divisor = 0,
                                       .single_count = 0,
                                       .momentum_form = 0,
                                       .eps_placement = 0,
                                       .gamma_offset = 0,
                                       .saved_statistic = 0,
                                       .gradients = 0,
                                       .scalars = 0},
                                      {.struct_size = sizeof(ng_convention),
                                       .normalizing_divisor = 0,
                                       .stored_divisor = NG_STORE_N,
                                       .single_count = 0,
                                       .momentum_form = 0,
                                       .eps_placement = NG_EPS_OUTSIDE,
                                       .gamma_offset = 0,
                                       .saved_statistic = 0,
                                       .gradients = 0,
                                       .scalars = 0}};
const ng_convention* convention_at(std::int32_t index) { return &conventions[index]; }

const ng_kernel* kernel_at(std::int32_t index) {
  static ng_kernel kernel;  // one for all: the worker must copy
  const Kernel& from = kernels[index];
  std::memset(&kernel, 0, sizeof kernel);
  kernel.struct_size = sizeof kernel;
  kernel.name = from.name;
  kernel.source = "behaviours.cpp:1";
  kernel.variant = NG_LAYER_NORM;
  kernel.phases = (1U << NG_FORWARD_TRAINING) | (1U << NG_FORWARD_INFERENCE) | (1U << NG_BACKWARD_TRAINING) |
                  (1U << NG_BACKWARD_INFERENCE);
  kernel.convention_count = 2;
  kernel.convention = convention_at;
  kernel.layouts = NG_LAYOUT_CHANNELS_LAST | NG_LAYOUT_PADDED | NG_LAYOUT_STRIDED | NG_LAYOUT_MIXED;
  kernel.in_place = NG_IN_PLACE_Y | NG_IN_PLACE_DX;
  kernel.alignment = from.alignment;
  kernel.over_read_bytes = from.over_read_bytes;
  kernel.supports = from.supports;
  kernel.prepare = from.prepare;
  kernel.workspace = from.workspace;
  kernel.run = from.run;
  kernel.release = from.release;
  return &kernel;
}

const ng_target targets[] = {{sizeof(ng_target), "plain", nullptr, nullptr},
                             {sizeof(ng_target), "wide", "BEHAVIOUR=1", "avx99 fpu_of_the_future"}};
const ng_target* target_at(std::int32_t index) { return &targets[index]; }

}  // namespace

extern "C" NG_EXPORT const ng_plugin* normgate_plugin_v1(std::size_t) {
  static ng_plugin plugin;
  plugin.struct_size = sizeof plugin;
  plugin.abi_version = NG_ABI_VERSION;
  plugin.kernel_count = kernel_count;
  plugin.name = "behaviours";
  plugin.version = "1.0";
  plugin.kernel = kernel_at;
  plugin.target_count = 2;
  plugin.target = target_at;
  return &plugin;
}
