// What calls do with the values of their keys, once a store holds these.
#pragma once

#include <vector>

#include "overlimit/uninitialised_block.hpp"
#include "overlimit/value_store.hpp"
#include "values/call_on_values.hpp"

namespace overlimit::values {

/// The keys of some charges, and what is done with their values. Each run begins anew.
class KeyedStep : public ValueStep {
 public:
  /// `keys` are those of its charges, in their order; one may come more than once.
  KeyedStep(std::vector<std::string> keys, bool reads_only);
  [[nodiscard]] std::span<const std::string> keys() const final { return keys_; }
  [[nodiscard]] bool reads_only() const final { return reads_only_; }
  [[nodiscard]] Writes run(Values values, std::optional<Instant> now) final;

 protected:
  virtual void act() = 0;
  /// The instant of a call: that of its clock, or else the store's or this process's.
  [[nodiscard]] Instant instant_of(const Call& call) const { return call.now.value_or(now_); }
  [[nodiscard]] Instant now() const { return now_; }
  /// How many charges there are, of which several may have one key.
  [[nodiscard]] std::size_t charges() const { return places_.size(); }
  /// The value of a charge, by the charge's place among all.
  [[nodiscard]] const Value& value(std::size_t charge) const { return held_[places_[charge]].value; }
  /// When the key of a charge was created, if it is written at this instant.
  [[nodiscard]] Instant creation(std::size_t charge, Instant now) const;
  /// Has a value written. It is kept for `slack` longer than its records.
  void put(std::size_t charge, Value value, Instant now, Duration slack);
  [[nodiscard]] Duration slack_of(const Call& call) const;

 private:
  struct Held {
    Value value;
    std::optional<Duration> expires_in;  // if it is to be written
  };

  std::vector<std::string> keys_;
  std::vector<std::size_t> places_;  // per charge, among the keys
  bool reads_only_;
  std::vector<Held> held_;
  Instant now_{};
  bool is_of_store_ = false;  // whether that is the store's time
};

/// A call with charges of its own, at the reading of its clock, if it has one.
class KeptCall {
 public:
  explicit KeptCall(const Call& call);
  KeptCall(const KeptCall&) = delete;
  KeptCall(KeptCall&&) = default;
  const Call& operator*() const { return call_; }

 private:
  std::vector<Charge> charges_;
  Call call_;
};

/// Decides calls, in their order.
class DecideStep final : public KeyedStep {
 public:
  DecideStep(std::span<const Call> calls, std::vector<std::string> keys);
  /// What the last run has decided.
  void tell(const Rows& rows, std::span<Instant> times) const;

 private:
  void act() override;
  void decide(const Call& call, std::size_t first_charge, const Rows& rows, Instant now);

  std::vector<KeptCall> calls_;
  std::vector<Instant> times_;
  std::size_t pairs_;
  UninitialisedBlock block_;
};

/// Takes back what a call has charged.
class RefundStep final : public KeyedStep {
 public:
  RefundStep(const Call& call, std::span<const Receipt> receipts, const Present* present,
             std::vector<std::string> keys);
  /// What is left after that.
  void tell(Present& present) const;

 private:
  void act() override;
  void show(Instant now);

  KeptCall call_;
  std::vector<Receipt> receipts_;
  std::optional<KeptCall> shown_;
  std::size_t pairs_ = 0;
  UninitialisedBlock block_;
  Instant time_{};
};

/// Locks the keys of a call by hand; for no time: lifts the locks that there are.
class LockStep final : public KeyedStep {
 public:
  LockStep(const Call& call, Duration duration, std::vector<std::string> keys);

 private:
  void act() override;

  KeptCall call_;
  Duration duration_;
};

/// Leaves nothing under keys but when they were reset: what was charged before is not refunded to what comes
/// after it, even in the same microsecond.
class ResetStep final : public KeyedStep {
 public:
  explicit ResetStep(std::vector<std::string> keys);

 private:
  void act() override;
};

/// Reads and does nothing.
class ReadStep final : public KeyedStep {
 public:
  explicit ReadStep(std::vector<std::string> keys) : KeyedStep(std::move(keys), true) {}

 private:
  void act() override {}
};

}  // namespace overlimit::values
