#include "overlimit/table_store.hpp"

#include "table/calls.hpp"

namespace overlimit {

using table::MutexWait;
using table::Transaction;

namespace {

/// Calls action(transaction) while the shards of a call are locked, and returns its instant.
template <class Action>
Instant with_transaction(table::Table& table, const Call& call, MutexWait& wait, const Action& action) {
  return transact(
      table, call, wait,
      [&](const Call& dated, std::span<const table::KeyedCharge> charges, const table::Readings& readings) {
        Transaction transaction(dated, charges, readings, table.state().newest_creation);
        action(transaction);
      });
}

}  // namespace

static_assert(table::kMaxShards * (table::Arena::kGranule << 32) == TableStore::kMaxBytes);

void TableStore::check_sizes(std::size_t max_keys, std::size_t max_bytes, std::size_t least_bytes) {
  if (max_keys == 0) throw std::invalid_argument("max_keys must be at least 1, not 0");
  if (max_bytes >= least_bytes && max_bytes <= kMaxBytes) return;
  throw std::invalid_argument("max_bytes must be from " + std::to_string(least_bytes) + " (" +
                              std::to_string(least_bytes >> 10) + " KiB) to " + std::to_string(kMaxBytes) +
                              " (8 TiB), not " + std::to_string(max_bytes));
}

void TableStore::refund_showing(const Call& call, std::span<const Receipt> receipts, Present* present,
                                const Interrupted& interrupted) {
  MutexWait wait(call.timeout.value_or(timeout_), interrupted);
  table::Table& table = this->table();
  if (present == nullptr) {
    with_transaction(table, call, wait, [&](Transaction& transaction) { transaction.refund(receipts); });
    return;
  }
  DatedCall shown({.charges = present->charges, .mode = Mode::peek}, table::readings_of(call).now);
  for (bool is_done = false; !is_done; shown.move_to(present->time)) {
    present->time = with_transaction(table, call, wait, [&](Transaction& transaction) {
      is_done = shown.holds_at(transaction.now());
      if (!is_done) return;
      transaction.refund(receipts);
      transaction.show(*shown, present->rows);
    });
  }
}

void TableStore::lock(const Call& call, Duration duration, const Interrupted& interrupted) {
  MutexWait wait(call.timeout.value_or(timeout_), interrupted);
  with_transaction(table(), call, wait, [&](Transaction& transaction) { transaction.lock(duration); });
}

void TableStore::unlock(const Call& call, const Interrupted& interrupted) {
  MutexWait wait(call.timeout.value_or(timeout_), interrupted);
  with_transaction(table(), call, wait, [](Transaction& transaction) { transaction.unlock(); });
}

void TableStore::reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
                       const Interrupted& interrupted) {
  MutexWait wait(timeout_, interrupted);
  table::Table& table = this->table();
  std::vector<table::KeyHash> keys;
  std::uint64_t chosen = 0;
  for (const std::string_view identifier : identifiers) {
    keys.push_back(table.state().hash(policy.digest(), identifier));
    chosen |= bit_of(table.shard_of(keys.back()));
  }
  table.with(chosen, wait, [&] {
    for (const table::KeyHash& key : keys) table.shard_of(key).erase_key(key);
  });
}

void TableStore::reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) {
  MutexWait wait(timeout_, interrupted);
  table::Table& table = this->table();
  for (const auto& shard : table.shards()) {
    table.with(*shard, wait, [&] { shard->erase_policy(policy.digest()); });
  }
}

}  // namespace overlimit
