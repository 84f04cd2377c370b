#include "tests/training/batch_norm.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>

namespace normgate::training {

Kernel::Kernel(const std::string& plugin, const std::string& name) {
  library_ = std::shared_ptr<void>(::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL), [](void* library) {
    if (library != nullptr) ::dlclose(library);
  });
  if (library_ == nullptr) throw std::runtime_error(::dlerror());
  using Entry = const ng_plugin* (*)(std::size_t);
  const auto entry = reinterpret_cast<Entry>(::dlsym(library_.get(), "normgate_plugin_v1"));
  if (entry == nullptr) throw std::runtime_error(plugin + " has no normgate_plugin_v1");
  const ng_plugin* table = entry(sizeof(ng_plugin));
  for (std::int32_t i = 0; i < table->kernel_count; ++i)
    if (table->kernel(i)->name == name) kernel_ = table->kernel(i);
  if (kernel_ == nullptr) throw std::runtime_error(plugin + " has no kernel " + name);
}

void Kernel::run(ng_call& call) const {
  std::array<char, 256> text{};
  call.text = text.data();
  call.text_size = text.size();
  const auto demand = [&](bool held) {
    if (!held) throw std::runtime_error(std::string(kernel_->name) + " refused a call: " + text.data());
  };
  if (kernel_->supports != nullptr) demand(kernel_->supports(&call) == 1);
  void* plan = nullptr;
  if (kernel_->prepare != nullptr) demand(kernel_->prepare(&call, &plan) == NG_OK);
  std::size_t bytes = 0;
  std::size_t alignment = 1;
  if (kernel_->workspace != nullptr) demand(kernel_->workspace(plan, &call, &bytes, &alignment) == NG_OK);
  alignment = std::max(alignment, alignof(std::max_align_t));
  const std::unique_ptr<void, decltype(&std::free)> workspace(
      bytes > 0 ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment) : nullptr, &std::free);
  demand(kernel_->run(plan, &call, workspace.get()) == NG_OK);
  if (kernel_->release != nullptr) kernel_->release(plan);
}

BatchNorm::BatchNorm(std::shared_ptr<const Kernel> kernel, int features)
    : kernel_(std::move(kernel)), features_(features) {
  const auto count = static_cast<std::size_t>(features);
  state.gamma.assign(count, 1);
  state.beta.assign(count, 0);
  state.running_mean.assign(count, 0);
  state.running_var.assign(count, 1);
  for (std::vector<float>* vector : {&mean_, &rstd_, &dgamma_, &dbeta_}) vector->assign(count, 0);
}

// N is the batch, K the features.
void BatchNorm::call(int phase, int batch, const std::vector<std::pair<int, float*>>& rows,
                     const std::vector<std::pair<int, std::vector<float>*>>& channels) {
  ng_convention convention{};
  convention.struct_size = sizeof convention;
  std::array<ng_tensor, NG_ROLES> tensors{};
  ng_call call{};
  call.struct_size = sizeof call;
  call.variant = NG_BATCH_NORM;
  call.phase = phase;
  call.extent[NG_N] = batch;
  call.extent[NG_G] = 1;
  call.extent[NG_K] = features_;
  call.extent[NG_S] = 1;
  call.eps = static_cast<double>(1e-5F);
  call.momentum = static_cast<double>(0.1F);
  call.step = steps_;
  call.threads = 1;
  call.convention = &convention;
  const auto add = [&](int role, float* data, std::int64_t between_examples) {
    ng_tensor& tensor = tensors[static_cast<std::size_t>(role)];
    tensor.struct_size = sizeof tensor;
    tensor.data = data;
    tensor.stride[NG_N] = between_examples;
    tensor.stride[NG_G] = features_;
    tensor.stride[NG_K] = 1;
    tensor.stride[NG_S] = between_examples > 0 ? 1 : 0;
    call.tensor[role] = &tensor;
  };
  for (const auto& [role, data] : rows) add(role, data, features_);
  for (const auto& [role, data] : channels) add(role, data->data(), 0);
  kernel_->run(call);
}

void BatchNorm::train(const float* x, float* y, int batch) {
  ++steps_;
  call(NG_FORWARD_TRAINING, batch, {{NG_X, const_cast<float*>(x)}, {NG_Y, y}},
       {{NG_GAMMA, &state.gamma},
        {NG_BETA, &state.beta},
        {NG_MEAN, &mean_},
        {NG_STAT, &rstd_},
        {NG_RUNNING_MEAN, &state.running_mean},
        {NG_RUNNING_VAR, &state.running_var}});
}

void BatchNorm::evaluate(const float* x, float* y, int batch) {
  call(NG_FORWARD_INFERENCE, batch, {{NG_X, const_cast<float*>(x)}, {NG_Y, y}},
       {{NG_GAMMA, &state.gamma},
        {NG_BETA, &state.beta},
        {NG_RUNNING_MEAN, &state.running_mean},
        {NG_RUNNING_VAR, &state.running_var}});
}

void BatchNorm::backward(const float* x, const float* dy, float* dx, int batch) {
  call(NG_BACKWARD_TRAINING, batch,
       {{NG_X, const_cast<float*>(x)}, {NG_DY, const_cast<float*>(dy)}, {NG_DX, dx}},
       {{NG_GAMMA, &state.gamma}, {NG_MEAN, &mean_}, {NG_STAT, &rstd_}, {NG_DGAMMA, &dgamma_}, {NG_DBETA, &dbeta_}});
}

void BatchNorm::step(float rate) {
  for (std::size_t c = 0; c < state.gamma.size(); ++c) {
    state.gamma[c] -= rate * dgamma_[c];
    state.beta[c] -= rate * dbeta_[c];
  }
}

}  // namespace normgate::training
