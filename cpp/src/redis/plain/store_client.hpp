// What all calls of one store go through: its servers, the exchanges that these are asked for, and those who
// observe them.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "redis/plain/exchange.hpp"
#include "redis/plain/keyspace.hpp"
#include "redis/plain/layer.hpp"
#include "redis/plain/servers.hpp"
#include "redis/wire/keys.hpp"
#include "redis/wire/script.hpp"

namespace overlimit::redis {

/// Thread-safe. Throws as Store does.
class StoreClient {
 public:
  StoreClient(Location location, KeyNaming keys, Duration timeout);

  /// Where all calls of the store begin; at first the plain ones, which say so.
  [[nodiscard]] Calls& top() { return *top_; }
  void begin_at(Calls& plain) { top_ = &plain; }
  /// Puts a layer above all others, which keeps this if it keeps anything.
  void add(Layer& layer, std::optional<Observer::Keeps> what = std::nullopt);

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

 private:
  protocol::Reply ask(Exchange& exchange, const Wait& wait);
  std::vector<Exchange*> ask(std::span<Exchange* const> exchanges, FirstError& failure, const Wait& wait);

  const KeyNaming naming_;
  Servers servers_;
  const Scripts scripts_;
  transport::PerProcess<std::shared_ptr<Keyspace>> keyspace_;
  Calls* top_ = nullptr;
  std::vector<Layer*> layers_;  // the lowest first
  std::array<Observer*, Observer::kKinds> keepers_{};
};

void StoreClient::for_each_observer(const auto& action) {
  const bool is_observed = keyspace().is_observed();
  if (layers_.empty() && !is_observed) return;
  for (std::size_t what = 0; what < Observer::kKinds; ++what) {
    Observer* const of_keyspace = is_observed ? keyspace().observer(Observer::Keeps(what)) : nullptr;
    if (Observer* const observer = keepers_[what] != nullptr ? keepers_[what] : of_keyspace)
      action(*observer);
  }
}

}  // namespace overlimit::redis
