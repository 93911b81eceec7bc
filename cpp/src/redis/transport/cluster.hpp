// A Redis Cluster.
#pragma once

#include <utility>

#include "redis/transport/cluster_nodes.hpp"
#include "redis/transport/topology.hpp"

namespace overlimit::redis::transport {

/// Sends each call to the node that serves its slot, and follows redirections. A node that is down fails only
/// the calls of its own slots.
class Cluster final : public Topology {
 public:
  explicit Cluster(ClusterLocation location) : nodes_(std::move(location)) {}

  [[nodiscard]] bool has_slots() const noexcept override { return true; }
  [[nodiscard]] protocol::Reply call(std::string_view command, std::optional<protocol::Slot> slot,
                                     const Wait& wait) override;
  void call_many(std::span<const std::string> commands, std::span<const std::optional<protocol::Slot>> slots,
                 std::span<std::optional<protocol::Reply>> replies, const Wait& wait) override;
  void for_each_server(const std::function<void(const Server&)>& visit, const Wait& wait) override;
  void close() override { nodes_.close(); }
  [[nodiscard]] protocol::Breaker::State breaker() override { return nodes_.breaker(); }

 private:
  ClusterNodes nodes_;
};

}  // namespace overlimit::redis::transport
