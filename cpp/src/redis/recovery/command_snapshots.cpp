#include "redis/recovery/command_snapshots.hpp"

#include <algorithm>
#include <utility>

#include "redis/plain/server_reading.hpp"
#include "redis/transport/connector.hpp"

namespace overlimit::redis {

CommandSnapshots::CommandSnapshots(Snapshots& values, Servers& servers, std::vector<std::string> keys,
                                   Duration longest)
    : values_(values),
      servers_(servers),
      keys_(std::move(keys)),
      longest_(longest),
      newest_(transport::opened_connections.load()),
      sequence_(Snapshots::next_sequence()),
      asked_at_(boot_time()) {
  for (const std::string& key : keys_) known_.push_back(values_.find(key, asked_at_));
}

std::string CommandSnapshots::incarnations() const {
  if (std::ranges::all_of(known_, [](const auto& known) { return known == nullptr; })) return {};
  std::string incarnations;
  for (const auto& known : known_) {
    const std::int64_t incarnation = known == nullptr ? 0 : known->created_at;
    incarnations.append(reinterpret_cast<const char*>(&incarnation), sizeof incarnation);
  }
  return incarnations;
}

Trust CommandSnapshots::judge(const ScriptReply& reply) {
  std::vector<Snapshots::Report> all;
  for (std::size_t k = 0; const ScriptReply::Key& key : reply.keys()) {
    all.push_back(
        {keys_[k], key.value.has_value(), snapshot_of(k, key, reply), known_[k], reply.connection()});
    ++k;
  }
  return values_.judge(all, reply.has(ReplyFlags::kOtherKeys));
}

void CommandSnapshots::keep(const ScriptReply& reply) {
  for (std::size_t k = 0; const ScriptReply::Key& key : reply.keys()) {
    if (key.value) {
      values_.keep(keys_[k], snapshot_of(k, key, reply));
    } else {
      values_.forget(keys_[k]);
    }
    ++k;
  }
}

bool CommandSnapshots::keep_restored(const ScriptReply& reply, const Snapshots::Pointer& restored) {
  const std::vector<ScriptReply::Key> keys = reply.keys();
  if (keys.empty() || !keys.front().value) return false;
  values_.keep_restored(keys_.front(), snapshot_of(0, keys.front(), reply), restored);
  return reply.has(ReplyFlags::kRestored);
}

void CommandSnapshots::keep_reset(const ScriptReply& reply) {
  for (std::size_t k = 0; const ScriptReply::Key& key : reply.keys()) {
    if (key.value) values_.keep_reset(keys_[k], snapshot_of(k, key, reply));
    ++k;
  }
}

// It is kept for as long as any of its records can count by a clock that is no faster than ours.
Snapshot CommandSnapshots::snapshot_of(std::size_t k, const ScriptReply::Key& key, const ScriptReply& reply) {
  std::string bytes(key.value.value_or(""));
  const Duration lives = max(Duration{}, last_expiry(bytes) - reply.now());
  return {.bytes = std::move(bytes),
          .created_at = key.created_at,
          .reported_at = reply.now(),
          .asked_at = asked_at_,
          .answered_at = boot_time(),
          .forgotten_at = asked_at_ + min(lives, longest_),
          .server = servers_.link_of(keys_[k]).server,
          .newest = newest_,
          .sequence = sequence_};
}

}  // namespace overlimit::redis
