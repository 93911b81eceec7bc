#include "redis/transport/per_process.hpp"

#include <pthread.h>
#include <unistd.h>

#include <memory>
#include <new>

namespace overlimit::redis::transport {
namespace {

constinit OpenDescriptors list_of_process;

void close_in_child() { list_of_process.close_all(); }

bool close_in_children() {
  if (::pthread_atfork(nullptr, nullptr, close_in_child) != 0) throw std::bad_alloc();
  return true;
}

/// Runs as the library is loaded, when no other thread can be forking.
[[maybe_unused]] const bool kIsClosedInChildren = close_in_children();  // NOLINT(cert-err58-cpp)

}  // namespace

OpenDescriptors::Entry* OpenDescriptors::add(int fd) {
  Entry* entry = reserve();
  entry->fd_.store(fd);
  return entry;
}

OpenDescriptors::Entry* OpenDescriptors::reserve() {
  for (Entry* entry = first_.load(); entry != nullptr; entry = entry->next_) {
    int none = kNone;
    if (entry->fd_.compare_exchange_strong(none, kReserved)) return entry;
  }
  auto entry = std::make_unique<Entry>();
  entry->fd_.store(kReserved);
  entry->next_ = first_.load();
  while (!first_.compare_exchange_weak(entry->next_, entry.get())) {
  }
  return entry.release();
}

void OpenDescriptors::close_all() noexcept {
  for (Entry* entry = first_.load(); entry != nullptr; entry = entry->next_) {
    const int fd = entry->fd_.exchange(kNone);
    if (fd >= 0) ::close(fd);
  }
}

OpenDescriptors& open_descriptors() noexcept { return list_of_process; }

OwnDescriptor::~OwnDescriptor() {
  if (fd_ < 0 || generation_ != fork_generation()) return;
  const OutsideForks outside;
  OpenDescriptors::remove(entry_);
  ::close(fd_);
}

}  // namespace overlimit::redis::transport
