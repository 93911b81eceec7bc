// Which processes have a shared file open, and which of them live.
#pragma once

#include <span>

#include "shared_memory/shared_file.hpp"
#include "table/shard_mutex.hpp"

namespace overlimit::shared_memory {

/// This process's slot in a file, held by an open file description lock on its byte, which the kernel
/// releases when the process ends, and not when it closes another descriptor (docs/architecture.md).
class ProcessSlots final : public table::Holders, NonCopyable {
 public:
  /// Takes a slot. Throws StoreConfigError when all are taken.
  ProcessSlots(int fd, std::span<ProcessSlot> slots);
  /// Leaves the slot, but in a child: there it is the parent's.
  ~ProcessSlots() override;
  [[nodiscard]] bool has_ended(std::uint32_t holder) const override;
  [[nodiscard]] bool is_attached(std::size_t slot) const;
  [[nodiscard]] std::size_t attached() const;
  [[nodiscard]] std::size_t alive() const;

 private:
  [[nodiscard]] bool is_alive(std::size_t slot) const;
  bool try_to_take(std::size_t slot);

  int fd_;
  FileId file_;
  std::span<ProcessSlot> slots_;
  std::size_t slot_ = 0;
  std::uint64_t fork_generation_;
};

}  // namespace overlimit::shared_memory
