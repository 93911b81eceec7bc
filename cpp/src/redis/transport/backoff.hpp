// How long to wait before asking a server again that could not serve.
#pragma once

#include <chrono>

#include "redis/transport/deadline.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// Of one call. Each pause is drawn from zero to a bound that doubles, so that callers who failed together
/// don't come back together (full jitter).
class Backoff {
 public:
  /// False, at once, when the pause would outlast the deadline. Throws as pause() does.
  [[nodiscard]] bool pause(const Deadline& deadline, const Interrupted& interrupted);

 private:
  static constexpr std::chrono::microseconds kLeastBound{2'000};
  static constexpr std::chrono::microseconds kMostBound{100'000};

  std::chrono::microseconds bound_ = kLeastBound;
};

/// At random, evenly, from zero to `most`.
[[nodiscard]] std::chrono::microseconds jittered(std::chrono::microseconds most);

}  // namespace overlimit::redis::transport
