// How much a test does that tries one thing many times.
#pragma once

namespace overlimit::testing {

/// So many in plain builds, and a quarter under the sanitizers, where each costs many times as much.
constexpr int examples(int count) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return count / 4;
#else
  return count;
#endif
}

}  // namespace overlimit::testing
