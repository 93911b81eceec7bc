// The descriptors of this process, which a forked child closes at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "overlimit/forks.hpp"

namespace overlimit::redis::transport {

/// A list without locks, since a child must be able to read it. Its entries are reused and never freed.
/// Thread-safe.
class OpenDescriptors {
 public:
  class Entry {
    friend class OpenDescriptors;
    std::atomic<int> fd{kNone};
    Entry* next = nullptr;
  };

  constexpr OpenDescriptors() = default;
  OpenDescriptors(const OpenDescriptors&) = delete;
  OpenDescriptors& operator=(const OpenDescriptors&) = delete;

  /// Lists an open descriptor, with no fork() between its opening and this (OutsideForks). The entry is valid
  /// until it is removed.
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

/// The list of this process; never destroyed, as connections may be closed while the process ends.
[[nodiscard]] OpenDescriptors& open_descriptors() noexcept;

/// A descriptor that a forked child does not keep. Closed with close(2) alone, which leaves a copy in another
/// process undisturbed, and only in the process that opened it. Move-only.
class OwnDescriptor {
 public:
  OwnDescriptor() noexcept = default;
  /// What `open` returns: a descriptor, or a negative number, which errno explains.
  template <class Open>
  [[nodiscard]] static OwnDescriptor opened(const Open& open) {
    const OutsideForks outside;
    auto descriptor = OwnDescriptor();
    descriptor.fd_ = open();
    if (descriptor.fd_ >= 0) descriptor.entry_ = open_descriptors().add(descriptor.fd_);
    return descriptor;
  }
  OwnDescriptor(OwnDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), entry_(other.entry_), generation_(other.generation_) {}
  OwnDescriptor& operator=(OwnDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(entry_, other.entry_);
    std::swap(generation_, other.generation_);
    return *this;
  }
  OwnDescriptor(const OwnDescriptor&) = delete;
  OwnDescriptor& operator=(const OwnDescriptor&) = delete;
  ~OwnDescriptor();

  /// Negative when there is none.
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  int fd_ = -1;
  OpenDescriptors::Entry* entry_ = nullptr;
  std::uint64_t generation_ = fork_generation();
};

}  // namespace overlimit::redis::transport
