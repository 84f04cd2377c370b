// What the pieces of the museum share: views of the tensors, the groups that a call normalizes, the manifest of a plain
// kernel (one phase, contiguous, a claim of zeros), and the steps that are not the bug. Everything a piece is about
// stands in the piece itself.
//
// To add a piece: a file named by its bug whose first line is `// rejected by: <property>; looks like: <diagnosis>`
// ("-" where no diagnosis can be expected), or `// sound: <what is unusual>` in sound/, and a line in list.cpp.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/abi/normgate.h"

namespace normgate::broken {

using At = std::array<std::int64_t, NG_AXES>;  // n, g, k, s

// A tensor, or nothing.
struct View {
  float* data = nullptr;
  At stride{};

  View() = default;
  explicit View(const ng_tensor* tensor) {
    if (tensor == nullptr) return;
    data = static_cast<float*>(tensor->data);
    for (std::size_t a = 0; a < NG_AXES; ++a) stride[a] = tensor->stride[a];
  }
  [[nodiscard]] bool present() const { return data != nullptr; }
  [[nodiscard]] std::int64_t offset(const At& at) const {
    return at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2] + at[3] * stride[3];
  }
  [[nodiscard]] float& operator[](const At& at) const { return data[offset(at)]; }
  [[nodiscard]] float value(const At& at, float absent) const { return present() ? data[offset(at)] : absent; }
  void put(const At& at, float value) const {
    if (present()) data[offset(at)] = value;
  }
};

struct Tensors {
  View x, y, gamma, beta, mean, stat, running_mean, running_var, running_weight, dy, dx, dgamma, dbeta, part_mean,
      part_stat, part_count, ddx, ddgamma, ddbeta, ddy;
  explicit Tensors(const ng_call& call)
      : x(call.tensor[NG_X]),
        y(call.tensor[NG_Y]),
        gamma(call.tensor[NG_GAMMA]),
        beta(call.tensor[NG_BETA]),
        mean(call.tensor[NG_MEAN]),
        stat(call.tensor[NG_STAT]),
        running_mean(call.tensor[NG_RUNNING_MEAN]),
        running_var(call.tensor[NG_RUNNING_VAR]),
        running_weight(call.tensor[NG_RUNNING_WEIGHT]),
        dy(call.tensor[NG_DY]),
        dx(call.tensor[NG_DX]),
        dgamma(call.tensor[NG_DGAMMA]),
        dbeta(call.tensor[NG_DBETA]),
        part_mean(call.tensor[NG_PART_MEAN]),
        part_stat(call.tensor[NG_PART_STAT]),
        part_count(call.tensor[NG_PART_COUNT]),
        ddx(call.tensor[NG_DDX]),
        ddgamma(call.tensor[NG_DDGAMMA]),
        ddbeta(call.tensor[NG_DDBETA]),
        ddy(call.tensor[NG_DDY]) {}
};

// The reduced axes of a variant, as a loop over at most two of them; `outer` is NG_AXES where there is one only.
struct Reduced {
  std::size_t outer;
  std::size_t inner;
};
inline Reduced reduced_axes(std::int32_t variant) {
  switch (variant) {
    case NG_BATCH_NORM:
      return {NG_N, NG_S};
    case NG_GROUP_NORM:
      return {NG_K, NG_S};
    case NG_INSTANCE_NORM:
      return {NG_AXES, NG_S};
    default:
      return {NG_G, NG_K};
  }
}

inline std::int64_t group_count(const ng_call& call) {
  const Reduced reduced = reduced_axes(call.variant);
  std::int64_t count = 1;
  for (std::size_t a = 0; a < NG_AXES; ++a)
    if (a != reduced.outer && a != reduced.inner) count *= call.extent[a];
  return count;
}

// The elements that share one mean and one variance; the groups of a call are numbered in row-major order.
struct Group {
  At first{};  // also where the group's statistics stand
  std::int64_t n = 0;

  Group(const ng_call& call, std::int64_t index) : reduced_(reduced_axes(call.variant)) {
    inner_ = call.extent[reduced_.inner];
    n = inner_ * (reduced_.outer < NG_AXES ? call.extent[reduced_.outer] : 1);
    for (std::size_t a = NG_AXES; a-- > 0;) {
      if (a == reduced_.outer || a == reduced_.inner) continue;
      first[a] = index % call.extent[a];
      index /= call.extent[a];
    }
  }
  [[nodiscard]] At at(std::int64_t i) const {
    At result = first;
    if (reduced_.outer < NG_AXES) result[reduced_.outer] = i / inner_;
    result[reduced_.inner] = i % inner_;
    return result;
  }
  [[nodiscard]] float count() const { return static_cast<float>(n); }

 private:
  Reduced reduced_;
  std::int64_t inner_ = 0;
};

// Sequential float32 sums, as a claim of zeros says; for the steps that are not the bug.
inline float sum_of(const View& x, const Group& group) {
  float sum = 0;
  for (std::int64_t i = 0; i < group.n; ++i) sum += x[group.at(i)];
  return sum;
}
inline float squares_around(const View& x, const Group& group, float mean) {
  float squares = 0;
  for (std::int64_t i = 0; i < group.n; ++i) {
    const float d = x[group.at(i)] - mean;
    squares += d * d;
  }
  return squares;
}

// A forward by the definition, for pieces whose bug is in how they go about it.
inline void put_y(const Tensors& t, const Group& group, float mean, float rstd) {
  for (std::int64_t i = 0; i < group.n; ++i) {
    const At at = group.at(i);
    t.y[at] = (t.x[at] - mean) * rstd * t.gamma.value(at, 1) + t.beta.value(at, 0);
  }
  t.mean.put(group.first, mean);
  t.stat.put(group.first, rstd);
}
inline void put_normalized(const Tensors& t, const Group& group, float eps) {
  const float mean = sum_of(t.x, group) / group.count();
  put_y(t, group, mean, 1 / std::sqrt(squares_around(t.x, group, mean) / group.count() + eps));
}

// The steps of a backward, for pieces whose bug is another one. g is dy times gamma, as everywhere.

inline bool centred(const ng_call& call) { return call.variant != NG_RMS_NORM; }

// What a backward phase is handed, as a mean (0 where rows are not centred) and 1/D with eps inside the root.
struct Statistics {
  float mean = 0;
  float rstd = 0;
};
inline Statistics handed(const ng_call& call, const Tensors& t, const Group& group) {
  if (t.running_var.present())
    return {t.running_mean[group.first], 1 / std::sqrt(t.running_var[group.first] + static_cast<float>(call.eps))};
  return {t.mean.value(group.first, 0), t.stat[group.first]};
}

inline float g_at(const Tensors& t, const At& at) { return t.dy[at] * t.gamma.value(at, 1); }
inline float xhat_at(const Tensors& t, const At& at, const Statistics& s) { return (t.x[at] - s.mean) * s.rstd; }

// dgamma and dbeta are running totals: cleared at first unless they accumulate, then all terms of one group after the
// other are added.
inline void clear_parameter_gradients(const ng_call& call, const Tensors& t) {
  if (call.convention->gradients == NG_GRADIENTS_ACCUMULATE) return;
  for (std::int64_t g = 0; g < call.extent[NG_G]; ++g)
    for (std::int64_t k = 0; k < call.extent[NG_K]; ++k) {
      t.dgamma.put({0, g, k, 0}, 0);
      t.dbeta.put({0, g, k, 0}, 0);
    }
}
inline void add_parameter_gradients(const Tensors& t, const Group& group, const Statistics& s) {
  for (std::int64_t i = 0; i < group.n; ++i) {
    const At at = group.at(i);
    if (t.dgamma.present()) t.dgamma[at] += t.dy[at] * xhat_at(t, at, s);
    if (t.dbeta.present()) t.dbeta[at] += t.dy[at];
  }
}

struct Sums {
  float g = 0;
  float g_xhat = 0;
};
inline Sums sums_of(const Tensors& t, const Group& group, const Statistics& s) {
  Sums sums;
  for (std::int64_t i = 0; i < group.n; ++i) {
    const At at = group.at(i);
    const float g = g_at(t, at);
    sums.g += g;
    sums.g_xhat += g * xhat_at(t, at, s);
  }
  return sums;
}
// dx of a training from the means of g and of g times x̂.
inline void put_dx(const Tensors& t, const Group& group, const Statistics& s, float mean_of_g, float mean_of_g_xhat) {
  for (std::int64_t i = 0; i < group.n; ++i) {
    const At at = group.at(i);
    t.dx[at] = s.rstd * (g_at(t, at) - mean_of_g - xhat_at(t, at, s) * mean_of_g_xhat);
  }
}
inline void put_training_dx(const ng_call& call, const Tensors& t, const Group& group, const Statistics& s) {
  const Sums sums = sums_of(t, group, s);
  put_dx(t, group, s, centred(call) ? sums.g / group.count() : 0, sums.g_xhat / group.count());
}
inline void put_inference_dx(const Tensors& t, const Group& group, const Statistics& s) {
  for (std::int64_t i = 0; i < group.n; ++i) t.dx[group.at(i)] = g_at(t, group.at(i)) * s.rstd;
}

// A double backward with eps inside the root, of what normgate.h calls a, b, c, q and A, G, H. A piece changes one of
// the numbers, or writes an element itself.

struct SecondSums {
  Statistics s;
  float mean_u = 0, mean_g = 0, mean_h = 0;
  float a = 0, b = 0, c = 0, q = 0;
  float curvature = 3;
};
inline float h_at(const Tensors& t, const At& at) { return t.ddgamma.value(at, 0) * t.dy[at]; }
inline SecondSums second_sums(const ng_call& call, const Tensors& t, const Group& group) {
  SecondSums r;
  r.s.mean = centred(call) ? sum_of(t.x, group) / group.count() : 0;
  r.s.rstd = 1 / std::sqrt(squares_around(t.x, group, r.s.mean) / group.count() + static_cast<float>(call.eps));
  for (std::int64_t i = 0; i < group.n; ++i) {
    const At at = group.at(i);
    const float xhat = xhat_at(t, at, r.s);
    r.mean_u += t.ddx[at];
    r.mean_g += g_at(t, at);
    r.mean_h += h_at(t, at);
    r.a += t.ddx[at] * xhat;
    r.b += g_at(t, at) * xhat;
    r.c += h_at(t, at) * xhat;
  }
  r.mean_u = centred(call) ? r.mean_u / group.count() : 0;
  r.mean_g = centred(call) ? r.mean_g / group.count() : 0;
  r.mean_h = centred(call) ? r.mean_h / group.count() : 0;
  for (std::int64_t i = 0; i < group.n; ++i) r.q += (t.ddx[group.at(i)] - r.mean_u) * g_at(t, group.at(i));
  for (float* sum : {&r.a, &r.b, &r.c, &r.q}) *sum = *sum * r.s.rstd / group.count();
  return r;
}
inline float answer_at(const Tensors& t, const At& at, const SecondSums& r) {
  return (t.ddx[at] - r.mean_u) * r.s.rstd - r.a * xhat_at(t, at, r.s);
}
inline void put_ddy(const Tensors& t, const Group& group, const SecondSums& r) {
  for (std::int64_t i = 0; i < group.n; ++i) {
    const At at = group.at(i);
    t.ddy[at] = t.gamma.value(at, 1) * answer_at(t, at, r) + t.ddgamma.value(at, 0) * xhat_at(t, at, r.s) +
                t.ddbeta.value(at, 0);
  }
}
inline void put_second_dx(const Tensors& t, const Group& group, const SecondSums& r) {
  for (std::int64_t i = 0; i < group.n; ++i) {
    const At at = group.at(i);
    t.dx[at] = (h_at(t, at) - r.mean_h - r.b * (t.ddx[at] - r.mean_u) - r.a * (g_at(t, at) - r.mean_g)) * r.s.rstd +
               (r.curvature * r.a * r.b - r.q * r.s.rstd - r.c) * xhat_at(t, at, r.s);
  }
}
inline void add_second_dgamma(const Tensors& t, const Group& group, const SecondSums& r) {
  for (std::int64_t i = 0; i < group.n && t.dgamma.present(); ++i)
    t.dgamma[group.at(i)] += t.dy[group.at(i)] * answer_at(t, group.at(i), r);
}
// gamma's gradient, cleared: it is a running total.
inline void clear_second_dgamma(const ng_call& call, const Tensors& t) {
  for (std::int64_t g = 0; g < call.extent[NG_G]; ++g)
    for (std::int64_t k = 0; k < call.extent[NG_K]; ++k) t.dgamma.put({0, g, k, 0}, 0);
}

// Statistics of parts, and of their union.

inline void put_part_statistics(const Tensors& t, const Group& group) {
  const float mean = sum_of(t.x, group) / group.count();
  t.mean.put(group.first, mean);
  t.stat.put(group.first, squares_around(t.x, group, mean) / group.count());
}

// A part of a group that is to be merged; the parts are numbered as the elements of other phases are.
struct Part {
  float count = 0;
  float mean = 0;
  float variance = 0;
  Part(const Tensors& t, const Group& group, std::int64_t index) {
    const At at = group.at(index);
    count = t.part_count[at];
    mean = t.part_mean.value(at, 0);
    variance = t.part_stat[at];
  }
};

struct Merged {
  float n = 0;
  float mean = 0;
  float squares = 0;  // sum of squared deviations
  void add(const Part& part) {
    if (part.count == 0) return;
    const float before = n;
    n += part.count;
    const float d = part.mean - mean;
    mean += d * part.count / n;
    squares += part.count * part.variance + d * d * before * part.count / n;
  }
};
inline Merged merge_at_once(const Tensors& t, const Group& group) {
  Merged merged;
  for (std::int64_t p = 0; p < group.n; ++p) {
    const Part part(t, group, p);
    if (part.count == 0) continue;
    merged.n += part.count;
    merged.mean += part.count * part.mean;
  }
  merged.mean /= merged.n;
  for (std::int64_t p = 0; p < group.n; ++p) {
    const Part part(t, group, p);
    if (part.count == 0) continue;
    const float d = part.mean - merged.mean;
    merged.squares += part.count * (part.variance + d * d);
  }
  return merged;
}
inline void put_merged(const Tensors& t, const Group& group, const Merged& merged) {
  t.mean.put(group.first, merged.mean);
  t.stat.put(group.first, merged.squares / merged.n);
}

// Manifests.

using Run = std::int32_t (*)(void* plan, const ng_call* call, void* workspace);

inline constexpr std::uint64_t affine_roles = NG_ROLE_BIT(NG_GAMMA) | NG_ROLE_BIT(NG_BETA);
inline constexpr std::uint64_t running_roles = NG_ROLE_BIT(NG_RUNNING_MEAN) | NG_ROLE_BIT(NG_RUNNING_VAR);

// forward_training, gamma, beta and saved statistics optional.
constexpr ng_kernel training(std::int32_t variant, const char* name, Run run) {
  ng_kernel kernel{};
  kernel.struct_size = sizeof(ng_kernel);
  kernel.name = name;
  kernel.variant = variant;
  kernel.phases = 1U << NG_FORWARD_TRAINING;
  kernel.supported_roles[NG_FORWARD_TRAINING] = affine_roles | NG_ROLE_BIT(NG_STAT);
  if (variant != NG_RMS_NORM) kernel.supported_roles[NG_FORWARD_TRAINING] |= NG_ROLE_BIT(NG_MEAN);
  if (variant == NG_BATCH_NORM) kernel.supported_roles[NG_FORWARD_TRAINING] |= running_roles;
  kernel.run = run;
  return kernel;
}
// … and forward_inference from running statistics.
constexpr ng_kernel training_and_inference(std::int32_t variant, const char* name, Run run) {
  ng_kernel kernel = training(variant, name, run);
  kernel.phases |= 1U << NG_FORWARD_INFERENCE;
  kernel.supported_roles[NG_FORWARD_INFERENCE] = affine_roles | running_roles;
  kernel.required_roles[NG_FORWARD_INFERENCE] = running_roles;
  return kernel;
}

constexpr ng_claim using_saved(std::int32_t saved_use) {
  ng_claim claim{};
  claim.struct_size = sizeof(ng_claim);
  claim.saved_use = saved_use;
  return claim;
}
inline constexpr ng_claim short_use = using_saved(NG_USE_SHORT);

// backward_training from the mean and the statistic that it is handed, by the short formula; gamma and beta optional,
// and their gradients with them.
constexpr ng_kernel backward(std::int32_t variant, const char* name, Run run) {
  ng_kernel kernel{};
  kernel.struct_size = sizeof(ng_kernel);
  kernel.name = name;
  kernel.variant = variant;
  kernel.phases = 1U << NG_BACKWARD_TRAINING;
  kernel.claim = &short_use;
  kernel.run = run;
  return kernel;
}
// … and backward_inference, from running statistics where the variant has them.
constexpr ng_kernel backward_both(std::int32_t variant, const char* name, Run run) {
  ng_kernel kernel = backward(variant, name, run);
  kernel.phases |= 1U << NG_BACKWARD_INFERENCE;
  return kernel;
}
// backward_training that is handed no statistics.
constexpr ng_kernel backward_alone(std::int32_t variant, const char* name, Run run) {
  ng_kernel kernel = backward(variant, name, run);
  kernel.supported_roles[NG_BACKWARD_TRAINING] = affine_roles | NG_ROLE_BIT(NG_DGAMMA) | NG_ROLE_BIT(NG_DBETA);
  kernel.claim = nullptr;
  return kernel;
}

// statistics and merge_statistics.
constexpr ng_kernel merging(std::int32_t variant, const char* name, Run run) {
  ng_kernel kernel{};
  kernel.struct_size = sizeof(ng_kernel);
  kernel.name = name;
  kernel.variant = variant;
  kernel.phases = 1U << NG_STATISTICS | 1U << NG_MERGE_STATISTICS;
  kernel.run = run;
  return kernel;
}

// double_backward, gamma and beta optional.
constexpr ng_kernel double_backward(std::int32_t variant, const char* name, Run run) {
  ng_kernel kernel{};
  kernel.struct_size = sizeof(ng_kernel);
  kernel.name = name;
  kernel.variant = variant;
  kernel.phases = 1U << NG_DOUBLE_BACKWARD;
  kernel.run = run;
  return kernel;
}

constexpr ng_kernel with_claim(ng_kernel kernel, const ng_claim* claim) {
  kernel.claim = claim;
  return kernel;
}
constexpr ng_kernel with_layouts(ng_kernel kernel, std::uint32_t layouts) {
  kernel.layouts = layouts;
  return kernel;
}
// One convention, other than PyTorch's.
constexpr ng_kernel with_convention(ng_kernel kernel, const ng_convention* (*convention)(std::int32_t)) {
  kernel.convention_count = 1;
  kernel.convention = convention;
  return kernel;
}

constexpr ng_claim promising(std::uint64_t promises) {
  ng_claim claim{};
  claim.struct_size = sizeof(ng_claim);
  claim.promises = promises;
  return claim;
}
constexpr ng_sum summed(std::int32_t order, std::int64_t lanes, std::int64_t block) {
  return {sizeof(ng_sum), order, 0, lanes, block};
}
constexpr ng_convention pytorch() {
  ng_convention convention{};
  convention.struct_size = sizeof(ng_convention);
  return convention;
}

}  // namespace normgate::broken
