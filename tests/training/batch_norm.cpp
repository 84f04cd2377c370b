#include "tests/training/batch_norm.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <new>
#include <stdexcept>

namespace normgate::training {

// ---- plugin --------------------------------------------------------------------------------------------------------

Plugin::Plugin(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) throw std::runtime_error(dlerror());
  void* symbol = dlsym(library_.get(), "normgate_plugin_v1");
  if (symbol == nullptr) throw std::runtime_error(path + " does not export normgate_plugin_v1");
  table_ = reinterpret_cast<const ng_plugin* (*)(std::size_t)>(symbol)(sizeof(ng_plugin));
  if (table_ == nullptr || table_->abi_version != NG_ABI_VERSION)
    throw std::runtime_error(path + " has another ABI version");
}

void Plugin::Close::operator()(void* library) const { dlclose(library); }

const ng_kernel& Plugin::kernel(const std::string& name) const {
  for (std::int32_t i = 0; i < table_->kernel_count; ++i)
    if (const ng_kernel* kernel = table_->kernel(i); kernel != nullptr && kernel->name == name) return *kernel;
  throw std::runtime_error("no kernel " + name);
}

// ---- plan ----------------------------------------------------------------------------------------------------------

namespace {

const ng_convention& convention_of(const ng_kernel& kernel) {
  static const ng_convention pytorch{sizeof(ng_convention), 0, 0, 0, 0, 0, 0, 0, 0, 0};
  return kernel.convention_count > 0 ? *kernel.convention(0) : pytorch;
}

struct Free {
  std::align_val_t alignment;
  void operator()(std::byte* bytes) const { ::operator delete(bytes, alignment); }
};

}  // namespace

// What stays from call to call; only the data and the step move.
class BatchNorm::Plan {
 public:
  Plan(const ng_kernel& kernel, ng_phase phase, std::size_t examples, std::size_t features, const Data& data)
      : kernel_(kernel), workspace_(nullptr, Free{std::align_val_t{1}}) {
    const auto width = static_cast<std::int64_t>(features);
    call_.struct_size = sizeof(ng_call);
    call_.variant = NG_BATCH_NORM;
    call_.phase = phase;
    call_.extent[NG_N] = static_cast<std::int64_t>(examples);
    call_.extent[NG_G] = 1;
    call_.extent[NG_K] = width;
    call_.extent[NG_S] = 1;
    call_.eps = static_cast<double>(1e-5F);  // the kernels compute in float32
    call_.momentum = static_cast<double>(0.1F);
    call_.convention = &convention_of(kernel);
    call_.text = text_.data();
    call_.text_size = text_.size();
    for (const auto& [role, values] : data) {
      const bool per_element = role == NG_X || role == NG_Y || role == NG_DY || role == NG_DX;
      tensors_[role] = {sizeof(ng_tensor), nullptr, NG_FLOAT32, 0, 0, 0, {0, width, 1, 0}};
      if (per_element) tensors_[role].stride[NG_N] = width;
      if (per_element) tensors_[role].stride[NG_S] = 1;
      call_.tensor[role] = &tensors_[role];
    }
    if (kernel.supports != nullptr && kernel.supports(&call_) == 0) fail("refuses");
    if (kernel.prepare != nullptr) check(kernel.prepare(&call_, &plan_));
    try {
      std::size_t bytes = 0;
      std::size_t alignment = 1;
      if (kernel.workspace != nullptr) check(kernel.workspace(plan_, &call_, &bytes, &alignment));
      const std::align_val_t aligned{std::max(alignment, alignof(std::max_align_t))};
      workspace_ = {static_cast<std::byte*>(::operator new(bytes, aligned)), Free{aligned}};
    } catch (...) {
      release();
      throw;
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { release(); }

  void run(std::int64_t step, const Data& data) {
    // The ABI has one pointer type for what is read and what is written.
    for (const auto& [role, values] : data) tensors_[role].data = const_cast<float*>(values);
    call_.step = step;
    check(kernel_.run(plan_, &call_, workspace_.get()));
  }

 private:
  void release() {
    if (kernel_.prepare != nullptr && kernel_.release != nullptr) kernel_.release(plan_);
  }
  void check(std::int32_t status) const {
    if (status != NG_OK) fail("returns status " + std::to_string(status));
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(std::string(kernel_.name) + ' ' + what + ": " + text_.data());
  }

  const ng_kernel& kernel_;
  ng_call call_{};
  std::array<ng_tensor, NG_ROLES> tensors_{};
  std::array<char, 256> text_{};
  void* plan_ = nullptr;
  std::unique_ptr<std::byte, Free> workspace_;
};

// ---- batch norm ----------------------------------------------------------------------------------------------------

BatchNorm::BatchNorm(const ng_kernel& kernel, std::size_t features)
    : gamma(features, 1),
      beta(features, 0),
      dgamma(features),
      dbeta(features),
      running_mean(features, 0),
      running_var(features, 1),
      kernel_(&kernel),
      mean_(features),
      stat_(features) {
  if (kernel.variant != NG_BATCH_NORM) throw std::runtime_error(std::string(kernel.name) + " is no batch norm");
  if (kernel.alignment > static_cast<std::int32_t>(alignof(float)) || kernel.over_read_bytes > 0)
    throw std::runtime_error(std::string(kernel.name) + " needs more of memory than std::vector promises");
}
BatchNorm::BatchNorm(BatchNorm&&) noexcept = default;
BatchNorm& BatchNorm::operator=(BatchNorm&&) noexcept = default;
BatchNorm::~BatchNorm() = default;

void BatchNorm::run(ng_phase phase, std::size_t examples, const Data& data) {
  std::unique_ptr<Plan>& plan = plans_[{phase, examples}];
  if (plan == nullptr) plan = std::make_unique<Plan>(*kernel_, phase, examples, gamma.size(), data);
  plan->run(step_, data);
}

void BatchNorm::forward_training(std::size_t examples, const float* x, float* y) {
  ++step_;
  run(NG_FORWARD_TRAINING, examples,
      {{NG_X, x},
       {NG_Y, y},
       {NG_GAMMA, gamma.data()},
       {NG_BETA, beta.data()},
       {NG_MEAN, mean_.data()},
       {NG_STAT, stat_.data()},
       {NG_RUNNING_MEAN, running_mean.data()},
       {NG_RUNNING_VAR, running_var.data()}});
}

void BatchNorm::forward_inference(std::size_t examples, const float* x, float* y) {
  run(NG_FORWARD_INFERENCE, examples,
      {{NG_X, x},
       {NG_Y, y},
       {NG_GAMMA, gamma.data()},
       {NG_BETA, beta.data()},
       {NG_RUNNING_MEAN, running_mean.data()},
       {NG_RUNNING_VAR, running_var.data()}});
}

void BatchNorm::backward(std::size_t examples, const float* x, const float* dy, float* dx) {
  run(NG_BACKWARD_TRAINING, examples,
      {{NG_X, x},
       {NG_DY, dy},
       {NG_GAMMA, gamma.data()},
       {NG_MEAN, mean_.data()},
       {NG_STAT, stat_.data()},
       {NG_DX, dx},
       {NG_DGAMMA, dgamma.data()},
       {NG_DBETA, dbeta.data()}});
}

}  // namespace normgate::training
