// A script that a server is asked to run until its reply counts, and what is made of that.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "overlimit/non_copyable.hpp"
#include "overlimit/store.hpp"
#include "redis/leases/lease_give_backs.hpp"
#include "redis/leases/leasing_calls.hpp"
#include "redis/recovery/recovery.hpp"
#include "redis/refusals/cached_refusals.hpp"
#include "redis/wire/answer.hpp"
#include "redis/wire/script_call.hpp"
#include "redis/wire/script_reply.hpp"

namespace overlimit::redis {

class Calls;

/// For the keys of one call, which are in one slot. It is prepared, sent and heard as often as it takes.
class Exchange : NonCopyable {
 public:
  /// Borrows the store and the basis. A call with an instant is dated there.
  Exchange(Calls& store, const Call& call, Basis& basis) : store_(store), call_(call), basis_(basis) {}
  Exchange(Calls& store, const Call& call, Instant now, Basis& basis)
      : store_(store), call_(call, now), basis_(basis) {}
  virtual ~Exchange() = default;

  [[nodiscard]] const Call& call() const { return *call_; }
  [[nodiscard]] Basis& basis() const { return basis_; }
  [[nodiscard]] const ScriptCall& script() const { return script_; }
  /// Whether what is left of leases goes in front of it.
  [[nodiscard]] virtual bool follows_returns() const { return false; }
  /// To be called right before it is sent. Nothing is done on keys that are not those that this process
  /// remembers, if that `may_doubt` its server.
  void prepare(bool may_doubt);
  /// Notes what goes back in front of it.
  virtual void follows(const GiveBacks& /*before*/) {}
  /// Notes that no reply came, although it may have been executed.
  virtual void lost() {}
  /// Whether the reply counts, and was read; else it is to be prepared and sent again. Throws ScriptError.
  [[nodiscard]] bool hears(protocol::Reply reply);
  /// Of a reply that does not count: what gives back what it says was charged, if anything was.
  [[nodiscard]] virtual std::optional<ScriptCall> undoing() { return std::nullopt; }
  [[nodiscard]] bool is_over() const { return is_over_; }
  /// Whether its slot was not where it was thought to be.
  bool was_redirected = false;

 protected:
  /// What is to be sent.
  [[nodiscard]] virtual ScriptCall encoded(Tells tells) = 0;
  /// Notes what is so right before that.
  virtual void begin() {}
  /// Whether the script can be told which keys are remembered.
  [[nodiscard]] virtual bool checks_births() const { return true; }
  /// Whether what was done counts although the keys may have been lost since.
  [[nodiscard]] virtual bool counts_in_doubt() const { return false; }
  /// Takes what the reply says, which counts.
  virtual void read() = 0;

  Calls& store_;
  DatedCall call_;
  Basis& basis_;
  ScriptCall script_{};
  std::optional<ScriptReply> reply_;
  bool is_lost_ = false;  // what the last reply says was done

 private:
  std::optional<Hearing> hearing_;
  bool may_doubt_ = false;
  bool was_elsewhere_ = false;
  bool is_over_ = false;
};

/// Decides a call.
class Deciding : public Exchange {
 public:
  /// Fills the rows and the time. Values of calls that are not refused are told too if `tells_all`.
  Deciding(Calls& store, const Call& call, const Rows& rows, Instant& time, Basis& basis, bool tells_all);

  [[nodiscard]] bool follows_returns() const override { return true; }
  void follows(const GiveBacks& before) override;
  void lost() override;
  [[nodiscard]] std::optional<ScriptCall> undoing() override;

 private:
  [[nodiscard]] ScriptCall encoded(Tells tells) override;
  void begin() override;
  [[nodiscard]] bool checks_births() const override { return may_charge(call()); }
  void read() override;

  const Rows rows_;
  Instant& time_;
  const bool tells_all_;
  std::optional<LeaseRequest> lease_;
  std::optional<Telling> telling_;
};

/// Gives back what a call has charged.
class Refunding : public Exchange {
 public:
  /// Borrows the receipts and `present`, which is filled unless it is nullptr.
  Refunding(Calls& store, const Call& call, std::span<const Receipt> receipts, Present* present,
            Basis& basis);

 private:
  [[nodiscard]] ScriptCall encoded(Tells tells) override;
  [[nodiscard]] bool counts_in_doubt() const override;
  void read() override;

  const std::span<const Receipt> receipts_;
  Present* const present_;
  std::optional<Changing> changing_;
};

/// Locks the identifiers of a call, or with a duration of 0 unlocks them.
class Locking : public Exchange {
 public:
  Locking(Calls& store, const Call& call, Duration duration, Basis& basis);

 private:
  [[nodiscard]] ScriptCall encoded(Tells tells) override;
  void read() override {}

  const Duration duration_;
  std::optional<Changing> changing_;
};

}  // namespace overlimit::redis
