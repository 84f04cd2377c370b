// A batch norm kernel behind the ABI, called as a training loop calls it: one plan per phase and batch size, statuses
// become exceptions. It runs in this process: the gate contains kernels, users do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/abi/normgate.h"

namespace normgate::training {

// Keeps the library open as long as it lives; so kernels must not outlive it.
class Plugin {
 public:
  explicit Plugin(const std::string& path);
  [[nodiscard]] const ng_kernel& kernel(const std::string& name) const;

 private:
  struct Close {
    void operator()(void* library) const;
  };
  std::unique_ptr<void, Close> library_;
  const ng_plugin* table_;
};

// Batch norm of `features` features: tensors [examples, features], densely, in the convention that the kernel lists
// first (PyTorch's).
class BatchNorm {
 public:
  BatchNorm(const ng_kernel& kernel, std::size_t features);
  BatchNorm(BatchNorm&&) noexcept;
  BatchNorm& operator=(BatchNorm&&) noexcept;
  ~BatchNorm();

  // Statistics of the batch; takes them into the running ones and keeps them for `backward`.
  void forward_training(std::size_t examples, const float* x, float* y);
  // The running statistics.
  void forward_inference(std::size_t examples, const float* x, float* y);
  // Of the last forward_training, which had the same x. Fills dgamma and dbeta.
  void backward(std::size_t examples, const float* x, const float* dy, float* dx);

  std::vector<float> gamma, beta, dgamma, dbeta, running_mean, running_var;

 private:
  class Plan;
  using Data = std::vector<std::pair<ng_role, const float*>>;
  void run(ng_phase phase, std::size_t examples, const Data& data);

  const ng_kernel* kernel_;
  std::vector<float> mean_, stat_;
  std::int64_t step_ = 0;
  std::map<std::pair<ng_phase, std::size_t>, std::unique_ptr<Plan>> plans_;
};

}  // namespace normgate::training
