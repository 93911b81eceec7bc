// Where Redis lives, as the store sees it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "overlimit/redis_site.hpp"
#include "redis/protocol/breaker.hpp"
#include "redis/protocol/key_slot.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/transport/deadline.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// Finds the server for each call, follows it when it moves, and asks again, within the deadline, what was
/// provably not executed. A call whose outcome is unknown (maybe_charged) is never sent again.
///
/// Thread-safe. Starts no thread and connects to nothing before the first call. No lock is held while anyone
/// waits. To be used in one process only: a forked child makes another, and never destroys this one.
class Deployment {
 public:
  /// One server: answers an encoded request before the deadline, or throws as Node::call does.
  using Server =
      std::function<protocol::Reply(std::string_view request, const Deadline&, const Interrupted&)>;

  Deployment() = default;
  Deployment(const Deployment&) = delete;
  Deployment& operator=(const Deployment&) = delete;
  virtual ~Deployment() = default;

  /// Whether keys have slots, and all keys of a call must be in the same.
  [[nodiscard]] virtual bool has_slots() const noexcept = 0;

  /// Sends one encoded request to the server of the slot (none: keys have no slots) and returns its reply,
  /// an error reply only if nothing could be done about it before the deadline. Throws as Node::call
  /// does.
  [[nodiscard]] virtual protocol::Reply call(std::string_view request, std::optional<protocol::Slot> slot,
                                             const Deadline& deadline, const Interrupted& interrupted) = 0;

  /// Shows every server that holds keys of its own, after finding them before the deadline. One that fails
  /// doesn't keep the others from being shown; the first failure is thrown when all were.
  virtual void for_each_server(const std::function<void(const Server&)>& visit, const Deadline& deadline,
                               const Interrupted& interrupted) = 0;

  /// Closes the connections, those with a call under way when that ends. A later call opens new ones.
  virtual void close() = 0;

  /// How it stands with the server, the worst one if there are several.
  [[nodiscard]] virtual protocol::Breaker::State breaker() = 0;
};

/// This process's deployment of a site, as long as somebody holds it. Connects to nothing. Thread-safe.
[[nodiscard]] std::shared_ptr<Deployment> deployment_of(const Site& site);

}  // namespace overlimit::redis::transport
