// A script that a server is asked to run until its reply counts, and what is made of that.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "redis/plain/layer.hpp"

namespace overlimit::redis {

class DecideExchange;

/// For keys that are in one slot. It is prepared and sent as often as it takes.
class Exchange : NonCopyable {
 public:
  virtual ~Exchange() = default;

  [[nodiscard]] const KeysOfCall& keys() const { return script_.keys.empty() ? keys_ : script_.keys; }
  [[nodiscard]] const ScriptCall& script() const { return script_; }
  [[nodiscard]] Basis& basis() const { return basis_; }
  /// The charges whose keys these are; none: it is about units of a lease.
  [[nodiscard]] virtual std::span<const Charge> charges() const { return {}; }
  /// Whether it goes by the server's clock.
  [[nodiscard]] virtual bool goes_by_server() const { return true; }
  /// This, if it decides a call.
  [[nodiscard]] virtual const DecideExchange* deciding() const { return nullptr; }
  /// Whether its script takes which keys are meant.
  [[nodiscard]] virtual bool takes_incarnations() const { return true; }
  /// Whether its reply is taken for what it is, as it has been sent again too often.
  [[nodiscard]] bool is_last_attempt() const { return attempts_ > kMostAttempts; }

  /// To be called right before it is sent.
  void prepare();
  /// Notes that a command goes in front of it that changes these keys.
  void comes_after(const std::vector<std::string>& keys);
  /// Notes that no reply came, although it may have been executed.
  void lost();
  /// Whether the reply counts, and was read; else it is to be prepared and sent again. Throws ScriptError.
  [[nodiscard]] bool accepts(protocol::Reply reply);
  /// Of a reply that does not count: what refunds what it says was charged, if anything was.
  [[nodiscard]] virtual std::optional<ScriptCall> undoing() { return std::nullopt; }
  [[nodiscard]] bool is_over() const { return is_over_; }
  /// Of one that is sent in front of others, once: whether with its text, and what came for it.
  [[nodiscard]] virtual bool is_sent_with_text() const { return false; }
  virtual void arrived(std::optional<protocol::Reply>& /*reply*/) {}
  /// Whether its slot was not where it was thought to be.
  bool was_redirected = false;

 protected:
  /// How often it is sent before its reply is taken for what it is.
  static constexpr int kMostAttempts = 16;

  /// Borrows the basis.
  Exchange(StoreClient& store, KeysOfCall keys, Basis& basis)
      : store_(store), keys_(std::move(keys)), basis_(basis) {}

  /// The keys, for the script of the next attempt.
  [[nodiscard]] KeysOfCall take_keys() { return std::move(keys_); }

  [[nodiscard]] virtual ScriptCall encoded(const Extras& extras) = 0;
  /// Whether what was done counts although the keys may have been lost since.
  [[nodiscard]] virtual bool counts_if_suspect() const { return false; }
  /// Takes what the reply says, which counts.
  virtual void read() {}
  /// Has the call be one at the instant of the server's clock.
  virtual void move_to(Instant /*now*/) {}

  StoreClient& store_;
  std::vector<std::unique_ptr<Observation>> observations_;
  std::optional<ScriptReply> reply_;
  bool is_lost_ = false;  // what the last reply says was done

 private:
  KeysOfCall keys_;  // unless the script has them
  Basis& basis_;
  ScriptCall script_{};
  int attempts_ = 0;
  bool was_elsewhere_ = false;
  bool is_over_ = false;
};

/// Decides a call.
class DecideExchange : public Exchange {
 public:
  /// Fills the rows and the time. `is_part` of a call whose other parts are decided elsewhere.
  DecideExchange(StoreClient& store, const Call& call, const Rows& rows, Instant& time, Basis& basis,
                 bool is_part = false);

  [[nodiscard]] const Call& call() const { return *call_; }
  [[nodiscard]] std::span<const Charge> charges() const override { return call().charges; }
  [[nodiscard]] bool goes_by_server() const override { return redis::goes_by_server(call()); }
  [[nodiscard]] const DecideExchange* deciding() const override { return this; }
  [[nodiscard]] bool takes_incarnations() const override { return may_charge(*call_); }
  [[nodiscard]] bool is_part() const { return is_part_; }
  [[nodiscard]] std::optional<ScriptCall> undoing() override;

 private:
  [[nodiscard]] ScriptCall encoded(const Extras& extras) override;
  void read() override;
  void move_to(Instant now) override { call_.move_to(now); }

  DatedCall call_;
  const Rows rows_;
  Instant& time_;
  const bool is_part_;
};

/// Refunds what a call has charged.
class RefundExchange : public Exchange {
 public:
  /// Borrows the receipts and `present`, which is filled unless it is nullptr.
  RefundExchange(StoreClient& store, const Call& call, std::span<const Receipt> receipts, Present* present,
                 Basis& basis);

  [[nodiscard]] std::span<const Charge> charges() const override { return call_.charges; }
  [[nodiscard]] bool goes_by_server() const override { return redis::goes_by_server(call_); }

 private:
  [[nodiscard]] ScriptCall encoded(const Extras& extras) override;
  [[nodiscard]] bool counts_if_suspect() const override;
  void read() override;

  const Call call_;
  const std::span<const Receipt> receipts_;
  Present* const present_;
};

/// Locks the identifiers of a call, or with a duration of 0 unlocks them.
class LockExchange : public Exchange {
 public:
  LockExchange(StoreClient& store, const Call& call, Duration duration, Basis& basis);

  [[nodiscard]] std::span<const Charge> charges() const override { return call_.charges; }
  [[nodiscard]] bool goes_by_server() const override { return redis::goes_by_server(call_); }

 private:
  [[nodiscard]] ScriptCall encoded(const Extras& extras) override;

  const Call call_;
  const Duration duration_;
};

}  // namespace overlimit::redis
