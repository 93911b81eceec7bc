// The descriptors of one process's connections, readable in a child right after fork().
#pragma once

#include <sys/types.h>

#include <atomic>

namespace overlimit::redis::transport {

/// A list without locks, since another thread may be changing it at the moment of the fork. Its entries
/// are reused and freed with the list. Thread-safe.
class OpenDescriptors {
 public:
  class Entry {
    friend class OpenDescriptors;
    std::atomic<int> fd{kNone};
    ino_t inode = 0;  // of the socket; meant only while fd is one
    Entry* next = nullptr;
  };

  OpenDescriptors() = default;
  OpenDescriptors(const OpenDescriptors&) = delete;
  OpenDescriptors& operator=(const OpenDescriptors&) = delete;
  ~OpenDescriptors();

  /// Lists an open descriptor. The entry is valid until it is removed.
  [[nodiscard]] Entry* add(int fd);
  /// To be called before the descriptor is closed: its number may be another file's right after.
  static void remove(Entry* entry) noexcept { entry->fd.store(kNone); }

  /// In a child: closes its copies of all descriptors, which leaves the parent's connections undisturbed.
  /// A number that means another file by now, as after a daemon closed all it inherited, is left alone.
  void close_all() noexcept;

 private:
  static constexpr int kNone = -1;
  static constexpr int kReserved = -2;

  [[nodiscard]] Entry* reserve();

  std::atomic<Entry*> first_{nullptr};
};

}  // namespace overlimit::redis::transport
