// A batch norm kernel of a plugin, called as a framework would call it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/abi/normgate.h"

namespace normgate::training {

// A kernel of a loaded plugin. Throws std::runtime_error if plugin or kernel cannot be had.
class Kernel {
 public:
  Kernel(const std::string& plugin, const std::string& name);
  // One call with prepare, workspace and release; throws if the kernel does not return NG_OK.
  void run(ng_call& call) const;

 private:
  std::shared_ptr<void> library_;
  const ng_kernel* kernel_ = nullptr;
};

// A layer that normalizes each of `features` over a batch. Activations are batch × features, row-major.
class BatchNorm {
 public:
  BatchNorm(std::shared_ptr<const Kernel> kernel, int features);

  void train(const float* x, float* y, int batch);
  // By the running statistics.
  void evaluate(const float* x, float* y, int batch);
  // Of the last train(), whose x this is. dx may be dy's neighbour, never dy.
  void backward(const float* x, const float* dy, float* dx, int batch);
  void step(float rate);

  // What a checkpoint has to keep.
  struct State {
    std::vector<float> gamma, beta, running_mean, running_var;
  };
  State state;

 private:
  void call(int phase, int batch, const std::vector<std::pair<int, float*>>& rows,
            const std::vector<std::pair<int, std::vector<float>*>>& channels);
  std::shared_ptr<const Kernel> kernel_;
  int features_;
  std::int64_t steps_ = 0;
  std::vector<float> mean_, rstd_, dgamma_, dbeta_;
};

}  // namespace normgate::training
