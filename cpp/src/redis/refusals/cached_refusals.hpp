// Calls that are refused by what was reported of keys lately, and how that is kept (docs/semantics.md:
// refusals that cost nothing).
#pragma once

#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "overlimit/call.hpp"
#include "redis/plain/store_client.hpp"
#include "redis/refusals/cached_values.hpp"

namespace overlimit::redis {

/// Of one store. Thread-safe.
class CachedRefusals final : public Layer {
 public:
  /// What was reported is trusted for `max_stale`.
  CachedRefusals(StoreClient& store, Calls& below, Duration max_stale);

  bool decide_here(const Call& call, Duration next_ask_at, const Rows& rows, Instant& time,
                   Basis& basis) override;
  [[nodiscard]] bool may_decide_here() const override { return true; }
  Instant decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) override;
  std::unique_ptr<Observation> observe_attempt(const Exchange& exchange, Extras& extras) override;
  std::unique_ptr<Observation> observe_change(const Change& change) override {
    return values().observe_change(change);
  }
  void changes_unheard(std::span<const std::string> keys, Duration within) override {
    values().changes_unheard(keys, within);
  }

 private:
  using Known = std::pmr::vector<std::shared_ptr<const CachedValue>>;
  class CallOnValue;

  bool refuse_plain(const Call& call, Duration next_ask_at, const Rows& rows, Instant& time);
  bool refuse_any(const Call& call, Duration next_ask_at, const Rows& rows, Instant& time);
  /// Refuses a call that is not asked for yet although the server may not, as it is known what it would ask.
  bool refuse_until(const Call& call, Duration next_ask_at, const Rows& rows, Instant& time);
  /// Whether another caller is asking for such a call, which was refused and may be admitted by now, as few
  /// can be: what is reported to that one decides the others.
  bool is_being_asked(const Call& call);
  /// What is known of the key of a charge, as far as it is trusted; or nullptr.
  [[nodiscard]] std::shared_ptr<const CachedValue> find(const Charge& charge, Duration now);
  bool find_all(const Call& call, Duration now, Known& known);
  [[nodiscard]] bool asks_anew(const CachedValue& known, Duration now) const;
  [[nodiscard]] CachedValues& values() {
    return store_.keyspace().observed_by<CachedValues>(Observer::Keeps::values);
  }

  StoreClient& store_;
  const Duration max_stale_;
  const bool is_cluster_;
};

}  // namespace overlimit::redis
