#include "redis/refusals/cached_values.hpp"

#include <mutex>

#include "redis/plain/place.hpp"

namespace overlimit::redis {

bool CachedValue::take(std::atomic<std::int64_t>& next_of_all, Duration now, Duration turn) {
  std::int64_t next = next_of_all.load(std::memory_order_relaxed);
  return next <= now.micros() && next_of_all.compare_exchange_strong(next, (now + turn).micros());
}

std::shared_ptr<CachedValues> CachedValues::of(const Location& location, const KeyNaming& keys) {
  return of_place<CachedValues>(location, keys);
}

std::shared_ptr<const CachedValue> CachedValues::find(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto* const known = values_.find(key);
  return known == nullptr ? nullptr : *known;
}

void CachedValues::keep(std::string_view key, Value value, const ServerReading& told, Duration forgotten_at,
                        std::uint32_t changes) {
  const std::size_t size = value.size();
  if (size > kMostBytesOfKey) return change(key);
  auto fresh = std::make_shared<const CachedValue>(std::move(value), told, forgotten_at);
  const std::lock_guard lock(mutex_);
  const Place& place = place_of(key);
  if (place.changes.load() != changes || told.asked_at.micros() < place.changed_at.load()) return;
  const auto* const known = values_.find(key);
  if (known != nullptr && (*known)->told.asked_at > told.asked_at) return;
  values_.put(key, std::move(fresh), size);
}

void CachedValues::change(std::string_view key) {
  const std::lock_guard lock(mutex_);
  place_of(key).changes.fetch_add(1);
  values_.erase(key);
}

void CachedValues::change_before_told(std::string_view key, std::uint32_t& changes) {
  const std::lock_guard lock(mutex_);
  if (place_of(key).changes.fetch_add(1) == changes) ++changes;
  values_.erase(key);
}

void CachedValues::change_unheard(std::string_view key, Duration changed_at) {
  Place& place = place_of(key);
  std::int64_t before = place.changed_at.load();
  while (before < changed_at.micros() &&
         !place.changed_at.compare_exchange_weak(before, changed_at.micros())) {
  }
  change(key);
}

void CachedValues::change_all() {
  const std::lock_guard lock(mutex_);
  for (Place& place : places_) place.changes.fetch_add(1);
  values_.clear();
}

}  // namespace overlimit::redis
