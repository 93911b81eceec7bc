// A call of several identifiers, some of which are leased here: those are taken, the others are asked for
// (docs/semantics.md: leases).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "overlimit/store.hpp"
#include "redis/leases/leases.hpp"

namespace overlimit::redis {

class LeasedParts {
 public:
  /// Borrows the call. Of leases, those that are no older than `longest`.
  LeasedParts(Leases& leases, const Call& call, Duration longest);

  /// Whether some of the call's identifiers are leased here, and others are not.
  [[nodiscard]] bool are_some() const { return count_ > 0 && !are_all(); }
  /// Whether the call is decided without asking: all are leased here, or those that are not are certainly
  /// refused. Then its rows, time and basis are set.
  bool decide_here(Calls& below, const Rows& rows, Instant& time, Basis& basis);
  /// Asks for the others, and takes what is leased last. Nothing, if that is gone by then: what the others
  /// were charged is to be refunded.
  std::optional<Instant> decide(Calls& below, const Rows& rows, Basis& basis, const Wait& wait);
  /// The call of the others, and the receipts of what they were charged.
  [[nodiscard]] const Call& rest() const { return rest_; }
  [[nodiscard]] std::span<const Receipt> receipts_of_rest() const { return rows_.receipts(); }

 private:
  [[nodiscard]] bool are_all() const { return count_ == leases_.size(); }
  bool take();
  [[nodiscard]] Instant time() const;
  void show(Instant time, const Rows& rows) const;

  PendingReleases& releases_;
  const Call& call_;
  std::vector<std::shared_ptr<Lease>> leases_;  // per charge; nullptr: not leased here
  std::vector<Cost> left_;                      // per charge
  std::size_t count_ = 0;
  std::vector<Charge> others_;
  Call rest_;
  std::unique_ptr<std::byte[]> memory_;
  Rows rows_{};  // of the others
};

}  // namespace overlimit::redis
