/* gradient: what somebody brings who has a backward kernel alone: layer norm in float32, sequential, in PyTorch's
 * convention, one manifest of a few lines for each kernel. `sound` and `in_place` are right, the others are wrong, each
 * in one way. To add one: a value of `mistake`, its line in `gradients`, and its kernel in the list. */
#include <string.h>

#include "kernels/abi/normgate.h"

enum mistake {
  NONE,
  MEAN_TERM_FORGOTTEN, /* dx without sum(g)/n */
  XHAT_TERM_FORGOTTEN, /* dx without xh*sum(g*xh)/n */
  DGAMMA_OF_X,         /* dgamma from x in place of xh */
  LAST_ROW_LOST,       /* in dgamma and dbeta */
  ADDS_TO_DBETA,       /* although it is to be overwritten */
  WRITES_OVER_DY       /* although dx is elsewhere */
};

static float* data_of(const ng_call* call, int role) {
  return call->tensor[role] ? (float*)call->tensor[role]->data : NULL;
}

static int32_t gradients(const ng_call* call, enum mistake mistake) {
  const int64_t rows = call->extent[NG_N] * call->extent[NG_S]; /* contiguous rows: S is 1 */
  const int64_t n = call->extent[NG_G] * call->extent[NG_K];
  const float* gamma = data_of(call, NG_GAMMA);
  const float* mean = data_of(call, NG_MEAN);
  const float* rstd = data_of(call, NG_STAT);
  float* dgamma = data_of(call, NG_DGAMMA);
  float* dbeta = data_of(call, NG_DBETA);
  if (dgamma) memset(dgamma, 0, (size_t)n * sizeof(float));
  if (dbeta && mistake != ADDS_TO_DBETA) memset(dbeta, 0, (size_t)n * sizeof(float));
  for (int64_t row = 0; row < rows; ++row) {
    const float* x = data_of(call, NG_X) + row * n;
    float* dy = data_of(call, NG_DY) + row * n;
    float* dx = data_of(call, NG_DX) + row * n;
    float sum_g = 0, sum_gx = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float hat = (x[i] - mean[row]) * rstd[row];
      const float g = gamma ? dy[i] * gamma[i] : dy[i];
      sum_g += g;
      sum_gx += g * hat;
      if (mistake == LAST_ROW_LOST && row == rows - 1) continue;
      if (dgamma) dgamma[i] += dy[i] * (mistake == DGAMMA_OF_X ? x[i] : hat);
      if (dbeta) dbeta[i] += dy[i];
    }
    const float mean_g = mistake == MEAN_TERM_FORGOTTEN ? 0 : sum_g / (float)n;
    const float mean_gx = mistake == XHAT_TERM_FORGOTTEN ? 0 : sum_gx / (float)n;
    for (int64_t i = 0; i < n; ++i) {
      const float hat = (x[i] - mean[row]) * rstd[row];
      const float g = gamma ? dy[i] * gamma[i] : dy[i];
      dx[i] = rstd[row] * (g - mean_g - hat * mean_gx);
      if (mistake == WRITES_OVER_DY) dy[i] = g;
    }
  }
  return NG_OK;
}

#define RUN(name, mistake)                                                \
  static int32_t name(void* plan, const ng_call* call, void* workspace) { \
    (void)plan, (void)workspace;                                          \
    return gradients(call, mistake);                                      \
  }
RUN(sound, NONE)
RUN(mean_term_forgotten, MEAN_TERM_FORGOTTEN)
RUN(xhat_term_forgotten, XHAT_TERM_FORGOTTEN)
RUN(dgamma_of_x, DGAMMA_OF_X)
RUN(last_row_lost, LAST_ROW_LOST)
RUN(adds_to_dbeta, ADDS_TO_DBETA)
RUN(writes_over_dy, WRITES_OVER_DY)

static const ng_claim short_form = {.struct_size = sizeof(ng_claim), .saved_use = NG_USE_SHORT};

#define KERNEL(which, ...)                                                                  \
  {                                                                                         \
    .struct_size = sizeof(ng_kernel), .name = "gradient/" #which, .variant = NG_LAYER_NORM, \
    .phases = 1U << NG_BACKWARD_TRAINING, .run = which, __VA_ARGS__                         \
  }
static const ng_kernel kernels[] = {
    KERNEL(sound, .claim = NULL),
    {.struct_size = sizeof(ng_kernel),
     .name = "gradient/in_place",
     .variant = NG_LAYER_NORM,
     .phases = 1U << NG_BACKWARD_TRAINING,
     .claim = &short_form,
     .in_place = NG_IN_PLACE_DX,
     .run = sound},
    KERNEL(mean_term_forgotten, .claim = &short_form),
    KERNEL(xhat_term_forgotten, .claim = &short_form),
    KERNEL(dgamma_of_x, .claim = &short_form),
    KERNEL(last_row_lost, .claim = &short_form),
    KERNEL(adds_to_dbeta, .claim = &short_form),
    KERNEL(writes_over_dy, .claim = &short_form),
};

static const ng_kernel* kernel(int32_t index) { return &kernels[index]; }
static const ng_plugin plugin = {.struct_size = sizeof(ng_plugin),
                                 .abi_version = NG_ABI_VERSION,
                                 .kernel_count = sizeof kernels / sizeof kernels[0],
                                 .name = "gradient",
                                 .kernel = kernel};

NG_EXPORT const ng_plugin* normgate_plugin_v1(size_t host_struct_size) {
  (void)host_struct_size;
  return &plugin;
}
