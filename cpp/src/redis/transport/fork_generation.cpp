#include "redis/transport/fork_generation.hpp"

#include <pthread.h>

#include <atomic>
#include <new>

namespace overlimit::redis::transport {
namespace {

// A fact about the process, written only by the fork handler.
constinit std::atomic<std::uint64_t> generation{0};

void count_fork() { generation.fetch_add(1, std::memory_order_relaxed); }

bool register_handler() {
  if (::pthread_atfork(nullptr, nullptr, count_fork) != 0) throw std::bad_alloc();
  return true;
}

}  // namespace

void watch_forks() { [[maybe_unused]] static const bool registered = register_handler(); }

std::uint64_t fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

}  // namespace overlimit::redis::transport
