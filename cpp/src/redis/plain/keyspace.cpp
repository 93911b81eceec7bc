#include "redis/plain/keyspace.hpp"

#include <variant>

#include "redis/transport/per_process.hpp"

namespace overlimit::redis {

// Whoever it is asked as.
std::string name_of_keyspace(const Location& location, const KeyNaming& keys) {
  int database = 0;
  if (const auto* endpoint = std::get_if<Endpoint>(&location)) database = endpoint->database;
  if (const auto* sentinels = std::get_if<SentinelLocation>(&location)) database = sentinels->server.database;
  const std::string where = std::visit([](const auto& each) { return describe(each); }, location);
  return where + " " + std::to_string(database) + " " + keys.prefix + " " +
         std::to_string(int(keys.hash_tag)) + (keys.hash_identifiers ? " hashed" : "");
}

std::shared_ptr<Keyspace> Keyspace::of(const Location& location, const KeyNaming& keys) {
  using Keyspaces = transport::Registry<std::string, Keyspace>;
  static constinit transport::ProcessSlot<Keyspaces> keyspaces;
  return keyspaces.get([] { return std::make_unique<Keyspaces>(); }).of(name_of_keyspace(location, keys), [] {
    return std::make_shared<Keyspace>();
  });
}

Observer& Keyspace::observer_made_by(Observer::Keeps what,
                                     const std::function<std::unique_ptr<Observer>()>& make) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Observer>& owned = owned_[std::size_t(what)];
  if (owned == nullptr) {
    owned = make();
    observers_[std::size_t(what)].store(owned.get(), std::memory_order_release);
    is_observed_.store(true, std::memory_order_release);
  }
  return *owned;
}

}  // namespace overlimit::redis
