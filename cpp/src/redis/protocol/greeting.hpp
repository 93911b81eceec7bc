// What a server tells about itself when it is greeted.
#pragma once

#include <optional>

#include "overlimit/redis_endpoint.hpp"
#include "redis/protocol/cause.hpp"
#include "redis/protocol/reply.hpp"

namespace overlimit::redis::protocol {

/// Why this server must not be used, from its reply to HELLO or SELECT, if so: it refused, is older than
/// Redis 6.2, or a replica where the endpoint wants a master.
[[nodiscard]] std::optional<Cause> objection_to(const Reply& reply, const Endpoint& endpoint);

}  // namespace overlimit::redis::protocol
