// The store in this process's memory: a table of bounded size, without a thread or a timer.
#pragma once

#ifndef OVERLIMIT_LINKS_MEMORY
#error "only targets that link overlimit_memory may include memory_store.hpp"
#endif

#include <cstdint>
#include <memory>

#include "overlimit/table_store.hpp"

namespace overlimit {

/// Bounded, and never admits more because it is full: past `max_keys` keys or `max_bytes` bytes, new keys
/// share overflow entries (one per policy and shard), which count what all of them spend; a key that is
/// tracked later starts as a copy of that. Policies without room even for that share common ones with those
/// of the very same numbers. Resetting an identifier leaves its overflow entry alone, and resetting a policy
/// the common ones.
class MemoryStore final : public TableStore {
 public:
  static constexpr std::size_t kMinBytes = 64 << 10;

  /// Reserves address space; pages become real as they are used. Throws std::invalid_argument for max_keys of
  /// 0 or max_bytes outside [kMinBytes, kMaxBytes], and OutOfMemory when the system refuses.
  explicit MemoryStore(std::size_t max_keys = 1'000'000, std::size_t max_bytes = std::size_t{256} << 20);
  ~MemoryStore() override;
  [[nodiscard]] bool is_shared() const override { return false; }
  [[nodiscard]] bool waits() const override { return false; }
  /// Forgets everything of all policies in one step, overflow entries too; what it has counted of calls
  /// stays.
  void clear();
  /// Keys tracked now, overflow entries not counted.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t max_keys() const;
  [[nodiscard]] std::size_t max_bytes() const;
  [[nodiscard]] MemoryUsage usage();
  /// Calls, other than peeks, that had a charge decided by an overflow entry.
  [[nodiscard]] std::uint64_t crowded_calls() const;

 private:
  table::Table& table() override;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace overlimit
