#include "redis/transport/pause.hpp"

#include <chrono>
#include <cstdint>

#include "overlimit/errors.hpp"
#include "overlimit/forks.hpp"

namespace overlimit::redis::transport {

void heed_signal(const Interrupted& interrupted) {
  if (!interrupted) return;
  const std::uint64_t generation = fork_generation();
  const bool ends = interrupted();
  if (generation != fork_generation()) {
    throw StoreUnavailable("the process forked during a call to redis; its parent goes on with that call",
                           true);
  }
  if (ends) throw WaitInterrupted();
}

bool await(int fd, short events, const Deadline& deadline, const Interrupted& interrupted) {
  for (;;) {
    const Woken woken = wait_for(fd, events, deadline);
    if (woken != Woken::by_signal) return woken == Woken::by_event;
    heed_signal(interrupted);
  }
}

void pause(Deadline::Clock::duration duration, const Interrupted& interrupted) {
  (void)await(-1, 0, Deadline(Deadline::Clock::now() + duration), interrupted);
}

}  // namespace overlimit::redis::transport
