// What is kept under single keys of a table, for those who look after it.
#pragma once

#include <optional>
#include <vector>

#include "table/table.hpp"

namespace overlimit::table {

/// See Shard::copy_keys; copies none of a shard that there is not.
std::size_t copy_keys(Table& table, std::size_t shard, std::size_t below, std::size_t buckets,
                      std::vector<KeptKey>& keys, MutexWait& wait);

// These find a key by its hash; one that is not kept stays so.
std::optional<KeptKey> copy_key(Table& table, const KeyHash& key, MutexWait& wait);
void reset_key(Table& table, const KeyHash& key, MutexWait& wait);
void lock_key(Table& table, const KeyHash& key, Duration duration, MutexWait& wait);
void unlock_key(Table& table, const KeyHash& key, MutexWait& wait);

}  // namespace overlimit::table
