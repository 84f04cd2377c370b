// Prints how a network learns without normalization and with that of a gated kernel.
#include <fmt/format.h>

#include "tests/training/network.hpp"

int main() {
  using namespace normgate::training;
  constexpr std::uint64_t key = 1;
  const auto show = [&](const char* title, std::shared_ptr<const Kernel> kernel) {
    Network network(key, std::move(kernel));
    fmt::print("{}\nepoch   loss  training  validation\n", title);
    int number = 0;
    for (const Epoch& epoch : train(network, key, Settings{}))
      fmt::print("{:5}  {:.3f}  {:8.3f}  {:10.3f}\n", ++number, epoch.loss, epoch.training_accuracy,
                 epoch.validation_accuracy);
    fmt::print("\n");
  };
  show("without normalization", nullptr);
  show("with simd/batch_norm", std::make_shared<Kernel>(NORMGATE_PLUGINS "/normgate_simd.so", "simd/batch_norm"));
}
