#include "redis/recovery/hearing.hpp"

#include <algorithm>
#include <utility>

#include "redis/plain/server_reading.hpp"
#include "redis/transport/connector.hpp"

namespace overlimit::redis {

Hearing::Hearing(Snapshots& values, Servers& servers, std::vector<std::string> keys, Duration longest)
    : values_(values),
      servers_(servers),
      keys_(std::move(keys)),
      longest_(longest),
      newest_(transport::opened_connections.load()),
      place_(Snapshots::next_place()),
      asked_at_(boot_time()) {
  for (const std::string& key : keys_) known_.push_back(values_.find(key, asked_at_));
}

std::string Hearing::incarnations() const {
  if (std::ranges::all_of(known_, [](const auto& known) { return known == nullptr; })) return {};
  std::string incarnations;
  for (const auto& known : known_) {
    const std::int64_t incarnation = known == nullptr ? 0 : known->created_at;
    incarnations.append(reinterpret_cast<const char*>(&incarnation), sizeof incarnation);
  }
  return incarnations;
}

Trust Hearing::hear(const ScriptReply& told) {
  std::vector<Snapshots::Report> all;
  for (std::size_t k = 0; const ScriptReply::Key& key : told.keys()) {
    all.push_back({keys_[k], key.value.has_value(), snapshot_of(k, key, told), known_[k], told.connection()});
    ++k;
  }
  return values_.hear(all, told.has(ReplyFlags::kOtherKeys));
}

void Hearing::keep(const ScriptReply& told) {
  for (std::size_t k = 0; const ScriptReply::Key& key : told.keys()) {
    if (key.value) {
      values_.keep(keys_[k], snapshot_of(k, key, told));
    } else {
      values_.forget(keys_[k]);
    }
    ++k;
  }
}

bool Hearing::keep_restored(const ScriptReply& told, const Snapshots::Pointer& restored) {
  const std::vector<ScriptReply::Key> keys = told.keys();
  if (keys.empty() || !keys.front().value) return false;
  values_.keep_restored(keys_.front(), snapshot_of(0, keys.front(), told), restored);
  return told.has(ReplyFlags::kRestored);
}

void Hearing::keep_reset(const ScriptReply& told) {
  for (std::size_t k = 0; const ScriptReply::Key& key : told.keys()) {
    if (key.value) values_.keep_reset(keys_[k], snapshot_of(k, key, told));
    ++k;
  }
}

// It is kept for as long as any of its records can count by a clock that is no faster than ours.
Snapshot Hearing::snapshot_of(std::size_t k, const ScriptReply::Key& key, const ScriptReply& told) {
  std::string bytes(key.value.value_or(""));
  const Duration lives = max(Duration{}, last_expiry(bytes) - told.now());
  return {.bytes = std::move(bytes),
          .created_at = key.created_at,
          .told = told.now(),
          .asked_at = asked_at_,
          .answered_at = boot_time(),
          .forgotten_at = asked_at_ + min(lives, longest_),
          .server = servers_.link_of(keys_[k]).server,
          .newest = newest_,
          .asked = place_};
}

}  // namespace overlimit::redis
