// How much a test does that tries one thing many times.
#pragma once

namespace overlimit::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// So many in plain builds, and a quarter under the sanitizers, where each costs many times as much.
constexpr int examples(int count) { return kSanitized ? count / 4 : count; }

}  // namespace overlimit::testing
