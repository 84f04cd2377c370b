/* skeleton: a complete plugin, to be copied. It normalizes the last part of a contiguous N G K S tensor (layer norm,
 * forward only) and claims nothing beyond the manifest of zeros: float32, sequential two-pass, PyTorch's convention.
 *
 *   cc -std=c99 -O2 -shared -fPIC skeleton.c -o skeleton.so -lm      (normgate.h beside it)
 *   normgate check --plugin ./skeleton.so
 *
 * Put your own kernel in place of `run`; what it can do more is one more line in the manifest. */
#include <math.h>

#include "normgate.h"

static const float* input(const ng_call* call, int role) {
  return call->tensor[role] ? (const float*)call->tensor[role]->data : NULL;
}

/* One row: m values, `step` apart; gamma and beta may be absent. */
static void normalize(const float* x, float* y, const float* gamma, const float* beta, int64_t m, int64_t step,
                      float eps) {
  float sum = 0, squares = 0;
  for (int64_t i = 0; i < m; ++i) sum += x[i * step];
  const float mean = sum / (float)m;
  for (int64_t i = 0; i < m; ++i) {
    const float d = x[i * step] - mean; /* centred: the mean of squares minus the squared mean loses everything */
    squares += d * d;
  }
  const float rstd = 1 / sqrtf(squares / (float)m + eps);
  for (int64_t i = 0; i < m; ++i)
    y[i * step] = (x[i * step] - mean) * rstd * (gamma ? gamma[i] : 1) + (beta ? beta[i] : 0);
}

static int32_t run(void* plan, const ng_call* call, void* workspace) {
  const int64_t rows = call->extent[NG_N], positions = call->extent[NG_S];
  const int64_t m = call->extent[NG_G] * call->extent[NG_K]; /* layer norm reduces G and K, for each n and s */
  const float* x = input(call, NG_X);
  float* y = (float*)call->tensor[NG_Y]->data;
  (void)plan, (void)workspace;
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t s = 0; s < positions; ++s)
      normalize(x + n * m * positions + s, y + n * m * positions + s, input(call, NG_GAMMA), input(call, NG_BETA), m,
                positions, (float)call->eps);
  return NG_OK;
}

static const ng_kernel layer_norm = {
    .struct_size = sizeof(ng_kernel), .name = "skeleton/layer_norm", .variant = NG_LAYER_NORM, .run = run};
static const ng_kernel* kernel(int32_t index) { return index == 0 ? &layer_norm : NULL; }
static const ng_plugin plugin = {.struct_size = sizeof(ng_plugin),
                                 .abi_version = NG_ABI_VERSION,
                                 .kernel_count = 1,
                                 .name = "skeleton",
                                 .kernel = kernel};

const ng_plugin* normgate_plugin_v1(size_t host_struct_size) {
  (void)host_struct_size;
  return &plugin;
}
