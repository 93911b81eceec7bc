#include "redis/recovery/recovery.hpp"

#include <algorithm>
#include <utility>

#include "redis/plain/server_reading.hpp"
#include "redis/transport/connector.hpp"

namespace overlimit::redis {
Recovery::Recovery(const Location& location, const KeyNaming& keys, Duration longest)
    : longest_(longest), values_([this, location, keys] {
        auto values = Snapshots::of(location, keys);
        if (is_on()) values->want();
        return std::make_unique<std::shared_ptr<Snapshots>>(std::move(values));
      }) {
  (void)*values_;
}

Hearing::Hearing(Recovery& remembering, Servers& servers, std::vector<std::string> keys)
    : remembering_(remembering),
      servers_(servers),
      keys_(std::move(keys)),
      newest_(transport::opened_connections.load()),
      place_(Snapshots::next_place()),
      asked_at_(boot_time()) {
  for (const std::string& key : keys_) known_.push_back(remembering_.values().find(key, asked_at_));
}

std::string Hearing::births() const {
  if (std::ranges::all_of(known_, [](const auto& known) { return known == nullptr; })) return {};
  std::string births;
  for (const auto& known : known_) {
    const std::int64_t birth = known == nullptr ? 0 : known->created_at;
    births.append(reinterpret_cast<const char*>(&birth), sizeof birth);
  }
  return births;
}

Trust Hearing::hear(const ScriptReply& told) {
  std::vector<Snapshots::Told> all;
  for (std::size_t k = 0; const ScriptReply::Key& key : told.keys()) {
    all.push_back({keys_[k], key.value.has_value(), value_of(k, key, told), known_[k], told.connection()});
    ++k;
  }
  return remembering_.values().hear(all, told.has(ReplyFlags::kOtherKeys));
}

void Hearing::keep(const ScriptReply& told) {
  for (std::size_t k = 0; const ScriptReply::Key& key : told.keys()) {
    if (key.value) {
      remembering_.values().keep(keys_[k], value_of(k, key, told));
    } else {
      remembering_.values().forget(keys_[k]);
    }
    ++k;
  }
}

bool Hearing::keep_restored(const ScriptReply& told, const Snapshots::Pointer& restored) {
  const std::vector<ScriptReply::Key> keys = told.keys();
  if (keys.empty() || !keys.front().value) return false;
  remembering_.values().keep_restored(keys_.front(), value_of(0, keys.front(), told), restored);
  return told.has(ReplyFlags::kRestored);
}

void Hearing::keep_reset(const ScriptReply& told) {
  for (std::size_t k = 0; const ScriptReply::Key& key : told.keys()) {
    if (key.value) remembering_.values().keep_reset(keys_[k], value_of(k, key, told));
    ++k;
  }
}

// It is kept for as long as any of its records can count by a clock that is no faster than ours.
Snapshot Hearing::value_of(std::size_t k, const ScriptReply::Key& key, const ScriptReply& told) {
  std::string bytes(key.value.value_or(""));
  const Duration lives = max(Duration{}, last_expiry(bytes) - told.now());
  return {.bytes = std::move(bytes),
          .created_at = key.created_at,
          .told = told.now(),
          .asked_at = asked_at_,
          .answered_at = boot_time(),
          .forgotten_at = asked_at_ + min(lives, remembering_.longest()),
          .server = servers_.link_of(keys_[k]).server,
          .newest = newest_,
          .asked = place_};
}

}  // namespace overlimit::redis
