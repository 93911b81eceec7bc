// What stands over the plain store: the interface of the layers that options add, and of those who hear of
// its commands.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/non_copyable.hpp"
#include "overlimit/store.hpp"
#include "redis/transport/waiting.hpp"
#include "redis/wire/answer.hpp"
#include "redis/wire/script_call.hpp"
#include "redis/wire/script_reply.hpp"

namespace overlimit::redis {

class Exchange;
class StoreClient;
using transport::Wait;

/// What is to be made of a reply.
enum class Trust : std::uint8_t {
  trusted,  ///< it counts
  suspect,  ///< its server may have lost keys: what was done is undone, if it is still there, and done again
  lost,     ///< what it says was done is lost: it is done again
};

/// What is asked for besides what an exchange is about.
struct Extras {
  Cost lease = 0;                     ///< units to be charged early
  Duration term{};                    ///< how long these may be spent at most
  Reports reports = Reports::charge;  ///< of the values of the keys
  std::string incarnations = {};      ///< of the keys that are meant (ScriptCall)
};

/// What an observer does about one attempt of an exchange: made right before it is sent, gone once it is
/// over.
class Observation : NonCopyable {
 public:
  virtual ~Observation() = default;
  /// A command that changes these keys goes to their server in front of it.
  virtual void comes_after(const std::vector<std::string>& /*keys*/) {}
  /// No reply came, although it may have been executed.
  virtual void lost() {}
  virtual Trust judge(const ScriptReply& /*reply*/) { return Trust::trusted; }
  /// The call was decided so. May add to the rows.
  virtual void decided(const Call& /*call*/, const ScriptReply& /*reply*/, const Answer& /*answer*/,
                       const Rows& /*rows*/) {}
};

/// Does something as long as keys may be changing: at both ends.
class AtBothEnds final : public Observation {
 public:
  explicit AtBothEnds(std::function<void()> action) : action_(std::move(action)) { action_(); }
  ~AtBothEnds() override { action_(); }

 private:
  const std::function<void()> action_;
};

/// What a command other than a decision does to keys.
struct Change {
  enum class Kind : std::uint8_t { other, lock, reset };

  std::span<const std::string> keys;  ///< none: all of the policy
  Kind kind = Kind::other;
  std::string_view policy = {};                        ///< of a lock or a reset
  std::span<const std::string_view> identifiers = {};  ///< likewise; none: all
  std::span<const std::string> starts = {};            ///< with all of a policy: what their keys begin with
};

/// Hears of all that this process does to the keys of one keyspace, whichever store does it. Thread-safe.
class Observer {
 public:
  /// What it keeps, in the order in which they hear of an exchange.
  enum class Keeps : std::uint8_t { values, leases, snapshots, count_ };
  static constexpr auto kKinds = std::size_t(Keeps::count_);

  virtual ~Observer() = default;
  /// To be kept with the next attempt of an exchange, for which it may want more; nullptr: that is nothing to
  /// it.
  virtual std::unique_ptr<Observation> observe_attempt(const Exchange& /*exchange*/, Extras& /*extras*/) {
    return nullptr;
  }
  /// To be kept as long as the keys may be changing; nullptr: that is nothing to it.
  virtual std::unique_ptr<Observation> observe_change(const Change& /*change*/) { return nullptr; }
  /// What this process has sent changes these keys within so long, and nobody hears of it.
  virtual void changes_unheard(std::span<const std::string> /*keys*/, Duration /*within*/) {}
  /// Adds what is to be sent in front of the next decision.
  virtual void add_releases(StoreClient& /*store*/, std::vector<std::unique_ptr<Exchange>>& /*releases*/) {}
  /// Whether the server of a key may have lost it.
  [[nodiscard]] virtual bool suspects(std::string_view /*key*/) { return false; }
};

/// Calls of one store: the plain ones that ask its servers, or a layer over those.
class Calls : NonCopyable {
 public:
  virtual ~Calls() = default;
  /// Whether a call was decided by what this process knows; then its rows, time and basis are set. Before the
  /// boot time `next_ask_at` nobody asks.
  virtual bool decide_here(const Call& call, Duration next_ask_at, const Rows& rows, Instant& time,
                           Basis& basis) = 0;
  /// Whether any call may be decided so.
  [[nodiscard]] virtual bool may_decide_here() const = 0;
  /// Whether a call is decided in several steps, so that no other is under way at the same time.
  [[nodiscard]] virtual bool is_decided_apart(const Call& call) = 0;
  virtual Instant decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) = 0;
  virtual void refund(const Call& call, std::span<const Receipt> receipts, Present* present,
                      const Wait& wait) = 0;
  /// Refunds what a call has charged that is not admitted after all. Nobody hears whether it arrives.
  virtual void send_refund(const Call& call, std::span<const Receipt> receipts, Basis& basis,
                           const Wait& wait) = 0;
  virtual void reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
                     const Interrupted& interrupted) = 0;
  virtual void reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) = 0;
  virtual void close() = 0;
};

/// What an option adds, over those below.
class Layer : public Calls, public Observer {
 public:
  explicit Layer(Calls& below) : below_(below) {}

  bool decide_here(const Call& call, Duration next_ask_at, const Rows& rows, Instant& time,
                   Basis& basis) override {
    return below_.decide_here(call, next_ask_at, rows, time, basis);
  }
  [[nodiscard]] bool may_decide_here() const override { return below_.may_decide_here(); }
  [[nodiscard]] bool is_decided_apart(const Call& call) override { return below_.is_decided_apart(call); }
  Instant decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) override {
    return below_.decide(call, rows, basis, wait);
  }
  void refund(const Call& call, std::span<const Receipt> receipts, Present* present,
              const Wait& wait) override {
    below_.refund(call, receipts, present, wait);
  }
  void send_refund(const Call& call, std::span<const Receipt> receipts, Basis& basis,
                   const Wait& wait) override {
    below_.send_refund(call, receipts, basis, wait);
  }
  void reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
             const Interrupted& interrupted) override {
    below_.reset(policy, identifiers, interrupted);
  }
  void reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) override {
    below_.reset_all(policy, interrupted);
  }
  void close() override { below_.close(); }

  /// Before exchanges are prepared: what is to be done first. May wait.
  virtual void precede(std::span<Exchange* const> /*exchanges*/, const Wait& /*wait*/) {}
  /// Undoes what replies that do not count say was charged.
  virtual void undo(std::span<const ScriptCall> /*refunds*/, Basis& /*basis*/, const Wait& /*wait*/) {}

 protected:
  [[nodiscard]] Calls& below() { return below_; }

 private:
  Calls& below_;
};

}  // namespace overlimit::redis
