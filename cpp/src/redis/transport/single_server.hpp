// A topology of one server at one address.
#pragma once

#include <memory>
#include <utility>

#include "redis/transport/node.hpp"
#include "redis/transport/synchronization.hpp"
#include "redis/transport/topology.hpp"

namespace overlimit::redis::transport {

/// Connections that turn out to lead to a replica are closed: the host name may mean another server by now.
class SingleServer final : public Topology {
 public:
  explicit SingleServer(std::shared_ptr<Node> node) : node_(std::move(node)) {}

  [[nodiscard]] protocol::Reply call(std::string_view command, std::optional<protocol::Slot> slot,
                                     const Wait& wait) override;
  void call_many(std::span<const std::string> commands, std::span<const std::optional<protocol::Slot>> slots,
                 std::span<std::optional<protocol::Reply>> replies, const Wait& wait) override;
  void for_each_server(const std::function<void(const Server&)>& visit, const Wait& wait) override;
  void close() override { node_->close(); }
  [[nodiscard]] protocol::Breaker::State breaker() override { return node_->breaker(); }

 private:
  void leave_replica();

  const std::shared_ptr<Node> node_;
  RateLimitedTask leave_task_;
};

}  // namespace overlimit::redis::transport
