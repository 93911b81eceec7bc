#include "redis/transport/per_process.hpp"

#include <unistd.h>
#include <mutex>

namespace overlimit::redis::transport {
namespace {

/// The descriptors that are open. Locked inside OutsideForks only, so that a child finds the mutex free.
struct OpenDescriptors {
  std::mutex mutex;
  std::vector<int> fds;
};

/// Never destroyed, as connections may be closed while the process ends.
OpenDescriptors& list_of_process = *new OpenDescriptors;

/// Leaves the parent's connections undisturbed, and allocates nothing.
void close_in_child() noexcept {
  const std::lock_guard lock(list_of_process.mutex);
  for (const int fd : list_of_process.fds) ::close(fd);
  list_of_process.fds.clear();
}

/// Runs as the library is loaded, when no other thread can be forking.
[[maybe_unused]] const bool kIsClosedInChildren =
    (call_in_children(close_in_child), true);  // NOLINT(cert-err58-cpp): without it nothing works

}  // namespace

void OwnDescriptor::list() const {
  const std::lock_guard lock(list_of_process.mutex);
  list_of_process.fds.push_back(fd_);
}

OwnDescriptor::~OwnDescriptor() {
  if (fd_ < 0 || generation_ != fork_generation()) return;
  const OutsideForks outside;
  const std::lock_guard lock(list_of_process.mutex);
  std::erase(list_of_process.fds, fd_);
  ::close(fd_);
}

}  // namespace overlimit::redis::transport
