// Counts that come back: what replies report is held against what is remembered (docs/semantics.md).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "redis/plain/store_client.hpp"
#include "redis/recovery/snapshots.hpp"

namespace overlimit::redis {

/// Of one store. Thread-safe.
class Recovery final : public Layer {
 public:
  /// What is reported is remembered for so long at most.
  Recovery(StoreClient& store, Calls& below, Duration longest);

  void send_refund(const Call& call, std::span<const Receipt> receipts, Basis& basis,
                   const Wait& wait) override;
  void reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
             const Interrupted& interrupted) override;
  void reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) override;

  std::unique_ptr<Observation> observe_attempt(const Exchange& exchange, Extras& extras) override;
  /// Whether its server may lack what is remembered of a key.
  [[nodiscard]] bool suspects(std::string_view key) override;
  /// Restores what is remembered of keys and their servers may have lost.
  void precede(std::span<Exchange* const> exchanges, const Wait& wait) override;
  void undo(std::span<const ScriptCall> refunds, Basis& basis, const Wait& wait) override;

 private:
  void reset(const std::vector<std::string>& keys, const Interrupted& interrupted);
  [[nodiscard]] Snapshots& values() {
    return store_.keyspace().observed_by<Snapshots>(Observer::Keeps::snapshots);
  }

  StoreClient& store_;
  const Duration longest_;
};

}  // namespace overlimit::redis
