// Counts that come back: what replies tell is held against what is remembered (docs/semantics.md).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "overlimit/call.hpp"
#include "overlimit/redis_location.hpp"
#include "overlimit/redis_store.hpp"
#include "redis/plain/servers.hpp"
#include "redis/recovery/snapshots.hpp"
#include "redis/transport/per_process.hpp"
#include "redis/wire/script_reply.hpp"

namespace overlimit::redis {

/// Of one store. Thread-safe.
class Recovery {
 public:
  Recovery(const Location& location, const KeyNaming& keys, Duration longest);

  [[nodiscard]] bool is_on() const { return longest_ > Duration{}; }
  [[nodiscard]] Duration longest() const { return longest_; }
  /// Whether what is told of the keys of a call is remembered: not by a clock that the caller brings.
  [[nodiscard]] bool remembers(const Call& call) const {
    return is_on() && !call.now && call.clock == nullptr;
  }
  [[nodiscard]] Snapshots& values() { return **values_; }
  /// nullptr if no store of this process remembers.
  [[nodiscard]] Snapshots* wanted() {
    if (!anybody_wants_to_know.load(std::memory_order_relaxed)) return nullptr;
    Snapshots& values = **values_;
    return values.are_wanted() ? &values : nullptr;
  }

 private:
  const Duration longest_;
  transport::PerProcess<std::shared_ptr<Snapshots>> values_;
};

/// What one command hears of its keys. To be made before it is sent.
class Hearing {
 public:
  Hearing(Recovery& remembering, Servers& servers, std::vector<std::string> keys);

  /// Per key, when it was created as far as this process remembers, or 0, for the script to do nothing if it
  /// meets another key; empty if nothing is remembered of any.
  [[nodiscard]] std::string births() const;
  /// Whether the reply is to be believed: its server may lack what is remembered of a key, or be another
  /// server or connection, which is noted. What a sound one tells is remembered.
  Trust hear(const ScriptReply& told);
  /// Remembers what a reply tells that is believed whatever it is.
  void keep(const ScriptReply& told);
  /// Remembers what was told after this was restored. Returns whether the server had lost any of it until
  /// then.
  bool keep_restored(const ScriptReply& told, const Snapshots::Pointer& restored);
  /// The same after the keys were reset.
  void keep_reset(const ScriptReply& told);

 private:
  [[nodiscard]] Snapshot value_of(std::size_t k, const ScriptReply::Key& key, const ScriptReply& told);

  Recovery& remembering_;
  Servers& servers_;
  const std::vector<std::string> keys_;
  const std::uint64_t newest_;  // of this process's connections
  const std::uint64_t place_;
  const Duration asked_at_;
  std::vector<Snapshots::Pointer> known_;  // per key, before it is sent; or nullptr
};

}  // namespace overlimit::redis
