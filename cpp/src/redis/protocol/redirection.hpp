// Where a node of a cluster sends a call that is not for it.
#pragma once

#include <optional>
#include <string_view>

#include "overlimit/redis_site.hpp"
#include "redis/protocol/key_slot.hpp"

namespace overlimit::redis::protocol {

struct Redirection {
  Slot slot = 0;
  HostPort to;
};

/// Reads "MOVED 3999 host:port" or "ASK 3999 host:port"; failures.hpp tells which. None when it is not that,
/// or names nobody.
[[nodiscard]] std::optional<Redirection> redirection_of(std::string_view error, const HostPort& asked);

}  // namespace overlimit::redis::protocol
