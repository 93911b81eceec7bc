// The descriptors of this process's connections, which a forked child closes at once.
#pragma once

#include <atomic>

namespace overlimit::redis::transport {

/// A list without locks, since a child must be able to read it. Its entries are reused and freed with the
/// list. Thread-safe.
class OpenDescriptors {
 public:
  class Entry {
    friend class OpenDescriptors;
    std::atomic<int> fd{kNone};
    Entry* next = nullptr;
  };

  OpenDescriptors() = default;
  OpenDescriptors(const OpenDescriptors&) = delete;
  OpenDescriptors& operator=(const OpenDescriptors&) = delete;
  ~OpenDescriptors();

  /// Lists an open descriptor, with no fork() between its opening and this (fork_gate.hpp). The entry is
  /// valid until it is removed.
  [[nodiscard]] Entry* add(int fd);
  /// To be called before the descriptor is closed, with no fork() in between.
  static void remove(Entry* entry) noexcept { entry->fd.store(kNone); }

  /// In a child: closes its copies of all descriptors, which leaves the parent's connections undisturbed.
  void close_all() noexcept;

 private:
  static constexpr int kNone = -1;
  static constexpr int kReserved = -2;

  [[nodiscard]] Entry* reserve();

  std::atomic<Entry*> first_{nullptr};
};

/// The list of this process. Throws std::bad_alloc, the first time.
[[nodiscard]] OpenDescriptors& open_descriptors();

}  // namespace overlimit::redis::transport
