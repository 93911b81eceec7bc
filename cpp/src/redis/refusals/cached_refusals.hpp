// Calls that are refused by what this process was told lately, and how it is told (docs/semantics.md:
// refusals that cost nothing).
#pragma once

#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "overlimit/call.hpp"
#include "overlimit/redis_location.hpp"
#include "overlimit/redis_store.hpp"
#include "redis/refusals/cached_values.hpp"
#include "redis/transport/per_process.hpp"
#include "redis/wire/answer.hpp"

namespace overlimit::redis {

/// Of one store. Thread-safe.
class CachedRefusals {
 public:
  struct Options {
    KeyNaming keys;
    Duration max_stale;  ///< how long what was told is believed; 0: not at all
    Duration timeout;    ///< of who asks anew
  };

  CachedRefusals(const Location& location, Options options);

  /// Whether this process refuses a call by itself; then its rows, time and basis are set. Before the boot
  /// time `turn` it does not ask anew.
  bool refuse(const Call& call, Duration turn, const Rows& rows, Instant& time, Basis& basis);
  /// Whether another caller is asking for such a call, which was refused and may be admitted by now, as few
  /// can be: what that one is told decides the others.
  bool is_being_asked(const Call& call);
  /// Whether it refuses a call until then although the server may not, as it knows what it would ask.
  bool refuse_until(const Call& call, Duration turn, const Rows& rows, Instant& time, Basis& basis);

  [[nodiscard]] bool are_told() const { return options_.max_stale > Duration{}; }
  [[nodiscard]] Duration max_stale() const { return options_.max_stale; }
  /// Notes that this process has sent what changes these keys, and will not hear of it.
  void change_unheard(std::span<const std::string> keys);
  /// nullptr if nobody in this process wants to know.
  [[nodiscard]] CachedValues* wanted() {
    if (!anybody_wants_to_know.load(std::memory_order_relaxed)) return nullptr;
    CachedValues& values = **values_;
    return values.are_wanted() ? &values : nullptr;
  }

 private:
  using Known = std::pmr::vector<std::shared_ptr<const CachedValue>>;
  class PlainCall;

  bool refuse_plain(const Call& call, Duration turn, const Rows& rows, Instant& time);
  bool refuse_any(const Call& call, Duration turn, const Rows& rows, Instant& time);
  /// What is known of the key of a charge, as far as it is believed; or nullptr.
  [[nodiscard]] std::shared_ptr<const CachedValue> find(CachedValues& values, const Charge& charge,
                                                        Duration now) const;
  bool find_all(CachedValues& values, const Call& call, Duration now, Known& known) const;
  [[nodiscard]] bool asks_anew(const CachedValue& known, Duration now) const;

  const Options options_;
  const bool is_cluster_;
  transport::PerProcess<std::shared_ptr<CachedValues>> values_;
};

/// Tells what the reply to one command says of its keys. To be made before the command is sent.
class Telling {
 public:
  /// Borrows the keys.
  Telling(CachedRefusals& refusals, std::span<const std::string> keys);
  /// Notes that the command comes after a change that this process makes to a key.
  void comes_after_change(std::string_view key);
  /// Values of calls that are not refused are told too if `of_all`.
  void tell(const Call& call, const Answer& answer, const Rows& rows, bool of_all);

 private:
  void tell_found(const Answer& answer, Duration answered_at);
  void tell_charged(const Call& call, const Answer& answer, const Rows& rows, Duration answered_at);
  void keep(std::size_t k, Value value, Instant shown, Duration answered_at, std::uint32_t changes);

  CachedValues* values_;
  Duration max_stale_;
  std::span<const std::string> keys_;
  Duration asked_at_{};
  std::vector<std::uint32_t> changes_;  // per key, before it was asked for
};

/// As long as it lives, a command may be changing these keys: what is known of them, or being told, is
/// forgotten at both ends.
class Changing : NonCopyable {
 public:
  Changing(CachedRefusals& refusals, std::vector<std::string> keys);
  ~Changing() { change(); }

 private:
  void change() const;

  CachedValues* values_;
  std::vector<std::string> keys_;
};

/// The same of all keys.
class ChangingAll : NonCopyable {
 public:
  explicit ChangingAll(CachedRefusals& refusals);
  ~ChangingAll() { change(); }

 private:
  void change() const;

  CachedValues* values_;
};

}  // namespace overlimit::redis
