// Sleeping and waking across processes, see protocol.hpp.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "kernels/runner/protocol.hpp"

namespace normgate::runner {

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t nanoseconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(nanoseconds / 1'000'000'000);
  time.tv_nsec = static_cast<long>(nanoseconds % 1'000'000'000);
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, value, nanoseconds < 0 ? nullptr : &time,
          nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool spin_until_changed(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  constexpr int rounds = 1000;  // some 20 to 40 µs
  for (int i = 0; i < rounds; ++i) {
    if (word.load(std::memory_order_acquire) != value) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  return false;
}

}  // namespace normgate::runner
