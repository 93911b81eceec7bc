#include "overlimit/table_store.hpp"

#include "table/table.hpp"

namespace overlimit {

using table::MutexWait;

static_assert(table::kMaxShards * (table::Arena::kGranule << 32) == TableStore::kMaxBytes);

void TableStore::check_sizes(std::size_t max_keys, std::size_t max_bytes, std::size_t least_bytes) {
  if (max_keys == 0) throw std::invalid_argument("max_keys must be at least 1, not 0");
  if (max_bytes >= least_bytes && max_bytes <= kMaxBytes) return;
  throw std::invalid_argument("max_bytes must be from " + std::to_string(least_bytes) + " (" +
                              std::to_string(least_bytes >> 10) + " KiB) to " + std::to_string(kMaxBytes) +
                              " (8 TiB), not " + std::to_string(max_bytes));
}

void TableStore::decide(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                        std::span<Basis> bases, const Interrupted& interrupted) {
  if (calls.empty()) return;
  MutexWait wait(calls.front().timeout.value_or(timeout_), interrupted);
  table().decide(calls, rows, times, bases, wait);
}

void TableStore::decide_one(const Call& call, const Rows& rows, Instant& time, Basis& basis,
                            const Interrupted& interrupted) {
  MutexWait wait(call.timeout.value_or(timeout_), interrupted);
  table().decide_one(call, rows, time, basis.crowded, wait);
}

void TableStore::give_back(const Call& call, std::span<const Receipt> receipts, Present* present,
                           const Interrupted& interrupted) {
  MutexWait wait(call.timeout.value_or(timeout_), interrupted);
  table().refund(call, receipts, present, wait);
}

void TableStore::lock(const Call& call, Duration duration, const Interrupted& interrupted) {
  MutexWait wait(call.timeout.value_or(timeout_), interrupted);
  table().lock(call, duration, wait);
}

void TableStore::unlock(const Call& call, const Interrupted& interrupted) {
  MutexWait wait(call.timeout.value_or(timeout_), interrupted);
  table().unlock(call, wait);
}

void TableStore::reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
                       const Interrupted& interrupted) {
  MutexWait wait(timeout_, interrupted);
  table().reset(policy, identifiers, wait);
}

void TableStore::reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) {
  MutexWait wait(timeout_, interrupted);
  table().reset_all(policy, wait);
}

}  // namespace overlimit
