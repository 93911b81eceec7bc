// The servers this process talks to: one Node per endpoint, however many stores use it.
#pragma once

#include <memory>

#include "redis/transport/node.hpp"

namespace overlimit::redis::transport {

/// This process's node of an endpoint; it and its connections live as long as somebody holds it. Thread-safe.
[[nodiscard]] std::shared_ptr<Node> node_of(const Endpoint& endpoint);

}  // namespace overlimit::redis::transport
