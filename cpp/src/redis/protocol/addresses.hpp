// Addresses as Redis writes them in its replies, and redirections.
#pragma once

#include <optional>
#include <string_view>

#include "overlimit/redis_location.hpp"
#include "redis/protocol/cluster_slots.hpp"

namespace overlimit::redis::protocol {

/// A whole number from 1 to 65535 in decimal digits, or none.
[[nodiscard]] std::optional<std::uint16_t> port_of(std::string_view digits) noexcept;

/// An empty host stands for the node that was asked; for "?", which a node does not know, there is none.
[[nodiscard]] std::optional<HostPort> address_of(std::string_view host, std::uint16_t port,
                                                 const HostPort& asked);

/// Where a node of a cluster redirects a command to.
struct Redirection {
  Slot slot = 0;
  HostPort to;
};

/// Reads "MOVED 3999 host:port" or "ASK 3999 host:port". None when it is malformed or has no address.
[[nodiscard]] std::optional<Redirection> redirection_of(std::string_view error, const HostPort& asked);

}  // namespace overlimit::redis::protocol
