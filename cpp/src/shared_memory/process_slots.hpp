// Which processes have a shared file open, and which of them live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shared_memory/layout.hpp"
#include "table/shard_mutex.hpp"

namespace overlimit::shared_memory {

/// This process's slot in a file, held by a lock on the slot's byte that belongs to the descriptor (an "open
/// file description lock"): the kernel releases it when the process ends, however it ends, and not when the
/// process closes another descriptor of the file. Processes are not told apart by their numbers: in
/// containers that share the file, several may have the same.
class ProcessSlots final : public table::Holders {
 public:
  /// Takes a slot. Throws StoreConfigError when all are taken.
  ProcessSlots(int fd, std::span<ProcessSlot> slots);
  /// Leaves the slot, but in a child: there it is the parent's.
  ~ProcessSlots() override;
  ProcessSlots(const ProcessSlots&) = delete;
  ProcessSlots& operator=(const ProcessSlots&) = delete;

  [[nodiscard]] bool has_ended(std::uint32_t holder) const override;
  /// How many slots are used, and how many of them by a process that lives.
  [[nodiscard]] std::size_t attached() const;
  [[nodiscard]] std::size_t alive() const;

 private:
  [[nodiscard]] bool is_alive(std::size_t slot) const;
  bool try_to_take(std::size_t slot);

  int fd_;
  std::span<ProcessSlot> slots_;
  std::size_t slot_ = 0;
  std::uint64_t fork_generation_;
};

}  // namespace overlimit::shared_memory
