/* mischief: kernels whose faults depend on more than the call, for the tests of the gate's judgement of whom to blame.
 * To add one: a function `run`, an ng_kernel and its line in `list`. */
#include <math.h>
#include <stdlib.h>

#include "kernels/abi/normgate.h"

static const float* input(const ng_call* call, int role) {
  return call->tensor[role] ? (const float*)call->tensor[role]->data : NULL;
}

static int32_t layer_norm(const ng_call* call) {
  const int64_t rows = call->extent[NG_N], positions = call->extent[NG_S];
  const int64_t m = call->extent[NG_G] * call->extent[NG_K];
  const float* gamma = input(call, NG_GAMMA);
  const float* beta = input(call, NG_BETA);
  for (int64_t row = 0; row < rows * positions; ++row) {
    const int64_t start = row / positions * m * positions + row % positions;
    const float* x = input(call, NG_X) + start;
    float* y = (float*)call->tensor[NG_Y]->data + start;
    float sum = 0, squares = 0;
    for (int64_t i = 0; i < m; ++i) sum += x[i * positions];
    const float mean = sum / (float)m;
    for (int64_t i = 0; i < m; ++i) squares += (x[i * positions] - mean) * (x[i * positions] - mean);
    const float rstd = 1 / sqrtf(squares / (float)m + (float)call->eps);
    for (int64_t i = 0; i < m; ++i)
      y[i * positions] = (x[i * positions] - mean) * rstd * (gamma ? gamma[i] : 1) + (beta ? beta[i] : 0);
  }
  return NG_OK;
}

/* What a heap overflow leaves behind, without its luck: another function of the library falls over it. */
static int broken_process;

static int32_t run_poisoner(void* plan, const ng_call* call, void* workspace) {
  (void)plan, (void)workspace;
  broken_process = 1;
  return layer_norm(call);
}

static int32_t run_innocent(void* plan, const ng_call* call, void* workspace) {
  (void)plan, (void)workspace;
  if (broken_process) abort();
  return layer_norm(call);
}

/* Wrong in every seventh call. */
static int32_t run_flaky(void* plan, const ng_call* call, void* workspace) {
  static int calls;
  (void)plan, (void)workspace;
  const int32_t status = layer_norm(call);
  if (++calls % 7 == 0 && call->extent[NG_N] > 0) *(float*)call->tensor[NG_Y]->data += 1;
  return status;
}

/* Wrong where a row is shorter than the one before in the process. */
static int32_t run_remembers(void* plan, const ng_call* call, void* workspace) {
  static int64_t before;
  (void)plan, (void)workspace;
  const int64_t m = call->extent[NG_G] * call->extent[NG_K];
  const int32_t status = layer_norm(call);
  if (m < before && call->extent[NG_N] > 0) *(float*)call->tensor[NG_Y]->data += 1;
  before = m;
  return status;
}

#define KERNEL(function, title) \
  { .struct_size = sizeof(ng_kernel), .name = "mischief/" title, .variant = NG_LAYER_NORM, .run = function }
static const ng_kernel list[] = {KERNEL(run_poisoner, "a_poisoner"), KERNEL(run_innocent, "innocent"),
                                 KERNEL(run_flaky, "flaky"), KERNEL(run_remembers, "remembers")};
static const ng_kernel* kernel(int32_t index) {
  return index >= 0 && index < (int32_t)(sizeof list / sizeof *list) ? &list[index] : NULL;
}
static const ng_plugin plugin = {.struct_size = sizeof(ng_plugin),
                                 .abi_version = NG_ABI_VERSION,
                                 .kernel_count = sizeof list / sizeof *list,
                                 .name = "mischief",
                                 .kernel = kernel};

__attribute__((visibility("default"))) const ng_plugin* normgate_plugin_v1(size_t host_struct_size) {
  (void)host_struct_size;
  return &plugin;
}
