#include "redis/protocol/addresses.hpp"

#include <charconv>
#include <string>
#include <system_error>

namespace overlimit::redis::protocol {

std::optional<std::uint16_t> port_of(std::string_view digits) noexcept {
  std::uint16_t port = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, port);
  if (error != std::errc() || stopped != end || port == 0) return std::nullopt;
  return port;
}

std::optional<HostPort> address_of(std::string_view host, std::uint16_t port, const HostPort& asked) {
  if (host == "?" || port == 0) return std::nullopt;
  return HostPort{host.empty() ? asked.host : std::string(host), port};
}

namespace {

std::optional<Slot> slot_of(std::string_view digits) noexcept {
  Slot slot = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, slot);
  if (error != std::errc() || stopped != end || slot >= kSlots) return std::nullopt;
  return slot;
}

}  // namespace

std::optional<Redirection> redirection_of(std::string_view error, const HostPort& asked) {
  const std::size_t slot_at = error.find(' ') + 1;
  const std::size_t host_at = error.find(' ', slot_at) + 1;
  const std::size_t colon = error.rfind(':');
  if (slot_at == 0 || host_at == 0 || colon == std::string_view::npos || colon < host_at) return std::nullopt;
  const std::optional<Slot> slot = slot_of(error.substr(slot_at, host_at - 1 - slot_at));
  const std::optional<std::uint16_t> port = port_of(error.substr(colon + 1));
  if (!slot || !port) return std::nullopt;
  const std::optional<HostPort> to = address_of(error.substr(host_at, colon - host_at), *port, asked);
  return to ? std::optional<Redirection>({*slot, *to}) : std::nullopt;
}

}  // namespace overlimit::redis::protocol
