#include "platform/futex.hpp"

#if defined(__linux__) && !defined(OVERLIMIT_PORTABLE)

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace overlimit::platform {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::nanoseconds longest) noexcept {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec time{static_cast<std::time_t>(longest.count() / kSecond),
                      static_cast<long>(longest.count() % kSecond)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake_one(std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace overlimit::platform

#else

#include <algorithm>
#include <thread>

namespace overlimit::platform {

// POSIX has nothing that waits for a word of another process: a nap, after which the caller looks again.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::nanoseconds longest) noexcept {
  constexpr std::chrono::nanoseconds kNap = std::chrono::milliseconds(1);
  if (word.load(std::memory_order_relaxed) == seen) std::this_thread::sleep_for(std::min(longest, kNap));
}

void wake_one(std::atomic<std::uint32_t>& /*word*/) noexcept {}

}  // namespace overlimit::platform

#endif
