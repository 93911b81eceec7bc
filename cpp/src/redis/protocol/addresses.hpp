// Addresses as Redis writes them in its replies.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "overlimit/redis_site.hpp"

namespace overlimit::redis::protocol {

/// A whole number from 1 to 65535 in decimal digits, or none.
[[nodiscard]] std::optional<std::uint16_t> port_of(std::string_view digits) noexcept;

/// An address that a node of a cluster gave: an empty host is the one that was asked, and "?" is one that the
/// node does not know, so there is none.
[[nodiscard]] std::optional<HostPort> address_of(std::string_view host, std::uint16_t port,
                                                 const HostPort& asked);

}  // namespace overlimit::redis::protocol
