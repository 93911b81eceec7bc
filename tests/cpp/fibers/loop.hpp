// An event loop of a test: fibers, and what drives them.
#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>

#include "../descriptors.hpp"
#include "overlimit/fibers.hpp"

namespace overlimit::testing {

/// Goes on until a condition holds; false if it does not for half a minute.
inline bool run_until(Fibers& fibers, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    if (becomes_readable(fibers.fd(), 1000)) fibers.run();
  }
  return true;
}

/// Runs an action as a fiber, and returns when it is done.
inline void run_on_fiber(Fibers& fibers, const std::function<void()>& action) {
  bool is_done = false;
  fibers.start([&] {
    action();
    is_done = true;
  });
  if (!run_until(fibers, [&] { return is_done; })) throw std::runtime_error("a fiber does not end");
}

}  // namespace overlimit::testing
