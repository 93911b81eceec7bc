// Sleeping until a word in memory changes, which several processes may share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace overlimit::platform {

/// Sleeps while the word is `seen`, for this long at most. May end without a reason.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::nanoseconds longest) noexcept;
/// To be called after the word was changed: ends the sleep of one of those who sleep, if there are any.
void wake_one(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace overlimit::platform
