// The calls of a store without options: scripts that its servers run. Layers add what options say.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "redis/plain/exchange.hpp"
#include "redis/plain/keyspace.hpp"
#include "redis/plain/layer.hpp"
#include "redis/plain/servers.hpp"
#include "redis/wire/keys.hpp"
#include "redis/wire/script.hpp"

namespace overlimit::redis {

/// The call at the instant that its clock reads now. The server reads its own.
inline Call with_reading(Call call) {
  call.now = call.reading();
  return call;
}

/// Those of a store without options, below all layers. Thread-safe. Throws as Store does.
class PlainCalls final : public Calls {
 public:
  PlainCalls(Location location, KeyNaming keys, Duration timeout);

  /// Puts a layer above all others, which keeps this if it keeps anything.
  void add(Layer& layer, std::optional<Observer::Keeps> what = std::nullopt);
  [[nodiscard]] Calls& top() { return layers_.empty() ? static_cast<Calls&>(*this) : *layers_.back(); }

  // Of a store as a whole, by its layers.
  void decide_many(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                   std::span<Basis> bases, const Wait& wait);
  /// Locks the identifiers of a call, or with a duration of 0 unlocks them.
  void lock(const Call& call, Duration duration, const Interrupted& interrupted);

  // Below all layers, for keys in one slot.
  bool decide_here(const Call& /*call*/, Duration /*next_ask_at*/, const Rows& /*rows*/, Instant& /*time*/,
                   Basis& /*basis*/) override {
    return false;
  }
  [[nodiscard]] bool may_decide_here() const override { return false; }
  [[nodiscard]] bool is_decided_apart(const Call& /*call*/) override { return false; }
  Instant decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) override;
  void refund(const Call& call, std::span<const Receipt> receipts, Present* present,
              const Wait& wait) override;
  void send_refund(const Call& call, std::span<const Receipt> receipts, Basis& basis,
                   const Wait& wait) override;
  void reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
             const Interrupted& interrupted) override;
  void reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) override;
  void close() override { servers_.topology().close(); }

  // For layers.
  /// Runs an exchange until its reply counts.
  void run(Exchange& exchange, const Wait& wait);
  /// The same for several, which are under way at the same time. Returns the first failure, after which those
  /// that are left are not sent again.
  FirstError run(std::span<Exchange* const> exchanges, const Wait& wait);
  /// Runs scripts of one kind, each once, at the same time.
  std::vector<protocol::Reply> replies_to(std::span<const ScriptCall* const> scripts, const Wait& wait);
  /// Has all observers know of a change, as long as this is kept.
  using Changes = std::vector<std::unique_ptr<Observation>>;
  [[nodiscard]] Changes announce(const Change& change);
  /// Calls action(observer) with those of this store, and of its keyspace for what it does not keep itself.
  void for_each_observer(const auto& action);

  [[nodiscard]] Servers& servers() { return servers_; }
  [[nodiscard]] Keyspace& keyspace() { return **keyspace_; }
  [[nodiscard]] const KeyNaming& naming() const { return naming_; }
  [[nodiscard]] const Scripts& scripts() const { return scripts_; }
  [[nodiscard]] std::string key_of(const Charge& charge) const {
    return redis::key_of(naming_, charge.policy->name(), charge.identifier);
  }
  [[nodiscard]] std::vector<std::string> keys_of(const Call& call) const;
  [[nodiscard]] std::vector<std::string> keys_of(const PolicyIdentity& policy,
                                                 std::span<const std::string_view> identifiers) const;

 private:
  protocol::Reply ask(Exchange& exchange, const Wait& wait);
  std::vector<Exchange*> ask(std::span<Exchange* const> exchanges, FirstError& failure, const Wait& wait);
  void decide_together(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                       std::span<Basis> bases, const Wait& wait);

  const KeyNaming naming_;
  Servers servers_;
  const Scripts scripts_;
  transport::PerProcess<std::shared_ptr<Keyspace>> keyspace_;
  std::vector<Layer*> layers_;  // the lowest first
  std::array<Observer*, Observer::kKinds> keepers_{};
};

void PlainCalls::for_each_observer(const auto& action) {
  const bool is_observed = keyspace().is_observed();
  if (layers_.empty() && !is_observed) return;
  for (std::size_t what = 0; what < Observer::kKinds; ++what) {
    Observer* const of_keyspace = is_observed ? keyspace().observer(Observer::Keeps(what)) : nullptr;
    if (Observer* const observer = keepers_[what] != nullptr ? keepers_[what] : of_keyspace)
      action(*observer);
  }
}

}  // namespace overlimit::redis
