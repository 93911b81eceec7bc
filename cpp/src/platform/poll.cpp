#include "platform/poll.hpp"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <ctime>

namespace overlimit::platform {

#if defined(__linux__) && !defined(OVERLIMIT_PORTABLE)

int poll(pollfd& polled, std::chrono::nanoseconds longest) noexcept {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec time{static_cast<std::time_t>(longest.count() / kSecond),
                      static_cast<long>(longest.count() % kSecond)};
  return ::ppoll(&polled, 1, &time, nullptr);
}

#else

int poll(pollfd& polled, std::chrono::nanoseconds longest) noexcept {
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(longest).count();
  return ::poll(&polled, 1, static_cast<int>(std::min<std::int64_t>(milliseconds, INT_MAX)));
}

#endif

}  // namespace overlimit::platform
