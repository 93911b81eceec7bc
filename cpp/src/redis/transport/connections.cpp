#include "redis/transport/connections.hpp"

#include <utility>

namespace overlimit::redis::transport {

Connections::Connections(Endpoint endpoint)
    : endpoint_(std::move(endpoint)),
      node_([this] { return std::make_unique<std::shared_ptr<Node>>(node_of(endpoint_)); }) {}

}  // namespace overlimit::redis::transport
