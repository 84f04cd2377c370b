/* normgate ABI, version 1: how a normalization kernel is handed to the gate.
 *
 * C99, needs <stddef.h> and <stdint.h> only; copy it into your tree if you like. A plugin is a shared library that
 * exports one function, `normgate_plugin_v1`. Start from skeleton.c beside this file.
 *
 * Rules of the border:
 *  - every struct begins with its own size; fields are only ever appended;
 *  - 0 in any field means "default", so a struct of zeros with a size is valid: a manifest of zeros claims a float32,
 *    contiguous, single-threaded, deterministic kernel with a sequential two-pass variance in PyTorch's convention;
 *  - no exception and no allocation crosses it; all buffers belong to the host;
 *  - what a manifest does not declare is never asked for.
 *
 * Axes. Every tensor has four logical axes in this order: N (sample), G (group), K (channel inside the group),
 * S (position). Element (n, g, k, s) of a tensor is data[n*stride[0] + g*stride[1] + k*stride[2] + s*stride[3]];
 * strides count elements, and are 0 on the axes that the tensor's role does not have (and on axes that broadcast).
 *
 *   variant        reduced  affine  centred     statistics (mean, stat) have the axes that are not reduced;
 *   batch_norm     N S      G K     yes         gamma, beta have the affine axes;
 *   layer_norm     G K      G K     yes         running_mean, running_var have G K.
 *   group_norm     K S      G K     yes
 *   instance_norm  S        G K     yes
 *   rms_norm       G K      G K     no (no mean; the "variance" is the mean square) */
#ifndef NORMGATE_ABI_NORMGATE_H
#define NORMGATE_ABI_NORMGATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NG_ABI_VERSION 1

enum ng_axis { NG_N = 0, NG_G = 1, NG_K = 2, NG_S = 3, NG_AXES = 4 };

enum ng_variant {
  NG_BATCH_NORM = 1,
  NG_LAYER_NORM = 2,
  NG_GROUP_NORM = 3,
  NG_INSTANCE_NORM = 4,
  NG_RMS_NORM = 5,
  NG_CUSTOM = 100 /* a kernel without a reference: its gradients are judged by differences of its own forward. Its
                     tensors have the axes that layer_norm's have */
};

/* forward_inference and backward_inference are the phases with given statistics: running_mean and running_var for
 * batch_norm and instance_norm, mean and stat for the other rows. 7 is reserved (update_running).
 *
 * The backward phases read dy, x, gamma and statistics, and write dx, dgamma (where gamma is present) and dbeta (where
 * beta is; its values are not handed). dy and dx have the axes of x, dgamma and dbeta those of gamma. Let a group have
 * n elements and the variance v (rms_norm: mean is 0, v the mean square), D = sqrt(v+eps) or what the convention makes
 * of it, xh = (x-mean)/D and g = dy*gamma (1+gamma where the convention says so, dy where gamma is absent). Sums are
 * over a group unless said otherwise:
 *
 *   dgamma = sum of dy*xh, dbeta = sum of dy, each over all elements of the channel, in whatever group
 *   backward_inference: dx = g/D: the statistics are constants
 *   backward_training:  dx = (g - sum(g)/n - xh*sum(g*xh)/n) / D; rms_norm has no sum(g) term. With the divisor n-1 the
 *                       last term is over n-1; with eps outside the root it is times D/(D-eps), and 0 where v is 0;
 *                       with eps as a floor it is 0 where v <= eps
 *
 * Where gradients accumulate, dgamma and dbeta hold old values that the sums are added to; dx is always overwritten.
 * backward_training is handed mean and stat as the forward saved them, if the manifest supports these roles (and at
 * times is not, if the manifest does not require them: then they follow from x). How it uses them is
 * ng_claim.saved_use.
 *
 * statistics and merge_statistics are for groups whose elements are in several places, as those of synchronized batch
 * normalization: each place takes the statistics of its part, and those of the parts are merged into those of the
 * whole. statistics reads x and writes mean (not rms_norm) and stat. merge_statistics reads part_mean (not rms_norm),
 * part_stat and part_count, and writes mean (not rms_norm) and stat of the union:
 *
 *   n = sum of n_p;  mean = sum of n_p*mean_p / n;  stat = (sum of n_p*stat_p + sum of n_p*(mean_p-mean)^2) / n, for
 *   rms_norm without the second sum
 *
 * Here stat and part_stat are variances over n (rms_norm: mean squares), whatever the convention says of the other
 * phases: n-1, eps and roots come after the merge, so that nothing is 0/0 in a part of one element and no digit is lost
 * to eps. A group of merge_statistics consists of parts where others consist of elements: extents count parts on the
 * reduced axes, part_mean and part_stat have the axes of x, and part_count has the reduced ones, as all groups are
 * parted alike. A count is an integer from 0 to 2^24, exact in float32; that the sum may be more is for the kernel to
 * cope with. A part of count 0 has no statistics: what stands in its part_mean and part_stat is to be ignored, be it
 * NaN, as 0/0 makes it. Statistics of no elements at all must be written, but may be anything. The convention has no
 * say in these phases; neither have eps, momentum and step.
 *
 * double_backward is the gradient of backward_training's gradients: of
 *
 *   L = <ddx, dx> + <ddgamma, dgamma> + <ddbeta, dbeta>
 *
 * as a function of x, dy and gamma. It reads these, ddx (as x), ddgamma (as gamma, where gamma is present) and ddbeta
 * (as beta, where beta is; its values are not handed), takes the statistics from x, and writes ddy = dL/d(dy), dx =
 * dL/dx and, where gamma is present, dgamma = dL/dgamma, all overwritten. With h = ddgamma*dy (0 where gamma is
 * absent), A, G and H for ddx, g and h less their means over the group (rms_norm: for ddx, g and h), s = 1/D inside the
 * root, 1/sqrt(v) outside it (0 where v is 0), as a floor 1/D, and 0 where v <= eps, and with N the divisor of v:
 *
 *   a = s*sum(ddx*xh)/N, b = s*sum(g*xh)/N, c = s*sum(h*xh)/N, q = s*sum(A*g)/N = s*sum(ddx*G)/N
 *   B = A/D - a*xh;  ddy = gamma*B + ddgamma*xh + ddbeta;  dgamma = sum of dy*B over the channel, in whatever group
 *   dx = H/D - (b*A + a*G)/D + ((2 + s*D)*a*b - q/D - c)*xh
 *
 * This is the form that the bounds are about: xh, A, G and H are rounded as they stand; then brackets may be multiplied
 * out, though sums over elements remain, factors and terms come in any order, and s*D is 1 inside the root and above a
 * floor. */
enum ng_phase {
  NG_FORWARD_TRAINING = 1,
  NG_FORWARD_INFERENCE = 2,
  NG_BACKWARD_TRAINING = 3,
  NG_BACKWARD_INFERENCE = 4,
  NG_STATISTICS = 5,
  NG_MERGE_STATISTICS = 6,
  NG_DOUBLE_BACKWARD = 8,
  NG_PHASES = 16
};

enum ng_role {
  NG_X = 0,
  NG_Y = 1,
  NG_GAMMA = 2,
  NG_BETA = 3,
  NG_MEAN = 4, /* written in forward_training, statistics and merge_statistics; read in backward_training and where
                  statistics are given */
  NG_MEAN_LO = 5,
  NG_STAT = 6, /* as mean; ng_convention.saved_statistic: reciprocal standard deviation, or variance. In statistics and
                  merge_statistics always the variance over n */
  NG_STAT_LO = 7,
  NG_RUNNING_MEAN = 8, /* read and written in place in forward_training, read in the inference phases */
  NG_RUNNING_VAR = 9,
  NG_RUNNING_WEIGHT = 10, /* one element; only where momentum_form is accumulated_weight */
  NG_DY = 11,             /* read; its strides may be 0, see NG_LAYOUT_MIXED */
  NG_DX = 12,
  NG_DGAMMA = 13, /* written; where gradients accumulate also read, then its values are to be added to */
  NG_DBETA = 14,
  NG_RESIDUAL = 15,
  NG_DRESIDUAL = 16,
  NG_RESERVE = 17,
  NG_PART_MEAN = 18,  /* merge_statistics reads these three */
  NG_PART_STAT = 19,  /* variance over n */
  NG_PART_COUNT = 20, /* elements of a part */
  NG_DDX = 21,        /* double_backward reads these three: what its L weighs dx, dgamma and dbeta with */
  NG_DDGAMMA = 22,
  NG_DDBETA = 23,
  NG_DDY = 24, /* and writes this, dx and dgamma */
  NG_ROLES = 32
};
#define NG_ROLE_BIT(role) (UINT64_C(1) << (role))

enum ng_dtype { NG_FLOAT32 = 0, NG_FLOAT64 = 1, NG_BFLOAT16 = 2, NG_FLOAT16 = 3 };

enum ng_status { NG_OK = 0, NG_REFUSED = 1, NG_OUT_OF_MEMORY = 2, NG_FAILED = 3 };

/* ---- what frameworks disagree on ------------------------------------------------------------------------------ */

/* Divisors concern variances, of centred rows; a mean square (rms_norm) is always over n. */
enum ng_normalizing_divisor { NG_NORMALIZE_N = 0, NG_NORMALIZE_N_MINUS_1 = 1 };
enum ng_stored_divisor { NG_STORE_N_MINUS_1 = 0, NG_STORE_N = 1 }; /* of the variance that running_var takes in */
enum ng_single_count {
  NG_SINGLE_NAN = 0,       /* the variance of one value under n-1 is 0/0 */
  NG_SINGLE_UNCHANGED = 1, /* running_var keeps its value */
  NG_SINGLE_ZERO = 2
};
enum ng_momentum_form {
  NG_MOMENTUM_NEW = 0,        /* new = (1-m)*old + m*batch */
  NG_MOMENTUM_OLD = 1,        /* new = m*old + (1-m)*batch */
  NG_MOMENTUM_CUMULATIVE = 2, /* new = old + (batch-old)/step, step counted from 1 */
  NG_MOMENTUM_ACCUMULATED = 3 /* new = m*old + batch, weight = m*weight + 1; inference divides by the weight */
};
enum ng_eps_placement {
  NG_EPS_INSIDE = 0,
  NG_EPS_OUTSIDE = 1,
  NG_EPS_FLOOR = 2
};                                                                    /* sqrt(v+e), sqrt(v)+e, sqrt(max(v,e)) */
enum ng_gamma_offset { NG_GAMMA_PLAIN = 0, NG_GAMMA_PLUS_ONE = 1 };   /* w, or 1+w */
enum ng_saved_statistic { NG_SAVED_RSTD = 0, NG_SAVED_VARIANCE = 1 }; /* 1/D; the normalizing variance */
enum ng_gradients { NG_GRADIENTS_OVERWRITE = 0, NG_GRADIENTS_ACCUMULATE = 1 }; /* of dgamma and dbeta */
enum ng_scalars { NG_SCALARS_FLOAT32 = 0, NG_SCALARS_DOUBLE = 1 }; /* the type eps and momentum are computed in */

typedef struct ng_convention {
  size_t struct_size;
  int32_t normalizing_divisor;
  int32_t stored_divisor;
  int32_t single_count;
  int32_t momentum_form;
  int32_t eps_placement;
  int32_t gamma_offset;
  int32_t saved_statistic;
  int32_t gradients;
  int32_t scalars;
} ng_convention; /* zeros: PyTorch */

/* ---- what a kernel claims -------------------------------------------------------------------------------------- */

enum ng_type { NG_TYPE_FLOAT32 = 0, NG_TYPE_FLOAT64 = 1 };
enum ng_variance { NG_TWO_PASS = 0, NG_ONE_PASS = 1, NG_WELFORD = 2 };
/* (x-m)*r*gamma+beta; x*a+b with a = r*gamma, b = beta-m*a. Backward: sums and differences of x-m; of x itself, as
 * sum(g*x) - m*sum(g) and dx = g*r + x*b + c. */
enum ng_form { NG_CENTRED = 0, NG_FOLDED = 1 };
enum ng_sum_order {
  NG_SUM_SEQUENTIAL = 0,  /* additions on the longest path: n-1 */
  NG_SUM_INTERLEAVED = 1, /* `lanes` partial sums: ceil(n/lanes) + ceil(log2(lanes)) */
  NG_SUM_PAIRWISE = 2,    /* blocks of `block` summed by `lanes` partial sums, then a binary tree over the blocks */
  NG_SUM_BLOCKED = 3      /* blocks of `block` summed by `lanes` partial sums, block sums added sequentially */
};
enum ng_subnormals { NG_SUBNORMALS_KEPT = 0, NG_SUBNORMALS_FLUSHED = 1 };
/* What backward_training computes from the (rounded) statistics that it is handed. Declared, a kernel is judged as that
 * function of its exact inputs, also of inputs that are some percent off; undeclared, as the derivative of the forward,
 * with what the rounding of the handed values makes of the first three uses in the bound. */
enum ng_saved_use {
  NG_USE_UNDECLARED = 0,
  NG_USE_SHORT = 1,      /* the formula of dx above, with xh and D from the handed values */
  NG_USE_TEXTBOOK = 2,   /* through the gradients of variance and mean. Since the deviations from a rounded mean do not
                            sum to 0, xh minus its mean over the group multiplies the last sum */
  NG_USE_RECOMPUTES = 3, /* from x alone, whatever is handed */
  NG_USE_FROM_OUTPUT = 4 /* x and mean are NULL; y, beta and stat are handed: xh = (y-beta)/gamma; gamma is never 0 */
};

enum ng_promise {
  NG_CONSTANT_EXACT = 1,     /* a constant group gives exactly beta */
  NG_SCALE_COVARIANT = 2,    /* scaling x by 2^k and eps by 4^k (inside) changes no bit of y */
  NG_ROW_INDEPENDENT = 4,    /* a group's result does not depend on the other groups' values, bit for bit */
  NG_BATCH_INVARIANT = 8,    /* ... nor on how many other groups there are */
  NG_IEEE_SPECIALS = 16,     /* infinities come out as the definition's extended-real values */
  NG_DIVIDES_BY_N = 32,      /* means are quotients by n, not products with a rounded 1/n */
  NG_NOT_DETERMINISTIC = 64, /* two runs may differ (default: deterministic) */
  NG_LAYOUT_INVARIANT = 128, /* layout, strides and alignment change no bit */
  NG_THREAD_INVARIANT = 256, /* the number of threads changes no bit */
  /* A caller that has set flush-to-zero and denormals-are-zero changes no bit. Not promised: under them the result is
     that of a kernel that flushes subnormals. Either way the caller finds its state as it was. */
  NG_CALLER_STATE_INVARIANT = 512
};

typedef struct ng_sum {
  size_t struct_size;
  int32_t order; /* ng_sum_order */
  int32_t reserved;
  int64_t lanes; /* 0: 1 */
  int64_t block; /* 0: 1 */
} ng_sum;

/* How a claim is read where a kernel has a choice: a product of deviations may be rounded in either of the two types;
 * Welford's running mean has the accumulator's, and its partial results (lanes, blocks) are merged by
 * m_a + (m_b - m_a) * n_b / n; contraction to fused multiply-adds is always allowed.
 *
 * merge_statistics computes in the less exact of the two types, if it likes. Parts are merged in pairs, by the formula
 * above or (m_a * n_a + m_b * n_b) / n, and M_a + M_b + (m_b - m_a)^2 * n_a * n_b / n of sums M of squared deviations
 * (or the same of variances), in the order of group_sum; or all at once, as a weighted mean and then a weighted sum of
 * squared differences from it. With NG_ONE_PASS also as sum of n_p * (stat_p + mean_p^2) over n, less the square of the
 * mean. */
typedef struct ng_claim {
  size_t struct_size;
  int32_t accumulator;     /* ng_type of sums and of the divisions by n */
  int32_t statistics;      /* ng_type in which mean, variance, 1/D, x-mean and the affine map are evaluated */
  int32_t variance;        /* ng_variance */
  int32_t form;            /* ng_form */
  const ng_sum* group_sum; /* NULL: sequential */
  /* Sums of dgamma and dbeta over groups, and of instance_norm's running statistics. What belongs to one group is
   * summed as group_sum says. Sequential: the terms of one group after the other, or their sums, go into the same
   * total. */
  const ng_sum* across_groups;
  double rsqrt_ulp;   /* error of 1/sqrt in ulp of the exact value; 0: a correctly rounded square root and a division */
  int32_t subnormals; /* ng_subnormals */
  int32_t saved_use;  /* ng_saved_use, backward only */
  uint64_t promises;  /* ng_promise bits */
} ng_claim;

/* ---- calls ----------------------------------------------------------------------------------------------------- */

typedef struct ng_tensor {
  size_t struct_size;
  void* data;
  int32_t dtype;       /* ng_dtype */
  int32_t layout_kind; /* 0: one stride per axis; others reserved */
  int32_t memory_kind; /* 0: host */
  int32_t reserved;
  int64_t stride[4]; /* in elements */
} ng_tensor;

typedef struct ng_call {
  size_t struct_size;
  int32_t variant;   /* ng_variant */
  int32_t phase;     /* ng_phase */
  int64_t extent[4]; /* N, G, K, S */
  double eps;        /* exactly the value to use */
  double momentum;
  int64_t step;                      /* of the running statistics, counted from 1, this call included */
  int32_t threads;                   /* the kernel may use this many; 0: 1 */
  int32_t accumulate;                /* backward: 1 where convention->gradients is NG_GRADIENTS_ACCUMULATE, else 0 */
  const ng_convention* convention;   /* one of the conventions that the manifest lists; never NULL */
  const ng_tensor* tensor[NG_ROLES]; /* by role; NULL: absent. Equal data pointers: in place, with equal strides */
  char* text;                        /* for a reason or an error, NUL-terminated; may be NULL */
  size_t text_size;
} ng_call;

/* ---- manifest -------------------------------------------------------------------------------------------------- */

enum ng_in_place {
  NG_IN_PLACE_Y = 1, /* y may be x, in the forward phases */
  NG_IN_PLACE_DX = 2 /* dx may be dy, in the backward phases */
};

enum ng_layout_claim {
  NG_LAYOUT_CHANNELS_LAST = 1, /* x, y, dy and dx may be N S G K in memory */
  NG_LAYOUT_PADDED = 2,        /* gaps between rows of the innermost axis */
  NG_LAYOUT_STRIDED = 4,       /* any stride per axis, also on gamma, beta and statistics */
  NG_LAYOUT_MIXED = 8          /* each tensor its own layout; with STRIDED also stride 0 in dy: a gradient that was
                                  expanded along some axes or all, whose elements there are one in memory */
};

typedef struct ng_kernel {
  size_t struct_size;
  const char* name;   /* [a-z0-9_./-]+, unique in the plugin */
  const char* source; /* "file:line", may be NULL */
  int32_t variant;    /* ng_variant */
  uint32_t phases;    /* bits 1 << ng_phase; 0: forward_training */
  /* Roles beyond x and y, bits NG_ROLE_BIT(role), by phase. supported: may be present; required: always present.
   * Both 0: gamma and beta may be present or absent (dgamma and dbeta with them), given statistics are present in the
   * inference phases and saved ones in backward_training. x, y, dy and dx are understood: supporting NG_ROLE_BIT(NG_X)
   * alone means none of the others. statistics and merge_statistics have the roles that ng_phase lists, all of them
   * always; nothing is declared. In double_backward gamma and beta alone are declared, the others come with them (both
   * 0: they may be present or absent). dgamma comes with gamma and dbeta with beta: a backward kernel that supports one
   * of a pair must support the other. With NG_USE_FROM_OUTPUT, stat must be supported in backward_training, and mean
   * not required. */
  uint64_t supported_roles[NG_PHASES];
  uint64_t required_roles[NG_PHASES];
  int32_t convention_count;                          /* 0: PyTorch only */
  const ng_convention* (*convention)(int32_t index); /* may be NULL if the count is 0 */
  const ng_claim* claim;                             /* NULL: a claim of zeros */
  uint32_t layouts;        /* ng_layout_claim bits; 0: contiguous N G K S only, and S = 1 where G and K are reduced */
  int32_t in_place;        /* ng_in_place bits; 0: y is not x, dx is not dy */
  int32_t alignment;       /* of data in bytes; 0: natural */
  int32_t over_read_bytes; /* it may read this far past the end of a tensor */
  int32_t max_threads;     /* 0: 1 */
  int32_t reserved;

  /* 1: yes; 0: no, with the reason in call->text. NULL: yes to all that the manifest declares. Data may be NULL. */
  int32_t (*supports)(const ng_call* call);
  /* May be NULL: stateless. One plan runs several times: data, their alignment and `step` may change from call to call,
   * everything else of the call stays. */
  int32_t (*prepare)(const ng_call* call, void** plan);
  /* May be NULL: none needed. */
  int32_t (*workspace)(void* plan, const ng_call* call, size_t* bytes, size_t* alignment);
  int32_t (*run)(void* plan, const ng_call* call, void* workspace); /* ng_status */
  void (*release)(void* plan);
  /* Of a kernel with backward phases that are the gradient of another one's forward phases: the name of that kernel of
   * this plugin, which has the same variant. NULL: its own forward phases, if it has any. */
  const char* forward;
} ng_kernel;

typedef struct ng_target {
  size_t struct_size;
  const char* name;         /* [a-z0-9_.-]+ */
  const char* environment;  /* "A=1;B=2", set before the worker starts; may be NULL */
  const char* cpu_features; /* flags of /proc/cpuinfo, separated by blanks, that it needs; may be NULL */
} ng_target;

typedef struct ng_plugin {
  size_t struct_size;
  int32_t abi_version; /* NG_ABI_VERSION */
  int32_t kernel_count;
  const char* name;
  const char* version; /* of the library under test; may be NULL */
  const ng_kernel* (*kernel)(int32_t index);
  int32_t target_count; /* 0: one target, "default" */
  int32_t reserved;
  const ng_target* (*target)(int32_t index); /* the list is the same whatever the environment */
} ng_plugin;

#if defined(__GNUC__)
#define NG_EXPORT __attribute__((visibility("default")))
#else
#define NG_EXPORT
#endif

/* host_struct_size: the size of ng_plugin that the host knows. The manifest of a target is read again in a worker that
 * was started with the target's environment, so lanes may depend on it. */
NG_EXPORT const ng_plugin* normgate_plugin_v1(size_t host_struct_size);

#ifdef __cplusplus
}
#endif
#endif
