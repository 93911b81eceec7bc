// What a process knows belongs to a place: an address, and the names of the keys there, whichever stores use
// them.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <tuple>
#include <variant>

#include "overlimit/redis_location.hpp"
#include "overlimit/redis_store.hpp"
#include "redis/transport/per_process.hpp"

namespace overlimit::redis {

/// Whether any store of this process wants to know or leases anything: otherwise nobody need look.
inline std::atomic<bool> anybody_wants_to_know{false};

/// Whoever it is asked as.
using PlaceName = std::tuple<std::string, int, std::string, HashTag, bool>;

inline PlaceName place_name(const Location& location, const KeyNaming& keys) {
  int database = 0;
  if (const auto* endpoint = std::get_if<Endpoint>(&location)) database = endpoint->database;
  if (const auto* sentinels = std::get_if<SentinelLocation>(&location)) database = sentinels->server.database;
  std::string where = std::visit([](const auto& each) { return describe(each); }, location);
  return {std::move(where), database, keys.prefix, keys.hash_tag, keys.hash_identifiers};
}

/// The same for those who share it with other processes.
inline std::string text_of(const PlaceName& name) {
  const auto& [where, database, prefix, hash_tag, hashes] = name;
  return where + " " + std::to_string(database) + " " + prefix + " " + std::to_string(int(hash_tag)) +
         (hashes ? " hashed" : "");
}

/// That of this process which is known in a place, as long as somebody uses it.
template <class Known>
std::shared_ptr<Known> of_place(const Location& location, const KeyNaming& keys) {
  using Places = transport::Registry<PlaceName, Known>;
  static constinit transport::ProcessSlot<Places> places;
  return places.get([] { return std::make_unique<Places>(); }).of(place_name(location, keys), [] {
    return std::make_shared<Known>();
  });
}

}  // namespace overlimit::redis
