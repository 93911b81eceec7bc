#include "redis/transport/open_descriptors.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <memory>

namespace overlimit::redis::transport {
namespace {

/// 0 for what is not a socket.
ino_t inode_of(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
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
  entry->inode = inode_of(fd);
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
    if (fd >= 0 && inode_of(fd) == entry->inode) ::close(fd);
  }
}

}  // namespace overlimit::redis::transport
