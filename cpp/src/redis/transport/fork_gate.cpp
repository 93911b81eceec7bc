#include "redis/transport/fork_gate.hpp"

#include <pthread.h>

#include <atomic>
#include <new>

namespace overlimit::redis::transport {
namespace {

// Facts about the process, as the count of forks is (fork_generation.cpp).
constinit std::atomic<int> inside{0};
constinit std::atomic<int> forks{0};  // under way
constinit thread_local int depth = 0;

void wait_for_none(std::atomic<int>& count) {
  for (int now = count.load(); now != 0; now = count.load()) count.wait(now);
}

void leave() {
  if (inside.fetch_sub(1) == 1) inside.notify_all();
}

void before_fork() {
  forks.fetch_add(1);
  wait_for_none(inside);
}

void after_fork_in_parent() {
  if (forks.fetch_sub(1) == 1) forks.notify_all();
}

/// Those who were about to come in, or to fork, are threads of the parent.
void after_fork_in_child() {
  inside.store(0);
  forks.store(0);
}

bool register_handlers() {
  if (::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) throw std::bad_alloc();
  return true;
}

}  // namespace

OutsideForks::OutsideForks() {
  [[maybe_unused]] static const bool registered = register_handlers();
  if (depth++ > 0) return;
  for (inside.fetch_add(1); forks.load() != 0; inside.fetch_add(1)) {
    leave();
    wait_for_none(forks);
  }
}

OutsideForks::~OutsideForks() {
  if (--depth == 0) leave();
}

}  // namespace overlimit::redis::transport
