// How many forks this process is away from the one that loaded the library.
#pragma once

#include <cstdint>

namespace overlimit::redis::transport {

/// Starts counting; called before anything that a fork must not share is made. Idempotent, thread-safe.
/// Throws std::bad_alloc.
void watch_forks();

/// Another number in a child than in its parent. A relaxed load: cheap enough for every call.
[[nodiscard]] std::uint64_t fork_generation() noexcept;

}  // namespace overlimit::redis::transport
