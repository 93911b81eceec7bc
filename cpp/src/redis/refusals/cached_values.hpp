// What this process was told of keys, so that it need not ask again (docs/semantics.md: refusals that cost
// nothing).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "overlimit/forks.hpp"
#include "overlimit/redis_location.hpp"
#include "overlimit/redis_store.hpp"
#include "redis/plain/place.hpp"
#include "redis/plain/server_reading.hpp"
#include "redis/plain/values_in_use.hpp"
#include "redis/wire/value.hpp"

namespace overlimit::redis {

/// A key's value as this process was last told of it.
class CachedValue : NonCopyable {
 public:
  CachedValue(Value bytes, const ServerReading& reading, Duration until)
      : value(std::move(bytes)), told(reading), forgotten_at(until) {}

  /// Whether it is the caller's turn to ask anew while it is still believed; others have one after `turn`.
  [[nodiscard]] bool take_turn(Duration now, Duration turn) const { return take(next_turn_, now, turn); }
  /// The same when the server may decide otherwise by now.
  [[nodiscard]] bool take_question(Duration now, Duration turn) const {
    return take(next_question_, now, turn);
  }

  const Value value;
  const ServerReading told;
  const Duration forgotten_at;  ///< boot time, as all below

 private:
  static bool take(std::atomic<std::int64_t>& next, Duration now, Duration turn);

  mutable std::atomic<std::int64_t> next_turn_{0};
  mutable std::atomic<std::int64_t> next_question_{0};
};

/// The values of one place that this process knows. Thread-safe.
class CachedValues : NonCopyable {
 public:
  static constexpr std::size_t kMostKeys = 4096;
  static constexpr std::size_t kMostBytesOfKey = 4096;
  static constexpr std::size_t kMostBytes = 4 << 20;

  /// Those of this process that stores share which keep the same keys in the same place.
  static std::shared_ptr<CachedValues> of(const Location& location, const KeyNaming& keys);

  /// Whether anybody wants to know; otherwise nobody need tell.
  [[nodiscard]] bool are_wanted() const { return are_wanted_.load(std::memory_order_relaxed); }
  void want() {
    are_wanted_.store(true, std::memory_order_relaxed);
    anybody_wants_to_know.store(true, std::memory_order_relaxed);
  }

  /// What is known of a key, or nullptr.
  [[nodiscard]] std::shared_ptr<const CachedValue> find(std::string_view key);

  /// How often this process has changed a key, or another one, by now.
  [[nodiscard]] std::uint32_t changes(std::string_view key) const { return place_of(key).changes.load(); }
  /// Keeps what a request told, unless the key was changed since this count of changes.
  void keep(std::string_view key, Value value, const ServerReading& told, Duration forgotten_at,
            std::uint32_t changes);
  /// Forgets a key that this process changes, and what it is being told of it.
  void change(std::string_view key);
  /// The same of a key whose value is being told to the caller, after the change, since this count of
  /// changes; that is counted on unless others have changed the key, too.
  void change_before_told(std::string_view key, std::uint32_t& changes);
  /// The same when nobody hears whether it has changed: at this boot time it has.
  void change_unheard(std::string_view key, Duration changed_at);
  void change_all();

 private:
  struct Place {
    std::atomic<std::uint32_t> changes{0};
    std::atomic<std::int64_t> changed_at{0};  // boot time in microseconds
  };
  static std::size_t index_of(std::string_view key) { return std::hash<std::string_view>()(key) % kPlaces; }

  // Keys that share a place are taken to change together.
  static constexpr std::size_t kPlaces = 1024;
  [[nodiscard]] const Place& place_of(std::string_view key) const { return places_[index_of(key)]; }
  [[nodiscard]] Place& place_of(std::string_view key) { return places_[index_of(key)]; }

  std::atomic<bool> are_wanted_{false};
  std::array<Place, kPlaces> places_;
  ForkSafeMutex mutex_;
  ValuesInUse<std::shared_ptr<const CachedValue>> values_{kMostKeys, kMostBytes};  // guarded by mutex_
};

}  // namespace overlimit::redis
