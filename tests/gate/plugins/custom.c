/* custom: kernels that have no reference, scale normalization of rows, y = gamma x / sqrt(sum x^2 + eps), forward and
 * backward. `sound` is right; the others are wrong, each in one way: a term of the derivative is missing, a factor is
 * off by a hundredth, the last element is lost, dgamma and dbeta stand in each other's place. */
#include <math.h>
#include <string.h>

#include "kernels/abi/normgate.h"

enum mistake { NONE, TERM_MISSING, FACTOR_WRONG, TAIL_LOST, SWAPPED };

static float* data_of(const ng_call* call, int role) {
  return call->tensor[role] ? (float*)call->tensor[role]->data : NULL;
}

static int32_t scale_norm(const ng_call* call, enum mistake mistake) {
  const int64_t rows = call->extent[NG_N] * call->extent[NG_S];
  const int64_t n = call->extent[NG_G] * call->extent[NG_K];
  const float* gamma = data_of(call, NG_GAMMA);
  const float* beta = data_of(call, NG_BETA);
  float* dgamma = data_of(call, NG_DGAMMA);
  float* dbeta = data_of(call, NG_DBETA);
  if (dgamma) memset(dgamma, 0, (size_t)n * sizeof(float));
  if (dbeta) memset(dbeta, 0, (size_t)n * sizeof(float));
  for (int64_t row = 0; row < rows; ++row) {
    const float* x = data_of(call, NG_X) + row * n;
    float squares = (float)call->eps;
    for (int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
    const float r = 1 / sqrtf(squares);
    if (call->phase == NG_FORWARD_TRAINING) {
      float* y = data_of(call, NG_Y) + row * n;
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] * r * (gamma ? gamma[i] : 1) + (beta ? beta[i] : 0);
      continue;
    }
    const float* dy = data_of(call, NG_DY) + row * n;
    float* dx = data_of(call, NG_DX) + row * n;
    float product = 0;
    for (int64_t i = 0; i < n; ++i) {
      product += dy[i] * (gamma ? gamma[i] : 1) * x[i] * r;
      float* of_hat = mistake == SWAPPED ? dbeta : dgamma;
      float* of_one = mistake == SWAPPED ? dgamma : dbeta;
      if (of_hat) of_hat[i] += dy[i] * x[i] * r;
      if (of_one) of_one[i] += dy[i];
    }
    if (mistake == TERM_MISSING) product = 0;
    if (mistake == FACTOR_WRONG) product *= 1.05f;
    for (int64_t i = 0; i < n; ++i) dx[i] = r * (dy[i] * (gamma ? gamma[i] : 1) - x[i] * r * product);
    if (mistake == TAIL_LOST) dx[n - 1] = 0;
  }
  return NG_OK;
}

#define RUN(name, mistake)                                                \
  static int32_t name(void* plan, const ng_call* call, void* workspace) { \
    (void)plan, (void)workspace;                                          \
    return scale_norm(call, mistake);                                     \
  }
RUN(sound, NONE)
RUN(term_missing, TERM_MISSING)
RUN(factor_wrong, FACTOR_WRONG)
RUN(tail_lost, TAIL_LOST)
RUN(swapped, SWAPPED)

#define AFFINE (NG_ROLE_BIT(NG_GAMMA) | NG_ROLE_BIT(NG_BETA))
#define GRADIENTS (AFFINE | NG_ROLE_BIT(NG_DGAMMA) | NG_ROLE_BIT(NG_DBETA))
#define KERNEL(which, ...)                                                                                             \
  {                                                                                                                    \
    .struct_size = sizeof(ng_kernel), .name = "custom/" #which, .variant = NG_CUSTOM,                                  \
    .supported_roles = {[NG_FORWARD_TRAINING] = AFFINE, [NG_BACKWARD_TRAINING] = GRADIENTS}, .run = which, __VA_ARGS__ \
  }
#define BOTH (1U << NG_FORWARD_TRAINING | 1U << NG_BACKWARD_TRAINING)
static const ng_kernel kernels[] = {
    KERNEL(sound, .phases = BOTH),
    KERNEL(term_missing, .phases = BOTH),
    KERNEL(factor_wrong, .phases = BOTH),
    KERNEL(tail_lost, .phases = BOTH),
    /* A backward of its own, which names its forward. */
    KERNEL(swapped, .phases = 1U << NG_BACKWARD_TRAINING, .forward = "custom/sound"),
};

static const ng_kernel* kernel(int32_t index) { return &kernels[index]; }
static const ng_plugin plugin = {.struct_size = sizeof(ng_plugin),
                                 .abi_version = NG_ABI_VERSION,
                                 .kernel_count = sizeof kernels / sizeof kernels[0],
                                 .name = "custom",
                                 .kernel = kernel};

NG_EXPORT const ng_plugin* normgate_plugin_v1(size_t host_struct_size) {
  (void)host_struct_size;
  return &plugin;
}
