// What sentinels say: replies and messages, read.
#pragma once

#include <optional>
#include <string_view>

#include "overlimit/redis_site.hpp"
#include "redis/protocol/reply.hpp"

namespace overlimit::redis::protocol {

/// The reply to SENTINEL GET-MASTER-ADDR-BY-NAME. None for nil (an unknown service) and all else.
[[nodiscard]] std::optional<HostPort> named_master(const Reply& reply);

/// A service has another master.
struct Switch {
  HostPort from;
  HostPort to;
};

/// Reads a message of the channel +switch-master. None when it is something else or of another service.
[[nodiscard]] std::optional<Switch> switch_of(const Reply& message, std::string_view service);

}  // namespace overlimit::redis::protocol
