// The connections to one Redis server, through forks.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "overlimit/redis_location.hpp"
#include "redis/transport/node.hpp"
#include "redis/transport/per_process.hpp"

namespace overlimit::redis::transport {

/// The node of an endpoint in whatever process it is used. A child of fork() gets connections of its own; the
/// parent's are left undisturbed. Thread-safe; only the destructor must not run during a call.
class Connections {
 public:
  /// Connects to nothing.
  explicit Connections(Endpoint endpoint)
      : endpoint_(std::move(endpoint)),
        node_([this] { return std::make_unique<std::shared_ptr<Node>>(node_of(endpoint_)); }) {}

  /// See Node::call, close and breaker.
  [[nodiscard]] protocol::Reply call(std::string_view request, const Wait& wait) {
    return (*node_)->call({request}, wait);
  }
  void close() { (*node_)->close(); }
  [[nodiscard]] protocol::Breaker::State breaker() { return (*node_)->breaker(); }

  [[nodiscard]] const Endpoint& endpoint() const noexcept { return endpoint_; }

 private:
  const Endpoint endpoint_;
  PerProcess<std::shared_ptr<Node>> node_;
};

}  // namespace overlimit::redis::transport
