#include "redis/transport/open_descriptors.hpp"

#include <pthread.h>
#include <unistd.h>

#include <memory>
#include <new>

namespace overlimit::redis::transport {
namespace {

// Never destroyed: connections may be closed while the process ends.
OpenDescriptors& list_of_process() {
  static auto& list = *new OpenDescriptors();
  return list;
}

void close_in_child() { list_of_process().close_all(); }

bool close_in_children() {
  (void)list_of_process();
  if (::pthread_atfork(nullptr, nullptr, close_in_child) != 0) throw std::bad_alloc();
  return true;
}

}  // namespace

OpenDescriptors::~OpenDescriptors() {
  for (Entry* entry = first_.load(); entry != nullptr;) {
    const std::unique_ptr<Entry> owner(entry);
    entry = entry->next;
  }
}

OpenDescriptors::Entry* OpenDescriptors::add(int fd) {
  Entry* entry = reserve();
  entry->fd.store(fd);
  return entry;
}

OpenDescriptors::Entry* OpenDescriptors::reserve() {
  for (Entry* entry = first_.load(); entry != nullptr; entry = entry->next) {
    int none = kNone;
    if (entry->fd.compare_exchange_strong(none, kReserved)) return entry;
  }
  auto entry = std::make_unique<Entry>();
  entry->fd.store(kReserved);
  entry->next = first_.load();
  while (!first_.compare_exchange_weak(entry->next, entry.get())) {
  }
  return entry.release();
}

void OpenDescriptors::close_all() noexcept {
  for (Entry* entry = first_.load(); entry != nullptr; entry = entry->next) {
    const int fd = entry->fd.exchange(kNone);
    if (fd >= 0) ::close(fd);
  }
}

OpenDescriptors& open_descriptors() {
  [[maybe_unused]] static const bool registered = close_in_children();
  return list_of_process();
}

}  // namespace overlimit::redis::transport
