#include "tests/training/data.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>

namespace normgate::training {

namespace {

constexpr std::size_t side = 28;

// A file of type idx: a magic number, extents (big-endian words), bytes.
class Idx {
 public:
  explicit Idx(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (file_ == nullptr) fail("cannot be opened (Debian: dataset-fashion-mnist)");
  }
  void expect(std::uint32_t wanted) {
    if (word() != wanted) fail("is not the file that it should be");
  }
  std::uint32_t word() {
    std::array<std::uint8_t, 4> b{};
    read(b.data(), b.size());
    return std::uint32_t{b[0]} << 24U | std::uint32_t{b[1]} << 16U | std::uint32_t{b[2]} << 8U | std::uint32_t{b[3]};
  }
  void read(std::uint8_t* bytes, std::size_t count) {
    if (gzread(file_.get(), bytes, static_cast<unsigned>(count)) != static_cast<int>(count)) fail("ends too early");
  }
  [[noreturn]] void fail(const char* reason) const { throw std::runtime_error(path_ + ' ' + reason); }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

Examples read_examples(const std::string& stem, std::size_t count) {
  Examples examples;
  Idx images(stem + "-images-idx3-ubyte.gz");
  images.expect(0x803);
  if (images.word() < count) images.fail("has too few images");
  images.expect(side);
  images.expect(side);
  std::array<std::uint8_t, side * side> image{};
  examples.pixels.reserve(count * Examples::features);
  for (std::size_t i = 0; i < count; ++i) {
    images.read(image.data(), image.size());
    for (std::size_t row = 0; row < side; row += 2)
      for (std::size_t column = 0; column < side; column += 2) {
        const std::uint8_t* corner = &image[row * side + column];
        const int sum = corner[0] + corner[1] + corner[side] + corner[side + 1];
        examples.pixels.push_back(static_cast<float>(sum) / (4 * 255));
      }
  }

  Idx labels(stem + "-labels-idx1-ubyte.gz");
  labels.expect(0x801);
  if (labels.word() < count) labels.fail("has too few labels");
  std::vector<std::uint8_t> bytes(count);
  labels.read(bytes.data(), bytes.size());
  for (const std::uint8_t label : bytes) {
    if (label >= Examples::classes) labels.fail("has an eleventh class");
    examples.labels.push_back(label);
  }
  return examples;
}

}  // namespace

double Examples::largest_share() const {
  std::array<int, classes> members{};
  for (const int label : labels) ++members[static_cast<std::size_t>(label)];
  return *std::max_element(members.begin(), members.end()) / static_cast<double>(count());
}

Data read_data(const std::string& folder, std::size_t training, std::size_t validation) {
  return {read_examples(folder + "/train", training), read_examples(folder + "/t10k", validation)};
}

}  // namespace normgate::training
