// An event loop of a test: fibers, and what drives them.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <optional>

#include "../descriptors.hpp"
#include "overlimit/fibers.hpp"

namespace overlimit::testing {

/// Goes on until a condition holds; false if it does not for half a minute.
inline bool run_until(Fibers& fibers, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    if (fibers.has_yielded() || becomes_readable(fibers.fd(), 1000)) fibers.run();
  }
  return true;
}

/// Runs so many fibers at once, and returns when all are done. They throw nothing.
inline void in_fibers(Fibers& fibers, int count, const std::function<void(int)>& body) {
  int done = 0;
  for (int i = 0; i < count; ++i) {
    fibers.start([&, i] {
      body(i);
      ++done;
    });
  }
  if (!run_until(fibers, [&] { return done == count; })) std::terminate();  // what they use is gone soon
}

/// Runs an action as a fiber, and returns or throws what it does.
template <class Action>
auto on_fiber(Fibers& fibers, const Action& action) {
  std::optional<decltype(action())> result;
  std::exception_ptr failure;
  in_fibers(fibers, 1, [&](int) {
    try {
      result.emplace(action());
    } catch (...) {
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
  return std::move(*result);
}

}  // namespace overlimit::testing
