// Calls that are decided by leases, and commands that ask for one (docs/semantics.md: leases).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "overlimit/call.hpp"
#include "overlimit/redis_location.hpp"
#include "overlimit/redis_store.hpp"
#include "redis/leases/leases.hpp"
#include "redis/transport/per_process.hpp"

namespace overlimit::redis {

/// Has the rows of a refused call tell it to come back no earlier than at this boot time.
void hold_back(Duration until, const Rows& rows);

/// The longest that a lease under these limits can be; 0: what they count cannot be charged early.
Duration longest_lease(const CompiledPolicy& policy);

/// Of one store. Thread-safe.
class LeasingCalls {
 public:
  struct Options {
    KeyNaming keys;
    Duration longest;
    Duration timeout;  ///< of a command
    std::optional<RedisStore::LeaseIn> lease_in;
  };

  LeasingCalls(const Location& location, const Options& options);

  [[nodiscard]] bool is_on() const { return longest_ > Duration{}; }
  /// nullptr if nobody in this process leases.
  [[nodiscard]] Leases* wanted() {
    if (!anybody_wants_to_know.load(std::memory_order_relaxed)) return nullptr;
    Leases& leases = **leases_;
    return leases.are_wanted() ? &leases : nullptr;
  }

  /// Has the leases of this host known, too, if they are to be. To be called before the others.
  void open_file() {
    if (is_on()) (**leases_).file().open();
  }
  /// What may decide a call of one charge: its lease, and until when (boot time) this process has no turn to
  /// ask for it.
  [[nodiscard]] Leases::Found find(const Call& call);
  /// Whether the lease that was found decides the call; then its rows, time and basis are set.
  bool spend(const Leases::Found& found, const Call& call, const Rows& rows, Instant& time, Basis& basis);
  /// Whether the call is refused until its turn, as this process was granted less than it wanted.
  static bool refuse_until_turn(const Leases::Found& found, const Rows& rows, Instant& time, Basis& basis);
  /// Whether a call may be cut into what is leased and what is asked for.
  [[nodiscard]] bool may_cut(const Call& call) const;
  /// The lease of a key that has enough for this charge, or nullptr.
  [[nodiscard]] std::shared_ptr<Lease> usable(const Charge& charge);
  /// Whether this charge comes so often that a command of its own would ask for a lease.
  [[nodiscard]] bool is_hot(const Charge& charge);
  /// Adds what is leased here to what a server has left, for charges of cost 0, which ask it.
  void show_held(const Call& call, const Rows& rows);
  /// Gives what a leased decision has spent back to its lease, if that lives.
  bool put_back(const Call& call, std::span<const Receipt> receipts);
  /// Puts back what was taken of a lease and is not spent.
  void put_back(const std::shared_ptr<Lease>& lease, Cost units);

 private:
  friend class LeaseRequest;
  /// Whether a lease is no older than this store leases for: another one may lease for longer.
  [[nodiscard]] bool is_recent(const Lease& lease, Duration now) const {
    return now - lease.terms().told.asked_at < longest_;
  }

  void make_way(const Call& call);

  const Duration longest_;
  const Duration timeout_;
  transport::PerProcess<std::shared_ptr<Leases>> leases_;
};

/// What one command asks for a lease. To be made before it is sent.
class LeaseRequest {
 public:
  LeaseRequest(LeasingCalls& leasing, const Call& call);

  /// How many extra units it asks for, and for how long at most; 0: none.
  [[nodiscard]] Cost extra() const { return asking_.extra; }
  [[nodiscard]] Duration life() const { return life_; }
  /// Notes that no reply came, although units may have been charged.
  void lost(const Call& call) const;
  /// Notes what a reply says that was read just now, and adds to the rows what is leased.
  void answered(const Call& call, Instant shown, std::optional<Cost> granted, const Rows& rows);

 private:
  void note_told(const Call& call, Instant time, const Rows& rows) const;

  Leases* known_ = nullptr;   // nullptr: nobody in this process leases
  Leases* leases_ = nullptr;  // nullptr: nothing can be leased for this call
  Duration longest_{};
  Duration life_{};
  Leases::Asking asking_;
  Duration asked_at_{};
};

/// As long as it lives, a command may be changing a key: what is leased of it ends at both ends. What is left
/// goes back, or is forgotten as the key is reset.
class EndingLeases : NonCopyable {
 public:
  enum class Then : bool { is_forgotten, goes_back };
  /// Of these identifiers; none: of all of the policy. Borrows both.
  EndingLeases(LeasingCalls& leasing, std::string_view policy, std::vector<std::string_view> identifiers,
               Then then);
  ~EndingLeases();

 private:
  void end() const;

  Leases* leases_;
  std::string_view policy_;
  std::vector<std::string_view> identifiers_;
  Then then_;
};

}  // namespace overlimit::redis
