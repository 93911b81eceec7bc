// Calls that are decided by leases (docs/semantics.md: leases).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "overlimit/redis_leases.hpp"
#include "redis/leases/leases.hpp"
#include "redis/plain/store_client.hpp"

namespace overlimit::redis {

/// Of one store. Thread-safe.
class Leasing final : public Layer {
 public:
  struct Options {
    Duration longest;
    std::optional<LeaseIn> lease_in;
  };

  Leasing(StoreClient& store, Calls& below, const Options& options);

  bool decide_here(const Call& call, Duration next_ask_at, const Rows& rows, Instant& time,
                   Basis& basis) override;
  [[nodiscard]] bool may_decide_here() const override { return true; }
  [[nodiscard]] bool is_decided_apart(const Call& call) override;
  Instant decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) override;
  void refund(const Call& call, std::span<const Receipt> receipts, Present* present,
              const Wait& wait) override;
  void send_refund(const Call& call, std::span<const Receipt> receipts, Basis& basis,
                   const Wait& wait) override;
  /// Releases all that is leased.
  void close() override;

  std::unique_ptr<Observation> observe_attempt(const Exchange& exchange, Extras& extras) override;
  std::unique_ptr<Observation> observe_change(const Change& change) override {
    return leases().observe_change(change);
  }
  void add_releases(StoreClient& store, std::vector<std::unique_ptr<Exchange>>& releases) override {
    leases().add_releases(store, releases);
  }

  /// Whether this charge comes so often that a command of its own would ask for a lease.
  [[nodiscard]] bool is_hot(const Call& call, const Charge& charge);
  [[nodiscard]] LeaseCounts counts(const PolicyIdentity& policy) {
    return leases().releases().counted(policy.name());
  }

 private:
  /// Whether the lease that was found decides the call; then its rows, time and basis are set.
  bool spend(const Leases::Found& found, const Call& call, const Rows& rows, Instant& time, Basis& basis);
  [[nodiscard]] Leases& leases() { return **leases_; }

  StoreClient& store_;
  const Duration longest_;
  transport::PerProcess<Leases*> leases_;
};

}  // namespace overlimit::redis
