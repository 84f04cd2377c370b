// Prints how the network learns with batch norm and without: train [PLUGIN KERNEL [SEED]].
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "tests/training/network.hpp"

namespace {

namespace training = normgate::training;

void show(const char* title, const ng_kernel* kernel, std::uint64_t seed, const training::Data& data) {
  std::printf("%s\nepoch    loss  training  validation\n", title);
  training::Network network(kernel, seed);
  for (std::uint64_t epoch = 1; epoch <= 10; ++epoch) {
    const training::Epoch learned = network.train(data.training, epoch);
    std::printf("%5d  %6.3f  %8.3f  %10.3f\n", static_cast<int>(epoch), learned.loss, learned.training,
                training::accuracy(network, data.validation));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string path = argc > 2 ? argv[1] : TRAINING_SIMD;
    const std::string name = argc > 2 ? argv[2] : "simd/batch_norm";
    const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
    const training::Data data = training::read_data(TRAINING_DATA, 8192, 2000);
    const training::Plugin plugin(path);
    show("without normalization", nullptr, seed, data);
    show(("with " + name).c_str(), &plugin.kernel(name), seed, data);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 1;
  }
}
