#include "redis/transport/nodes.hpp"

#include <mutex>
#include <vector>

#include "redis/transport/per_process.hpp"

namespace overlimit::redis::transport {
namespace {

class Nodes {
 public:
  [[nodiscard]] std::shared_ptr<Node> of(const Endpoint& endpoint) {
    const std::lock_guard lock(mutex_);
    std::erase_if(nodes_, [](const auto& node) { return node.expired(); });
    for (const auto& each : nodes_) {
      if (auto node = each.lock(); node && node->endpoint() == endpoint) return node;
    }
    auto node = std::make_shared<Node>(endpoint);
    nodes_.push_back(node);
    return node;
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Node>> nodes_;  // guarded by mutex_
};

}  // namespace

std::shared_ptr<Node> node_of(const Endpoint& endpoint) {
  // Never destroyed: stores may be used while the process ends.
  static auto& nodes = *new PerProcess<Nodes>([] { return std::make_unique<Nodes>(); });
  return nodes->of(endpoint);
}

}  // namespace overlimit::redis::transport
