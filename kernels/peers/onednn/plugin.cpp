// oneDNN's normalizations as kernels behind the C ABI: a library that nobody here wrote, called the way its
// documentation says and judged like any other. Instruction-set levels are targets.
//
// Nothing is copied, reordered or computed here: host pointers are wrapped in memory objects, one primitive runs on
// them, and what oneDNN cannot create is refused in its own words. To add a primitive: a function that describes it
// (`describe_…` below) and a kernel at the foot of the file.
#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/abi/normgate.h"

namespace {

using dnnl::memory;
using dnnl::normalization_flags;
using dnnl::prop_kind;

// What the plugin itself declines, before oneDNN is asked.
struct Refusal {
  std::string reason;
};

// ---- from four axes to oneDNN's dimensions ---------------------------------------------------------------------

std::int64_t channels(const ng_call& call) { return call.extent[NG_G] * call.extent[NG_K]; }

// Distance of neighbouring channels c = g*K + k, which oneDNN knows as one dimension.
std::int64_t channel_stride(const ng_call& call, const ng_tensor& tensor, const char* name) {
  const std::int64_t g = tensor.stride[NG_G];
  const std::int64_t k = tensor.stride[NG_K];
  if (channels(call) <= 1) return 1;
  if (call.extent[NG_G] == 1) return k;
  if (call.extent[NG_K] == 1) return g;
  if (g != k * call.extent[NG_K]) throw Refusal{std::string(name) + ": G and K do not merge into one dimension"};
  return k;
}

// One dimension of a tensor for oneDNN.
struct Dimension {
  std::int64_t extent = 1;
  std::int64_t stride = 1;
};

// The stride of a dimension of extent 1 is never used, but version 2.6 compares it when it looks for an implementation:
// it gets what a dense tensor has there. `inwards` lists the dimensions from the outermost to the innermost in memory.
memory::desc describe(std::vector<Dimension> dimensions, const std::vector<std::size_t>& inwards) {
  std::int64_t dense = 1;
  for (auto at = inwards.rbegin(); at != inwards.rend(); ++at) {
    Dimension& dimension = dimensions[*at];
    if (dimension.extent == 1) dimension.stride = dense;
    dense = dimension.stride * dimension.extent;
  }
  memory::dims extents;
  memory::dims strides;
  for (const Dimension& dimension : dimensions) {
    extents.push_back(dimension.extent);
    strides.push_back(dimension.stride);
  }
  return {extents, memory::data_type::f32, strides};
}

// Whether the channels lie inside the positions in memory; `otherwise` where one of them has no extent.
bool channels_last(const Dimension& channel, const Dimension& position, bool otherwise) {
  return channel.extent > 1 && position.extent > 1 ? channel.stride < position.stride : otherwise;
}

// A tensor of images, N×C or N×C×1×S, for batch normalization: version 2.6 knows its fast implementations by the
// layouts of images and leaves N×C×S to its reference loops.
memory::desc images(const ng_call& call, const ng_tensor& tensor, const char* name) {
  const Dimension sample{call.extent[NG_N], tensor.stride[NG_N]};
  const Dimension channel{channels(call), channel_stride(call, tensor, name)};
  const Dimension position{call.extent[NG_S], tensor.stride[NG_S]};
  return position.extent == 1                      ? describe({sample, channel}, {0, 1})
         : channels_last(channel, position, false) ? describe({sample, channel, {}, position}, {0, 2, 3, 1})
                                                   : describe({sample, channel, {}, position}, {0, 1, 2, 3});
}

// A tensor of rows, N×C or N×S×C, for layer normalization, which is over the last dimension in the logical order.
memory::desc rows(const ng_call& call, const ng_tensor& tensor, const char* name) {
  const Dimension sample{call.extent[NG_N], tensor.stride[NG_N]};
  const Dimension position{call.extent[NG_S], tensor.stride[NG_S]};
  const Dimension channel{channels(call), channel_stride(call, tensor, name)};
  return position.extent == 1                     ? describe({sample, channel}, {0, 1})
         : channels_last(channel, position, true) ? describe({sample, position, channel}, {0, 1, 2})
                                                  : describe({sample, position, channel}, {0, 2, 1});
}

// One value per row: mean or variance of layer normalization.
memory::desc row_values(const ng_call& call, const ng_tensor& tensor) {
  const Dimension sample{call.extent[NG_N], tensor.stride[NG_N]};
  const Dimension position{call.extent[NG_S], tensor.stride[NG_S]};
  return position.extent == 1 ? describe({sample}, {0}) : describe({sample, position}, {0, 1});
}

memory::desc dense_vector(const ng_call& call, int role, const char* name) {
  const std::int64_t count = channels(call);
  if (channel_stride(call, *call.tensor[role], name) != 1)
    throw Refusal{std::string(name) + ": oneDNN takes dense vectors over the channels only"};
  return {{count}, memory::data_type::f32, memory::format_tag::a};
}

void require_same_layout(const ng_call& call, int first, int second, const char* reason) {
  for (int axis = 0; axis < NG_AXES; ++axis)
    if (call.extent[axis] > 1 && call.tensor[first]->stride[axis] != call.tensor[second]->stride[axis])
      throw Refusal{reason};
}

constexpr const char* one_data_layout =
    "oneDNN 2 describes source and destination by one memory descriptor: x and y need one layout";
constexpr const char* one_gradient_layout =
    "oneDNN 2 describes their gradients by one memory descriptor: dy and dx need one layout";

// ---- plans -------------------------------------------------------------------------------------------------------

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

constexpr int stand_in = -1;  // in place of a role: an input that oneDNN demands and that is not handed

struct Argument {
  int role;
  int argument;  // DNNL_ARG_…
  memory::desc description;
};

struct Description {
  dnnl::primitive_desc primitive;
  std::vector<Argument> arguments;
};

struct Plan {
  dnnl::stream stream{engine()};
  dnnl::primitive primitive;
  std::vector<std::pair<int, memory>> by_role;
  std::unordered_map<int, memory> arguments;
  std::vector<float> stand_in;
  memory scratchpad;
  std::size_t scratchpad_bytes = 0;
};

// The scratchpad is the host's, so that it is fenced, poisoned and checked like every other buffer.
dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

bool is_backward(const ng_call& call) {
  return call.phase == NG_BACKWARD_TRAINING || call.phase == NG_BACKWARD_INFERENCE;
}

void check_call(const ng_call& call, std::uint64_t roles) {
  for (int role = 0; role < NG_ROLES; ++role) {
    const ng_tensor* tensor = call.tensor[role];
    if (tensor == nullptr) continue;
    if ((NG_ROLE_BIT(role) & roles) == 0)
      throw Refusal{"a tensor that this phase does not use: role " + std::to_string(role)};
    if (tensor->dtype != NG_FLOAT32) throw Refusal{"this plugin is for float32"};
    if (tensor->layout_kind != 0 || tensor->memory_kind != 0) throw Refusal{"this plugin is for strided host memory"};
  }
  const auto require = [&](int role, const char* name) {
    if (call.tensor[role] == nullptr) throw Refusal{std::string(name) + " is missing"};
  };
  require(NG_X, "x");
  if (is_backward(call)) {
    require(NG_DY, "dy");
    require(NG_DX, "dx");
  } else {
    require(NG_Y, "y");
  }
}

struct Statistics {
  int mean;
  int variance;
  bool given;
};

// Where the statistics go, and the propagation kind that follows. Training without saved statistics is oneDNN's
// forward_inference without use_global_stats: it computes them and does not expose them.
std::pair<prop_kind, std::optional<Statistics>> statistics_of(const ng_call& call, std::int64_t group_size,
                                                              int given_mean, int given_variance) {
  if (call.phase == NG_FORWARD_INFERENCE) {
    if (call.tensor[given_mean] == nullptr || call.tensor[given_variance] == nullptr)
      throw Refusal{"inference needs both given statistics"};
    return {prop_kind::forward_inference, Statistics{given_mean, given_variance, true}};
  }
  if (call.phase != NG_FORWARD_TRAINING) throw Refusal{"this plugin is for the forward phases"};
  const bool mean = call.tensor[NG_MEAN] != nullptr;
  const bool variance = call.tensor[NG_STAT] != nullptr;
  if (mean != variance) throw Refusal{"oneDNN saves mean and variance together or not at all"};
  if (!mean) return {prop_kind::forward_inference, std::nullopt};
  // Version 2.6 leaves them unwritten (batch normalization) or writes 0 (layer normalization); its guide is silent.
  if (group_size == 0) throw Refusal{"oneDNN documents no statistics of an empty group"};
  return {prop_kind::forward_training, Statistics{NG_MEAN, NG_STAT, false}};
}

normalization_flags add_affine(const ng_call& call, std::vector<Argument>& arguments) {
  normalization_flags flags = normalization_flags::none;
  if (call.tensor[NG_GAMMA] != nullptr) {
    flags |= normalization_flags::use_scale;
    arguments.push_back({NG_GAMMA, DNNL_ARG_SCALE, dense_vector(call, NG_GAMMA, "gamma")});
  }
  if (call.tensor[NG_BETA] != nullptr) {
    flags |= normalization_flags::use_shift;
    arguments.push_back({NG_BETA, DNNL_ARG_SHIFT, dense_vector(call, NG_BETA, "beta")});
  }
  return flags;
}

constexpr std::uint64_t affine_roles = NG_ROLE_BIT(NG_GAMMA) | NG_ROLE_BIT(NG_BETA);
constexpr std::uint64_t affine_gradient_roles = NG_ROLE_BIT(NG_DGAMMA) | NG_ROLE_BIT(NG_DBETA);
constexpr std::uint64_t forward_roles = NG_ROLE_BIT(NG_X) | NG_ROLE_BIT(NG_Y) | affine_roles;
constexpr std::uint64_t backward_roles =
    NG_ROLE_BIT(NG_X) | NG_ROLE_BIT(NG_DY) | NG_ROLE_BIT(NG_DX) | affine_roles | affine_gradient_roles;
constexpr std::uint64_t saved_roles = NG_ROLE_BIT(NG_MEAN) | NG_ROLE_BIT(NG_STAT);
constexpr std::uint64_t running_roles = NG_ROLE_BIT(NG_RUNNING_MEAN) | NG_ROLE_BIT(NG_RUNNING_VAR);

Description describe_batch_norm(const ng_call& call) {
  check_call(call, forward_roles | (call.phase == NG_FORWARD_INFERENCE ? running_roles : saved_roles));
  require_same_layout(call, NG_X, NG_Y, one_data_layout);
  const memory::desc data = images(call, *call.tensor[NG_X], "x");

  std::vector<Argument> arguments{{NG_X, DNNL_ARG_SRC, data}, {NG_Y, DNNL_ARG_DST, data}};
  normalization_flags flags = add_affine(call, arguments);
  const auto [kind, statistics] =
      statistics_of(call, call.extent[NG_N] * call.extent[NG_S], NG_RUNNING_MEAN, NG_RUNNING_VAR);
  if (statistics) {
    if (statistics->given) flags |= normalization_flags::use_global_stats;
    arguments.push_back({statistics->mean, DNNL_ARG_MEAN, dense_vector(call, statistics->mean, "mean")});
    arguments.push_back(
        {statistics->variance, DNNL_ARG_VARIANCE, dense_vector(call, statistics->variance, "variance")});
  }
  const dnnl::batch_normalization_forward::desc operation(kind, data, static_cast<float>(call.eps), flags);
  return {dnnl::batch_normalization_forward::primitive_desc(operation, attributes(), engine()), std::move(arguments)};
}

// "Works with an arbitrary data tensor", says the developer guide of layer normalization, so gaps between rows are
// claimed. Worst witness, in version 2.6.3 on every target: eps 0, rows [1,3] and [5,9] that are 3 elements apart, 100
// in the gaps. The implementation simple_layer_normalization asks of the strides only that the last one is 1, and walks
// the rows as if they were dense: the second row's mean is 52.5 where 7 is right, its variance 2256.25 instead of 4,
// and its results are written from the first gap on.
memory::desc row_statistics(const ng_call& call, const Statistics& statistics) {
  const memory::desc mean = row_values(call, *call.tensor[statistics.mean]);
  if (mean != row_values(call, *call.tensor[statistics.variance]))
    throw Refusal{"oneDNN describes mean and variance by one memory descriptor: they need one layout"};
  return mean;
}

Description describe_layer_norm(const ng_call& call) {
  check_call(call, forward_roles | saved_roles);
  require_same_layout(call, NG_X, NG_Y, one_data_layout);
  const memory::desc data = rows(call, *call.tensor[NG_X], "x");

  std::vector<Argument> arguments{{NG_X, DNNL_ARG_SRC, data}, {NG_Y, DNNL_ARG_DST, data}};
  normalization_flags flags = add_affine(call, arguments);
  const auto [kind, statistics] = statistics_of(call, channels(call), NG_MEAN, NG_STAT);
  std::optional<dnnl::layer_normalization_forward::desc> operation;
  if (statistics) {
    if (statistics->given) flags |= normalization_flags::use_global_stats;
    const memory::desc values = row_statistics(call, *statistics);
    arguments.push_back({statistics->mean, DNNL_ARG_MEAN, values});
    arguments.push_back({statistics->variance, DNNL_ARG_VARIANCE, values});
    operation.emplace(kind, data, values, static_cast<float>(call.eps), flags);
  } else {
    operation.emplace(kind, data, static_cast<float>(call.eps), flags);
  }
  return {dnnl::layer_normalization_forward::primitive_desc(*operation, attributes(), engine()), std::move(arguments)};
}

// ---- backward ----------------------------------------------------------------------------------------------------

// A backward primitive is made from the descriptions of its operation and of the forward operation that it belongs to,
// which is training in both phases: with use_global_stats the given statistics are constants, which is what
// backward_inference means.
struct Backward {
  prop_kind kind = prop_kind::backward_data;
  normalization_flags flags = normalization_flags::none;
  Statistics statistics{};
};

// The parameters' gradients come with their parameters: `backward` gives those that the flags ask for, `backward_data`
// is for none. With use_shift, shift itself is an input as well, whose values mean nothing: NaN stand in for it.
Backward add_gradients(const ng_call& call, int given_mean, int given_variance, std::vector<Argument>& arguments) {
  Backward backward;
  const auto pair = [&](int parameter, int gradient, const char* name) {
    const bool present = call.tensor[gradient] != nullptr;
    if (present != (call.tensor[parameter] != nullptr))
      throw Refusal{std::string("oneDNN takes ") + name + " and gives its gradient together or not at all"};
    return present;
  };
  if (pair(NG_GAMMA, NG_DGAMMA, "gamma")) {
    backward.kind = prop_kind::backward;
    backward.flags |= normalization_flags::use_scale;
    arguments.push_back({NG_GAMMA, DNNL_ARG_SCALE, dense_vector(call, NG_GAMMA, "gamma")});
    arguments.push_back({NG_DGAMMA, DNNL_ARG_DIFF_SCALE, dense_vector(call, NG_DGAMMA, "dgamma")});
  }
  if (call.tensor[NG_DBETA] != nullptr) {
    backward.kind = prop_kind::backward;
    backward.flags |= normalization_flags::use_shift;
    const memory::desc gradient = dense_vector(call, NG_DBETA, "dbeta");
    arguments.push_back({stand_in, DNNL_ARG_SHIFT, gradient});
    arguments.push_back({NG_DBETA, DNNL_ARG_DIFF_SHIFT, gradient});
  }
  backward.statistics = {NG_MEAN, NG_STAT, false};
  if (call.phase == NG_BACKWARD_INFERENCE) {
    backward.flags |= normalization_flags::use_global_stats;
    backward.statistics = {given_mean, given_variance, true};
  }
  if (call.tensor[backward.statistics.mean] == nullptr || call.tensor[backward.statistics.variance] == nullptr)
    throw Refusal{"oneDNN's backward needs mean and variance: it does not compute them again"};
  return backward;
}

Description describe_batch_norm_backward(const ng_call& call) {
  check_call(call, backward_roles | (call.phase == NG_BACKWARD_INFERENCE ? running_roles : saved_roles));
  require_same_layout(call, NG_DY, NG_DX, one_gradient_layout);
  const memory::desc data = images(call, *call.tensor[NG_X], "x");
  const memory::desc gradient = images(call, *call.tensor[NG_DY], "dy");
  std::vector<Argument> arguments{
      {NG_X, DNNL_ARG_SRC, data}, {NG_DY, DNNL_ARG_DIFF_DST, gradient}, {NG_DX, DNNL_ARG_DIFF_SRC, gradient}};
  const auto [kind, flags, statistics] = add_gradients(call, NG_RUNNING_MEAN, NG_RUNNING_VAR, arguments);
  arguments.push_back({statistics.mean, DNNL_ARG_MEAN, dense_vector(call, statistics.mean, "mean")});
  arguments.push_back({statistics.variance, DNNL_ARG_VARIANCE, dense_vector(call, statistics.variance, "variance")});

  const auto eps = static_cast<float>(call.eps);
  const dnnl::batch_normalization_forward::primitive_desc forward({prop_kind::forward_training, data, eps, flags},
                                                                  engine());
  return {dnnl::batch_normalization_backward::primitive_desc({kind, gradient, data, eps, flags}, attributes(), engine(),
                                                             forward),
          std::move(arguments)};
}

// Data and gradients "in different formats are functionally supported" by layer normalization too, says the guide.
// Worst witnesses, in version 2.6.3 on every target, where the same implementation asks nothing of the gradients'
// strides: eps 0, means 0, variances 1, two rows of x [-1,1], of dy [1,2] and [11,12]; dgamma is [-12,14], dbeta
// [12,14]. With dy and dx in the order channels, rows and x dense it gives [-3,23] and [3,23]; with rows of dy and dx
// that are 3 elements apart, 100 in the gap, [-101,13] and [101,13], writes dx into the gap and leaves its last element
// unwritten.
Description describe_layer_norm_backward(const ng_call& call) {
  check_call(call, backward_roles | saved_roles);
  require_same_layout(call, NG_DY, NG_DX, one_gradient_layout);
  const memory::desc data = rows(call, *call.tensor[NG_X], "x");
  const memory::desc gradient = rows(call, *call.tensor[NG_DY], "dy");
  std::vector<Argument> arguments{
      {NG_X, DNNL_ARG_SRC, data}, {NG_DY, DNNL_ARG_DIFF_DST, gradient}, {NG_DX, DNNL_ARG_DIFF_SRC, gradient}};
  const auto [kind, flags, statistics] = add_gradients(call, NG_MEAN, NG_STAT, arguments);
  const memory::desc values = row_statistics(call, statistics);
  arguments.push_back({statistics.mean, DNNL_ARG_MEAN, values});
  arguments.push_back({statistics.variance, DNNL_ARG_VARIANCE, values});

  const auto eps = static_cast<float>(call.eps);
  const dnnl::layer_normalization_forward::primitive_desc forward(
      {prop_kind::forward_training, data, values, eps, flags}, engine());
  return {dnnl::layer_normalization_backward::primitive_desc({kind, gradient, data, values, eps, flags}, attributes(),
                                                             engine(), forward),
          std::move(arguments)};
}

Description describe_primitive(const ng_call& call) {
  if (call.variant == NG_BATCH_NORM)
    return is_backward(call) ? describe_batch_norm_backward(call) : describe_batch_norm(call);
  return is_backward(call) ? describe_layer_norm_backward(call) : describe_layer_norm(call);
}

// ---- the border: no exception crosses it ---------------------------------------------------------------------

void tell(const ng_call& call, const char* text) {
  if (call.text != nullptr && call.text_size > 0) std::snprintf(call.text, call.text_size, "%s", text);
}

template <typename Body>
std::int32_t guarded(const ng_call& call, Body body) {
  try {
    body();
    return NG_OK;
  } catch (const Refusal& refusal) {
    tell(call, refusal.reason.c_str());
    return NG_REFUSED;
  } catch (const dnnl::error& error) {
    tell(call, (std::string("oneDNN: ") + error.what()).c_str());
    switch (error.status) {
      case dnnl_unimplemented:
      case dnnl_invalid_arguments:
        return NG_REFUSED;
      case dnnl_out_of_memory:
        return NG_OUT_OF_MEMORY;
      default:
        return NG_FAILED;
    }
  } catch (const std::bad_alloc&) {
    tell(call, "out of memory");
    return NG_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    tell(call, error.what());
    return NG_FAILED;
  } catch (...) {
    tell(call, "an exception of an unknown type");
    return NG_FAILED;
  }
}

std::int32_t supports(const ng_call* call) {
  return guarded(*call, [&] { describe_primitive(*call); }) == NG_OK ? 1 : 0;
}

// For a kernel that does not claim mixed layouts: nor does it answer for them where oneDNN would take them.
std::int32_t supports_one_layout(const ng_call* call) {
  return guarded(*call,
                 [&] {
                   describe_primitive(*call);
                   require_same_layout(*call, NG_X, NG_DY,
                                       "data and gradients in different formats are another kernel's claim");
                 }) == NG_OK
             ? 1
             : 0;
}

std::int32_t prepare(const ng_call* call, void** plan) {
  return guarded(*call, [&] {
    const Description description = describe_primitive(*call);
    auto made = std::make_unique<Plan>();
    made->primitive = dnnl::primitive(description.primitive);
    for (const Argument& argument : description.arguments) {
      memory object(argument.description, engine(), DNNL_MEMORY_NONE);
      if (argument.role == stand_in) {
        const std::size_t count = argument.description.get_size() / sizeof(float);
        made->stand_in.assign(count, std::numeric_limits<float>::quiet_NaN());
        object.set_data_handle(made->stand_in.data());
      } else {
        made->by_role.emplace_back(argument.role, object);
      }
      made->arguments.emplace(argument.argument, object);
    }
    const memory::desc scratchpad = description.primitive.scratchpad_desc();
    made->scratchpad_bytes = scratchpad.get_size();
    made->scratchpad = memory(scratchpad, engine(), DNNL_MEMORY_NONE);
    made->arguments.emplace(DNNL_ARG_SCRATCHPAD, made->scratchpad);
    *plan = made.release();
  });
}

std::int32_t workspace(void* plan, const ng_call* /*call*/, std::size_t* bytes, std::size_t* alignment) {
  *bytes = static_cast<const Plan*>(plan)->scratchpad_bytes;
  *alignment = 64;  // what oneDNN's guide to memory asks for
  return NG_OK;
}

std::int32_t run(void* plan, const ng_call* call, void* workspace) {
  return guarded(*call, [&] {
    Plan& made = *static_cast<Plan*>(plan);
    for (auto& [role, object] : made.by_role) object.set_data_handle(call->tensor[role]->data);
    made.scratchpad.set_data_handle(workspace);
    made.primitive.execute(made.stream, made.arguments);
    made.stream.wait();
  });
}

void release(void* plan) { delete static_cast<Plan*>(plan); }

// ---- claims ----------------------------------------------------------------------------------------------------

// oneDNN normalizes with population statistics and saves and takes the variance, not its root. It has no running
// statistics, so the fields about them mean nothing.
constexpr ng_convention convention = [] {
  ng_convention made{};
  made.struct_size = sizeof made;
  made.saved_statistic = NG_SAVED_VARIANCE;
  return made;
}();

const ng_convention* convention_at(std::int32_t /*index*/) { return &convention; }

// The default claim, float32 two-pass with sums in any order, centred, with exact square roots and divisions, holds for
// every implementation of version 2.6: the generated code for channels-last batches (sqrtps, divps, fused
// multiply-add), the vectorized loops for plain batches and rows, and the reference loops for other strides. How many
// lanes a sum has differs between them, and which one runs depends on shape and target: so the sequential order is
// claimed, the deepest there is.
// Promises: every group is computed by itself, and means are divided by n. Not claimed, because the channel count can
// choose another implementation or a padded one: that a group's bits do not depend on how many groups there are.
constexpr ng_claim claim{
    .struct_size = sizeof(ng_claim),
    .accumulator = NG_TYPE_FLOAT32,
    .statistics = NG_TYPE_FLOAT32,
    .variance = NG_TWO_PASS,
    .form = NG_CENTRED,
    .group_sum = nullptr,
    .across_groups = nullptr,
    .rsqrt_ulp = 0,
    .subnormals = NG_SUBNORMALS_KEPT,
    .saved_use = NG_USE_UNDECLARED,
    .promises = NG_ROW_INDEPENDENT | NG_DIVIDES_BY_N,
};

// Backward, every implementation forms x - mean, r = 1 / sqrt(variance + eps) with a correctly rounded square root and
// division, and dx = r * gamma * (dy - sum(dy) / n - (x - mean) * sum(dy * (x - mean)) * r * r / n), layer
// normalization with gamma inside the sums: the declared use is the short one, from the statistics as they are handed.
// The products are associated differently, and what is summed over a sample's positions, or in one thread, may be
// multiplied by r before it is added to the rest. Sums are float32 in every order, over rows and threads too:
// sequential, as above.
constexpr ng_claim backward_claim = [] {
  ng_claim made = claim;
  made.saved_use = NG_USE_SHORT;
  return made;
}();

ng_kernel make_kernel(const char* name, const char* source, std::int32_t variant) {
  ng_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = name;
  kernel.source = source;
  kernel.variant = variant;
  kernel.convention_count = 1;
  kernel.convention = convention_at;
  kernel.supports = supports;
  kernel.prepare = prepare;
  kernel.workspace = workspace;
  kernel.run = run;
  kernel.release = release;
  return kernel;
}

// In place, both ways: "General Notes" of both primitives in oneDNN's developer guide.
ng_kernel make_forward(const char* name, const char* source, std::int32_t variant, std::uint64_t given_roles) {
  ng_kernel kernel = make_kernel(name, source, variant);
  kernel.phases = 1U << NG_FORWARD_TRAINING | 1U << NG_FORWARD_INFERENCE;
  kernel.supported_roles[NG_FORWARD_TRAINING] = affine_roles | saved_roles;
  kernel.supported_roles[NG_FORWARD_INFERENCE] = affine_roles | given_roles;
  kernel.required_roles[NG_FORWARD_INFERENCE] = given_roles;
  kernel.claim = &claim;
  kernel.layouts = NG_LAYOUT_CHANNELS_LAST | NG_LAYOUT_PADDED;
  kernel.in_place = NG_IN_PLACE_Y;
  return kernel;
}

ng_kernel make_backward(const char* name, const char* source, std::int32_t variant, std::uint64_t given_roles) {
  ng_kernel kernel = make_kernel(name, source, variant);
  kernel.forward = variant == NG_BATCH_NORM ? "onednn/batch_norm" : "onednn/layer_norm";
  kernel.phases = 1U << NG_BACKWARD_TRAINING | 1U << NG_BACKWARD_INFERENCE;
  for (const auto& [phase, statistics] :
       {std::pair{NG_BACKWARD_TRAINING, saved_roles}, std::pair{NG_BACKWARD_INFERENCE, given_roles}}) {
    kernel.supported_roles[phase] = affine_roles | affine_gradient_roles | statistics;
    kernel.required_roles[phase] = statistics;
  }
  kernel.claim = &backward_claim;
  kernel.layouts = NG_LAYOUT_CHANNELS_LAST | NG_LAYOUT_PADDED;
  kernel.in_place = NG_IN_PLACE_DX;
  kernel.supports = supports_one_layout;
  return kernel;
}

// The same primitives once more, with the claim that data and gradients may be in different formats; dy and dx still
// share one. Apart, since what is refused for their sake would leave little of the comparison of layouts above.
ng_kernel make_mixed_backward(const char* name, const char* source, std::int32_t variant, std::uint64_t given_roles) {
  ng_kernel kernel = make_backward(name, source, variant, given_roles);
  kernel.layouts = NG_LAYOUT_CHANNELS_LAST | NG_LAYOUT_MIXED;
  kernel.supports = supports;
  return kernel;
}

#define LINE_TEXT_OF(line) #line
#define LINE_TEXT(line) LINE_TEXT_OF(line)
#define HERE "kernels/peers/onednn/plugin.cpp:" LINE_TEXT(__LINE__)

const ng_kernel* kernel_at(std::int32_t index) {
  static const std::array<ng_kernel, 6> kernels{
      make_forward("onednn/batch_norm", HERE, NG_BATCH_NORM, running_roles),
      make_forward("onednn/layer_norm", HERE, NG_LAYER_NORM, saved_roles),
      make_backward("onednn/batch_norm_backward", HERE, NG_BATCH_NORM, running_roles),
      make_backward("onednn/layer_norm_backward", HERE, NG_LAYER_NORM, saved_roles),
      make_mixed_backward("onednn/batch_norm_backward_mixed", HERE, NG_BATCH_NORM, running_roles),
      make_mixed_backward("onednn/layer_norm_backward_mixed", HERE, NG_LAYER_NORM, saved_roles),
  };
  return &kernels[static_cast<std::size_t>(index)];
}

constexpr std::array<ng_target, 4> targets{{
    {sizeof(ng_target), "sse41", "ONEDNN_MAX_CPU_ISA=SSE41", "sse4_1"},
    {sizeof(ng_target), "avx", "ONEDNN_MAX_CPU_ISA=AVX", "avx"},
    {sizeof(ng_target), "avx2", "ONEDNN_MAX_CPU_ISA=AVX2", "avx2 fma"},
    {sizeof(ng_target), "avx512_core", "ONEDNN_MAX_CPU_ISA=AVX512_CORE", "avx512f avx512bw avx512vl avx512dq"},
}};

const ng_target* target_at(std::int32_t index) { return &targets[static_cast<std::size_t>(index)]; }

}  // namespace

const ng_plugin* normgate_plugin_v1(std::size_t /*host_struct_size*/) {
  // Of the library that is loaded, not of the header that this was compiled with.
  static const std::string version = [] {
    const dnnl_version_t* loaded = dnnl_version();
    return std::to_string(loaded->major) + "." + std::to_string(loaded->minor) + "." + std::to_string(loaded->patch);
  }();
  static const ng_plugin plugin{
      .struct_size = sizeof(ng_plugin),
      .abi_version = NG_ABI_VERSION,
      .kernel_count = 6,
      .name = "onednn",
      .version = version.c_str(),
      .kernel = kernel_at,
      .target_count = static_cast<std::int32_t>(targets.size()),
      .reserved = 0,
      .target = target_at,
  };
  return &plugin;
}
