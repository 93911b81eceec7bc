#include "redis/knowledge/known_values.hpp"

#include <mutex>

#include "redis/knowledge/place.hpp"

namespace overlimit::redis {
namespace {

/// How often those that are no longer believed are looked for.
constexpr Duration kPause{1'000'000};

}  // namespace

bool KnownValue::take(std::atomic<std::int64_t>& next_of_all, Duration now, Duration turn) {
  std::int64_t next = next_of_all.load(std::memory_order_relaxed);
  return next <= now.micros() && next_of_all.compare_exchange_strong(next, (now + turn).micros());
}

std::shared_ptr<KnownValues> KnownValues::of(const Location& location, const RedisStore::Keys& keys) {
  return of_place<KnownValues>(location, keys);
}

std::shared_ptr<const KnownValue> KnownValues::find(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto known = values_.find(key);
  return known == values_.end() ? nullptr : known->second;
}

void KnownValues::keep(std::string key, Value value, const ServerReading& told, Duration forgotten_at,
                       std::uint32_t changes) {
  const std::size_t size = value.size();
  if (size > kMostBytesOfKey) return change(key);
  auto fresh = std::make_shared<const KnownValue>(std::move(value), told, forgotten_at);
  const std::lock_guard lock(mutex_);
  const Place& place = place_of(key);
  if (place.changes.load() != changes || told.asked_at.micros() < place.changed_at.load()) return;
  if (const auto known = values_.find(key); known != values_.end()) {
    if (known->second->told.asked_at > told.asked_at) return;
    forget(known);
  }
  if (values_.size() >= kMostKeys || bytes_ + size > kMostBytes) forget_old();
  if (values_.size() >= kMostKeys || bytes_ + size > kMostBytes) return;
  bytes_ += size;
  values_.emplace(std::move(key), std::move(fresh));
}

void KnownValues::change(std::string_view key) {
  const std::lock_guard lock(mutex_);
  place_of(key).changes.fetch_add(1);
  if (const auto known = values_.find(key); known != values_.end()) forget(known);
}

void KnownValues::change_before_told(std::string_view key, std::uint32_t& changes) {
  const std::lock_guard lock(mutex_);
  if (place_of(key).changes.fetch_add(1) == changes) ++changes;
  if (const auto known = values_.find(key); known != values_.end()) forget(known);
}

void KnownValues::change_unheard(std::string_view key, Duration changed_at) {
  Place& place = place_of(key);
  std::int64_t before = place.changed_at.load();
  while (before < changed_at.micros() &&
         !place.changed_at.compare_exchange_weak(before, changed_at.micros())) {
  }
  change(key);
}

void KnownValues::change_all() {
  const std::lock_guard lock(mutex_);
  for (Place& place : places_) place.changes.fetch_add(1);
  values_.clear();
  bytes_ = 0;
}

void KnownValues::forget(Values::iterator known) {
  bytes_ -= known->second->value.size();
  values_.erase(known);
}

// Not for every key of a flood of others.
void KnownValues::forget_old() {
  const Duration now = boot_time();
  if (now - looked_at_ < kPause) return;
  looked_at_ = now;
  for (auto known = values_.begin(); known != values_.end();) {
    const auto next = std::next(known);
    if (known->second->forgotten_at <= now) forget(known);
    known = next;
  }
}

}  // namespace overlimit::redis
