// One server, the master behind sentinels or a cluster, as the store sees it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "breaker/breaker.hpp"
#include "overlimit/redis_location.hpp"
#include "redis/protocol/cluster_slots.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/transport/link.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

/// Finds the server for each call, also after it has moved, and retries calls that were certainly not
/// executed. A call with an unknown outcome (maybe_charged) is never sent again. Thread-safe. Connects at the
/// first call. No lock is held during a wait. Of one process: a forked child must neither use nor destroy it.
class Topology {
 public:
  /// One server: answers an encoded command before the deadline, or throws as Node::call does.
  using Server = std::function<protocol::Reply(std::string_view command, const Wait&)>;

  virtual ~Topology() = default;
  /// Whether keys have slots, and all keys of a call must be in the same.
  [[nodiscard]] virtual bool has_slots() const noexcept { return false; }

  /// Sends one encoded command to the server of the slot (none: keys have no slots) and returns its reply; an
  /// error reply only if retrying until the deadline did not help. Throws as Node::call does.
  [[nodiscard]] virtual protocol::Reply call(std::string_view command, std::optional<protocol::Slot> slot,
                                             const Wait& wait) = 0;

  /// Sends several encoded commands, each to the server of its slot, and none again. All are sent before any
  /// reply is awaited, where connections are open. Replies are set as they come, also errors that call()
  /// would retry. Throws as Node::call does where a reply doesn't come.
  virtual void call_many(std::span<const std::string> commands,
                         std::span<const std::optional<protocol::Slot>> slots,
                         std::span<std::optional<protocol::Reply>> replies, const Wait& wait) = 0;

  /// Sends a command for whose reply nobody waits, unless no connection is open.
  virtual void send(std::string_view command, std::optional<protocol::Slot> slot, const Wait& wait) = 0;

  /// The server that the next command for this slot goes to, and the newest connection to it.
  [[nodiscard]] virtual Link link(std::optional<protocol::Slot> slot) = 0;

  /// Visits all servers that hold keys of their own. The first failure is thrown at the end.
  virtual void for_each_server(const std::function<void(const Server&)>& visit, const Wait& wait) = 0;
  /// For how much longer the server's certificate was valid when a connection was last opened; nothing
  /// without TLS, or of several servers.
  [[nodiscard]] virtual std::optional<std::chrono::seconds> certificate_left() { return std::nullopt; }
  /// Connections with calls in flight close when these end. A later call opens new ones.
  virtual void close() = 0;
  /// The state of the server's breaker; the worst one if there are several servers.
  [[nodiscard]] virtual Breaker::State breaker() = 0;
};

class Node;
/// One server at one address, the master that sentinels name (sentinels.cpp), and a cluster (cluster.cpp).
[[nodiscard]] std::shared_ptr<Topology> single_server(std::shared_ptr<Node> node);
[[nodiscard]] std::shared_ptr<Topology> sentinels(const SentinelLocation& location);
[[nodiscard]] std::shared_ptr<Topology> cluster(const ClusterLocation& location);

/// This process's topology of a location, which lives as long as a pointer to it. Thread-safe.
[[nodiscard]] std::shared_ptr<Topology> topology_of(const Location& location);

}  // namespace overlimit::redis::transport
