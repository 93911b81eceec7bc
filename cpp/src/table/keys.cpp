#include "table/keys.hpp"

#include "table/calls.hpp"

namespace overlimit::table {
namespace {

// A key that is there tells its policy, whose limits do not matter: a lock stands beside their records.
template <class Action>
void with_transaction(Table& table, const KeyHash& key, MutexWait& wait, const Action& action) {
  const CompiledPolicy any("any", {Limit("fixed_window", std::vector<std::int64_t>{1, 1'000'000, 0})});
  const Charge charge{&any, {}};
  const Call call{.charges = {&charge, 1}};
  const KeyedCharge keyed{&charge, key, &table.shard_of(key)};
  under_lock(table, *keyed.shard, {&keyed, 1}, call, wait, [&](const Readings& readings) {
    if (keyed.shard->find(key) == nullptr) return;
    Transaction transaction(call, {&keyed, 1}, readings, table.state().newest_creation);
    action(transaction);
  });
}

}  // namespace

std::size_t copy_keys(Table& table, std::size_t shard, std::size_t below, std::size_t buckets,
                      std::vector<KeptKey>& keys, MutexWait& wait) {
  if (shard >= table.shards().size()) return 0;
  std::size_t next = 0;
  Shard& from = *table.shards()[shard];
  table.with(from, wait, [&] { next = from.copy_keys(below, buckets, keys); });
  return next;
}

std::optional<KeptKey> copy_key(Table& table, const KeyHash& key, MutexWait& wait) {
  std::optional<KeptKey> kept;
  Shard& shard = table.shard_of(key);
  table.with(shard, wait, [&] {
    if (Entry* const entry = shard.find(key)) kept = kept_key(shard.arena(), *entry);
  });
  return kept;
}

void reset_key(Table& table, const KeyHash& key, MutexWait& wait) {
  Shard& shard = table.shard_of(key);
  table.with(shard, wait, [&] { shard.erase_key(key); });
}

void lock_key(Table& table, const KeyHash& key, Duration duration, MutexWait& wait) {
  with_transaction(table, key, wait, [&](Transaction& transaction) { transaction.lock(duration); });
}

void unlock_key(Table& table, const KeyHash& key, MutexWait& wait) {
  with_transaction(table, key, wait, [](Transaction& transaction) { transaction.unlock(); });
}

}  // namespace overlimit::table
