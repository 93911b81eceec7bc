// The call that most calls are: every charge is enforced, its key has an entry as its policy has it, and
// nobody is locked. Then what the pairs say is the answer, and nothing is to be made or found out on the way.
// The rules are those of a Transaction, which decides all other calls.
#pragma once

#include <atomic>
#include <span>

#include "overlimit/call.hpp"
#include "table/shard.hpp"
#include "table/writing.hpp"

namespace overlimit::table {

/// A key that has an entry, and the charge on it.
struct KnownKey {
  const Charge* charge;
  Shard* shard;
  Entry* entry;
};

/// Whether a charge on a key with this entry, if any, may be a part of such a call.
inline bool is_plain(const Charge& charge, Entry* entry, Instant now) {
  if (entry == nullptr || charge.role != Role::enforce || charge.cost == 0) return false;
  const CompiledPolicy& policy = *charge.policy;
  if (entry->records() == policy.size()) return starts_with(*entry, policy.tags());
  return starts_with(*entry, policy.tags()) && !is_locked(*entry, policy.size(), now);
}

/// Decides the call, writes it if it passes, and fills its rows. The shards are locked. False, with nothing
/// done, if it is refused and that may lock somebody.
bool decide_plain(const Call& call, std::span<const KnownKey> keys, const Readings& readings,
                  std::atomic<Instant>& newest_creation, const Rows& rows);

/// Refuses a call on a key that is locked, and fills its rows. False, with nothing done, if it is another one
/// or may extend the lock.
bool refuse_locked(const Charge& charge, const Shard& shard, Entry* entry, const Readings& readings,
                   Duration patience, const Rows& rows);

}  // namespace overlimit::table
