// What was reported of keys to this process, so that it need not ask again (docs/semantics.md: refusals that
// cost nothing).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/forks.hpp"
#include "redis/plain/exchange.hpp"
#include "redis/plain/layer.hpp"
#include "redis/plain/server_reading.hpp"
#include "redis/plain/values_in_use.hpp"
#include "values/value.hpp"

namespace overlimit::redis {

using values::Value;

/// A key's value as it was last reported to this process.
class CachedValue : NonCopyable {
 public:
  CachedValue(Value bytes, const ServerReading& when, Duration until)
      : value(std::move(bytes)), reading(when), forgotten_at(until) {}

  /// Whether the caller is to refresh it while it is still trusted; others may after `pause`.
  [[nodiscard]] bool take_refresh(Duration now, Duration pause) const {
    return take(next_refresh_, now, pause);
  }
  /// The same when the server may decide otherwise by now.
  [[nodiscard]] bool take_ask(Duration now, Duration pause) const { return take(next_ask_, now, pause); }

  const Value value;
  const ServerReading reading;
  const Duration forgotten_at;  ///< boot time, as all below

 private:
  static bool take(std::atomic<std::int64_t>& next, Duration now, Duration pause);

  mutable std::atomic<std::int64_t> next_refresh_{0};
  mutable std::atomic<std::int64_t> next_ask_{0};
};

/// The values of one keyspace that this process knows. Thread-safe.
class CachedValues : public Observer, NonCopyable {
 public:
  static constexpr std::size_t kMostKeys = 4096;
  static constexpr std::size_t kMostBytesOfKey = 4096;
  static constexpr std::size_t kMostBytes = 4 << 20;

  std::unique_ptr<Observation> observe_attempt(const Exchange& exchange, Extras& extras) override;
  std::unique_ptr<Observation> observe_change(const Change& change) override;
  void changes_unheard(std::span<const std::string> keys, Duration within) override;

  /// What is known of a key, or nullptr.
  [[nodiscard]] std::shared_ptr<const CachedValue> find(std::string_view key);

  /// How often this process has changed a key, or another one, by now.
  [[nodiscard]] std::uint32_t changes(std::string_view key) const { return slot_of(key).changes.load(); }
  /// Keeps what a reply reported, unless the key was changed since this count of changes.
  void keep(std::string_view key, Value value, const ServerReading& reading, Duration forgotten_at,
            std::uint32_t changes);
  /// Forgets a key that this process changes, and what is being reported of it.
  void change(std::string_view key);
  /// The same of a key whose value is being reported to the caller, after the change, since this count of
  /// changes; that is counted on unless others have changed the key, too.
  void change_before_report(std::string_view key, std::uint32_t& changes);
  /// The same when nobody hears whether it has changed: at this boot time it has.
  void change_unheard(std::string_view key, Duration changed_at);
  void change_all();

 private:
  struct Slot {
    std::atomic<std::uint32_t> changes{0};
    std::atomic<std::int64_t> changed_at{0};  // boot time in microseconds
  };
  static std::size_t index_of(std::string_view key) { return std::hash<std::string_view>()(key) % kSlots; }

  // Keys that share a slot are taken to change together.
  static constexpr std::size_t kSlots = 1024;
  [[nodiscard]] const Slot& slot_of(std::string_view key) const { return slots_[index_of(key)]; }
  [[nodiscard]] Slot& slot_of(std::string_view key) { return slots_[index_of(key)]; }

  std::array<Slot, kSlots> slots_;
  ForkSafeMutex mutex_;
  ValuesInUse<std::shared_ptr<const CachedValue>> values_{kMostKeys, kMostBytes};  // guarded by mutex_
};

/// Reports what the reply to a command says of its keys, for it to be trusted for `max_stale`; 0: that they
/// have changed.
class Reporting : public Observation {
 public:
  /// Borrows both.
  Reporting(CachedValues& values, const DecideExchange& deciding, Duration max_stale);
  void comes_after(const std::vector<std::string>& keys) override;
  void decided(const Call& call, const ScriptReply& reply, const Answer& answer, const Rows& rows) override;

 private:
  void report_found(const Answer& answer, Duration answered_at);
  void report_charged(const Call& call, const Answer& answer, const Rows& rows, Duration answered_at);
  void keep(std::size_t k, Value value, Instant shown, Duration answered_at, std::uint32_t changes);

  CachedValues& values_;
  const DecideExchange& deciding_;
  const Duration max_stale_;
  const Duration asked_at_;
  std::vector<std::uint32_t> changes_;  // per key, before it was asked for
};

}  // namespace overlimit::redis
