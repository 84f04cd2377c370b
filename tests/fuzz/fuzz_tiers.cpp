// libFuzzer's door to the tiers of the truth.
//
//   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_tiers
//   build/fuzz/tests/fuzz_tiers -max_len=600 -timeout=20 build/fuzz/found tests/fuzz/corpus
//
// A crash prints the line that `normgate prove` takes; its file, shrunk by -minimize_crash=1, belongs into corpus/.
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/tiers.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace normgate;
  const std::optional<proof::Trial> trial = fuzz::trial_of(bytes, size);
  if (!trial) return -1;
  if (const std::string complaint = fuzz::complaint_about(*trial); !complaint.empty()) {
    std::fprintf(stderr, "%s\n  normgate prove %s\n", complaint.c_str(), proof::print(*trial).c_str());
    std::abort();
  }
  return 0;
}
