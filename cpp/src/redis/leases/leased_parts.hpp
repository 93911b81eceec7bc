// A call of several identifiers, some of which are leased here: those are taken, the others are asked for
// (docs/semantics.md: leases).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "overlimit/store.hpp"
#include "redis/leases/leasing.hpp"

namespace overlimit::redis {

class LeasedParts {
 public:
  /// Borrows the call.
  LeasedParts(Leasing& leasing, const Call& call);

  /// Whether all of the call's identifiers are leased here.
  [[nodiscard]] bool are_all() const { return count_ == leases_.size(); }
  /// Whether some of them are, and others are not.
  [[nodiscard]] bool are_some() const { return count_ > 0 && !are_all(); }
  /// The latest of the instants that the leases' servers can be showing, at the earliest.
  [[nodiscard]] Instant time() const;
  /// The call of the others, and rows for it.
  [[nodiscard]] const Call& rest() const { return rest_; }
  [[nodiscard]] const Rows& rows_of_rest() const { return rows_; }

  /// Takes what the call costs of all leases, or of none.
  [[nodiscard]] bool take();
  /// Has later decisions of these leases be no earlier.
  void note_time(Instant time) const;
  /// Fills the whole call's rows: those of the others as they were decided, those of leases at this instant.
  void show(Instant time, const Rows& rows) const;

 private:
  Leasing& leasing_;
  const Call& call_;
  std::vector<std::shared_ptr<Lease>> leases_;  // per charge; nullptr: not leased here
  std::vector<Cost> left_;                      // per charge
  std::size_t count_ = 0;
  std::vector<Charge> others_;
  Call rest_;
  std::unique_ptr<std::byte[]> memory_;
  Rows rows_{};
};

}  // namespace overlimit::redis
