// Witnesses that nobody here made: the node tests of ONNX, as Debian's libonnx-testdata carries them. Their outputs are
// float32 results of numpy (pairwise sums, two passes), so each must lie within the bound of a sequential float32
// two-pass computation, which is the claim of zeros; a formula or a convention that differs is far outside.
//
// To add an operator: a case in problem_of_node(), and its least number of vectors in the table at the end.
#include <gtest/gtest.h>

#ifdef NORMGATE_ONNX_TESTDATA

#include <onnx/onnx_pb.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "reference/bounds/forward.hpp"
#include "support.hpp"

namespace normgate {
namespace {

namespace files = std::filesystem;

struct Tensor {
  std::vector<std::int64_t> dims;
  std::vector<float> values;
};

std::optional<Tensor> read_tensor(const files::path& path) {
  std::ifstream file(path, std::ios::binary);
  onnx::TensorProto proto;
  if (!file || !proto.ParseFromIstream(&file) || proto.data_type() != onnx::TensorProto::FLOAT) return std::nullopt;
  Tensor tensor;
  std::size_t count = 1;
  for (const auto dim : proto.dims()) {
    tensor.dims.push_back(dim);
    count *= static_cast<std::size_t>(dim);
  }
  if (!proto.raw_data().empty()) {
    if (proto.raw_data().size() != count * sizeof(float)) return std::nullopt;
    tensor.values.resize(count);
    std::memcpy(tensor.values.data(), proto.raw_data().data(), proto.raw_data().size());
  } else {
    tensor.values.assign(proto.float_data().begin(), proto.float_data().end());
    if (tensor.values.size() != count) return std::nullopt;
  }
  return tensor;
}

std::vector<Tensor> read_tensors(const files::path& folder, const std::string& prefix, int count) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < count; ++i) {
    const files::path path = folder / (prefix + std::to_string(i) + ".pb");
    auto tensor = read_tensor(path);
    if (!tensor) {
      ADD_FAILURE() << path << " is no float32 tensor.";
      return {};
    }
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

// What a node and its first input say, and which role each tensor of the node has.
struct Reading {
  Problem problem;
  std::vector<Role> inputs;
  std::vector<Role> outputs;
};

std::int64_t product(const std::vector<std::int64_t>& dims, std::size_t from, std::size_t to) {
  std::int64_t result = 1;
  for (std::size_t i = from; i < to; ++i) result *= dims[i];
  return result;
}

// docs/Operators.md: BatchNormalization-15, InstanceNormalization-6, LayerNormalization-17, with their defaults.
std::optional<Reading> problem_of_node(const onnx::NodeProto& node, const std::vector<std::int64_t>& dims) {
  float epsilon = 1e-5F;
  float momentum = 0.9F;
  std::int64_t axis = -1;
  bool training = false;
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == "epsilon") epsilon = attribute.f();
    if (attribute.name() == "momentum") momentum = attribute.f();
    if (attribute.name() == "axis") axis = attribute.i();
    if (attribute.name() == "training_mode") training = attribute.i() != 0;
  }
  Reading reading;
  Problem& problem = reading.problem;
  problem.convention = *parse_convention("onnx").convention;
  problem.eps = static_cast<double>(epsilon);
  problem.momentum = static_cast<double>(momentum);
  const std::size_t rank = dims.size();
  if (node.op_type() == "LayerNormalization") {
    const auto first = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
    problem.variant = Variant::layer_norm;
    problem.shape = {product(dims, 0, first), 1, product(dims, first, rank), 1};
    problem.saved = true;
    reading.inputs = {Role::x, Role::gamma, Role::beta};
    reading.outputs = {Role::y, Role::mean, Role::stat};
    return reading;
  }
  problem.shape = {dims[0], 1, dims[1], product(dims, 2, rank)};
  if (node.op_type() == "InstanceNormalization") {
    problem.variant = Variant::instance_norm;
    reading.inputs = {Role::x, Role::gamma, Role::beta};
    reading.outputs = {Role::y};
    return reading;
  }
  if (node.op_type() == "BatchNormalization") {
    problem.variant = Variant::batch_norm;
    reading.inputs = {Role::x, Role::gamma, Role::beta, Role::running_mean, Role::running_var};
    reading.outputs = {Role::y};
    if (training) {
      problem.running = true;
      reading.outputs = {Role::y, Role::running_mean, Role::running_var};
    } else {
      problem.phase = Phase::forward_inference;
      problem.given = Given::running;
    }
    return reading;
  }
  return std::nullopt;
}

// The largest share of a bound that the outputs of one vector use; every element is judged.
double compare(const std::string& name, const Reading& reading, const files::path& folder) {
  const auto inputs = read_tensors(folder, "input_", static_cast<int>(reading.inputs.size()));
  const auto outputs = read_tensors(folder, "output_", static_cast<int>(reading.outputs.size()));
  if (inputs.size() != reading.inputs.size() || outputs.size() != reading.outputs.size()) return 0;
  Problem problem = reading.problem;
  for (std::size_t i = 0; i < inputs.size(); ++i) problem.values[reading.inputs[i]] = inputs[i].values;
  EXPECT_EQ(check(problem), "") << name;
  const Inputs values = make_inputs(problem);
  const Truth truth = definition_forward(problem, values);
  const Bounds bounds = forward_bounds(problem, values, truth, Claim{});
  double share = 0;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const Role role = reading.outputs[o];
    const auto& exact = truth.out[role];
    EXPECT_EQ(exact.size(), outputs[o].values.size()) << name << " " << name_of(role);
    if (exact.size() != outputs[o].values.size()) continue;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double tolerance = bounds.tolerance[role][i];
      EXPECT_TRUE(std::isfinite(tolerance)) << name << " " << name_of(role) << " at " << i << " is not judged";
      const double error = distance(static_cast<double>(outputs[o].values[i]), exact[i]);
      EXPECT_LE(error, tolerance) << name << " " << name_of(role) << " at " << i << ": got " << outputs[o].values[i]
                                  << ", want " << exact[i].hi;
      if (tolerance > 0) share = std::max(share, error / tolerance);
    }
  }
  return share;
}

TEST(OnnxVectors, EveryForwardVectorLiesWithinTheBoundOfTwoPassesInFloat32) {
  const files::path root = files::path(NORMGATE_ONNX_TESTDATA) / "node";
  ASSERT_TRUE(files::is_directory(root))
      << root << " is not there any more; install Debian's package libonnx-testdata and configure again.";
  std::map<std::string, int> seen;
  std::map<std::string, double> worst;
  for (const auto& entry : files::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (name.find("norm") == std::string::npos) continue;
    std::ifstream file(entry.path() / "model.onnx", std::ios::binary);
    onnx::ModelProto model;
    ASSERT_TRUE(file && model.ParseFromIstream(&file)) << entry.path();
    // A model of several nodes ("…_expanded") repeats the data of the one with the operator itself.
    if (model.graph().node_size() != 1) continue;
    const files::path folder = entry.path() / "test_data_set_0";
    const auto x = read_tensor(folder / "input_0.pb");
    if (!x) continue;  // no float32: a string normalizer
    const auto reading = problem_of_node(model.graph().node(0), x->dims);
    if (!reading) continue;
    const std::string& operation = model.graph().node(0).op_type();
    ++seen[operation];
    worst[operation] = std::max(worst[operation], compare(name, *reading, folder));
  }
  // What Debian 12 carries. Fewer means that the reader lost some.
  EXPECT_GE(seen["BatchNormalization"], 4);
  EXPECT_GE(seen["InstanceNormalization"], 2);
  EXPECT_GE(seen["LayerNormalization"], 19);
  // Outputs without any error would be our own, not numpy's in float32.
  for (const auto& [operation, share] : worst) EXPECT_GT(share, 0.0) << operation;
  for (const auto& [operation, share] : worst)
    RecordProperty("worst_share_of_bound_" + operation, std::to_string(share));
}

// The vectors must tell conventions apart, or they witness nothing: each convention that differs in one field that a
// vector can show is outside the bound somewhere.
TEST(OnnxVectors, RefuteOtherConventions) {
  const files::path folder =
      files::path(NORMGATE_ONNX_TESTDATA) / "node" / "test_batchnorm_epsilon_training_mode" / "test_data_set_0";
  std::ifstream file(folder.parent_path() / "model.onnx", std::ios::binary);
  onnx::ModelProto model;
  ASSERT_TRUE(file && model.ParseFromIstream(&file));
  const auto x = read_tensor(folder / "input_0.pb");
  ASSERT_TRUE(x);
  const auto reading = problem_of_node(model.graph().node(0), x->dims);
  ASSERT_TRUE(reading);
  const auto inputs = read_tensors(folder, "input_", 5);
  const auto outputs = read_tensors(folder, "output_", 3);
  ASSERT_EQ(inputs.size(), 5U);
  ASSERT_EQ(outputs.size(), 3U);
  for (const std::string other : {"onnx,normalizing:n_minus_1", "onnx,stored:n_minus_1", "onnx,momentum:new_weight",
                                  "onnx,eps:outside", "onnx,eps:floor", "onnx,gamma:plus_one"}) {
    Problem problem = reading->problem;
    problem.convention = *parse_convention(other).convention;
    for (std::size_t i = 0; i < inputs.size(); ++i) problem.values[reading->inputs[i]] = inputs[i].values;
    const Inputs values = make_inputs(problem);
    const Truth truth = definition_forward(problem, values);
    const Bounds bounds = forward_bounds(problem, values, truth, Claim{});
    double share = 0;
    for (std::size_t o = 0; o < outputs.size(); ++o)
      for (std::size_t i = 0; i < outputs[o].values.size(); ++i) {
        const Role role = reading->outputs[o];
        share = std::max(
            share, distance(static_cast<double>(outputs[o].values[i]), truth.out[role][i]) / bounds.tolerance[role][i]);
      }
    EXPECT_GT(share, 1.0) << other;
  }
}

}  // namespace
}  // namespace normgate

#else

TEST(OnnxVectors, EveryForwardVectorLiesWithinTheBoundOfTwoPassesInFloat32) {
  FAIL() << "The vectors of ONNX or what reads them were not found when the build was configured; install Debian's "
            "packages libonnx-testdata, libonnx-dev and libprotobuf-dev and configure again.";
}

#endif
