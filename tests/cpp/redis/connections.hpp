// The connections to one Redis server, through forks.
#pragma once

#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../fibers/loop.hpp"
#include "overlimit/fibers.hpp"
#include "overlimit/redis_location.hpp"
#include "redis/transport/node.hpp"
#include "redis/transport/per_process.hpp"

namespace overlimit::redis::transport {

/// The node of an endpoint in whatever process it is used. A child of fork() gets connections of its own; the
/// parent's are left undisturbed. Thread-safe; only the destructor must not run during a call.
class Connections {
 public:
  /// Connects to nothing. Those of an event loop, if there is one: each call of a thread is then a fiber,
  /// which the thread waits for.
  explicit Connections(Endpoint endpoint, Fibers* fibers = nullptr)
      : endpoint_(std::move(endpoint)),
        fibers_(fibers),
        node_([this] { return std::make_unique<std::shared_ptr<Node>>(node_of(endpoint_)); }) {}

  /// See Node::call, close and breaker.
  [[nodiscard]] protocol::Reply call(std::string_view request, const Wait& wait) {
    return of_node([&](Node& node) { return node.call({request}, wait); });
  }
  void close() {
    of_node([](Node& node) { return node.close(), 0; });
  }
  [[nodiscard]] Breaker::State breaker() {
    return of_node([](const Node& node) { return node.breaker(); });
  }

  [[nodiscard]] const Endpoint& endpoint() const noexcept { return endpoint_; }

 private:
  template <class Action>
  std::invoke_result_t<Action, Node&> of_node(const Action& action) {
    if (fibers_ == nullptr || Fibers::current() != nullptr) return action(**node_);
    return testing::on_fiber(*fibers_, [&] { return action(**node_); });
  }

  const Endpoint endpoint_;
  Fibers* const fibers_;
  PerProcess<std::shared_ptr<Node>> node_;
};

}  // namespace overlimit::redis::transport
