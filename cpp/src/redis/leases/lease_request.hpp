// What leases have to do with one command (docs/semantics.md: leases).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "redis/leases/leases.hpp"
#include "redis/plain/layer.hpp"

namespace overlimit::redis {

/// Whether a policy's records hold what is leased, so that little of it comes back.
bool has_holds(const CompiledPolicy& policy);
bool can_be_leased(const Call& call);
/// Has the rows of a refused call tell it to come back no earlier than at this boot time.
void delay_retry(Duration until, const Rows& rows);
/// The longest that a lease under these limits can be; 0: what they count cannot be charged early.
Duration longest_lease(const CompiledPolicy& policy);

/// Of a decision that asks for no lease: notes when the keys were reported, and what it has
/// charged to them besides their leases.
class NotingCharges : public Observation {
 public:
  /// Adds what is leased to what a server has left, if that `shows_leased`.
  NotingCharges(Leases& leases, bool shows_leased) : leases_(leases), shows_leased_(shows_leased) {}
  void decided(const Call& call, const ScriptReply& reply, const Answer& answer, const Rows& rows) override;

 protected:
  [[nodiscard]] Leases& leases() const { return leases_; }

 private:
  void note_reading(const Call& call, Instant time, const Rows& rows) const;
  void show_leased(const Call& call, const Rows& rows) const;

  Leases& leases_;
  const bool shows_leased_;
};

/// Of one that may be leased: asks for a lease if its key is hot, and keeps what is granted.
class LeaseRequest : public NotingCharges {
 public:
  /// Leases live for so long at most. Who does not come back with an answer is waited for until `timeout`.
  LeaseRequest(Leases& leases, const Call& call, Duration longest, Duration timeout, Extras& extras);
  void lost() override;
  void decided(const Call& call, const ScriptReply& reply, const Answer& answer, const Rows& rows) override;

 private:
  void answered(const Call& call, Instant shown, std::optional<Cost> granted, const Rows& rows);

  const std::string policy_;
  const Duration longest_;
  const Duration asked_at_;
  Duration term_{};
  Leases::Request request_;
};

/// As long as it lives, a command may be changing a key: what is leased of it ends at both ends. What is left
/// is released, or forgotten as the key is reset.
class EndingLeases : public Observation {
 public:
  EndingLeases(Leases& leases, const Change& change);
  ~EndingLeases() override;

 private:
  void end() const;

  Leases& leases_;
  const std::string policy_;
  const std::vector<std::string> identifiers_;
  const Rest rest_;
};

}  // namespace overlimit::redis
