// Threads of a test.
#pragma once

#include <cstddef>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

namespace overlimit::testing {

/// Runs a body in so many threads that start together, and waits for all.
inline void in_threads(std::ptrdiff_t count, const std::function<void(std::ptrdiff_t)>& body) {
  std::latch start(count);
  std::vector<std::thread> threads;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace overlimit::testing
