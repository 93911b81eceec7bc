#include "redis/protocol/addresses.hpp"

#include <charconv>
#include <system_error>

namespace overlimit::redis::protocol {

namespace {

template <class Number>
std::optional<Number> number_in(std::string_view digits) noexcept {
  Number number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, number);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<std::uint16_t> port_of(std::string_view digits) noexcept {
  const auto port = number_in<std::uint16_t>(digits);
  return port == 0 ? std::nullopt : port;
}

std::optional<HostPort> address_of(std::string_view host, std::uint16_t port, const HostPort& asked) {
  if (host == "?" || port == 0) return std::nullopt;
  return HostPort{host.empty() ? asked.host : std::string(host), port};
}

std::optional<Redirection> redirection_of(std::string_view error, const HostPort& asked) {
  const std::size_t slot_at = error.find(' ') + 1;
  const std::size_t host_at = error.find(' ', slot_at) + 1;
  const std::size_t colon = error.rfind(':');
  if (slot_at == 0 || host_at == 0 || colon == std::string_view::npos || colon < host_at) return std::nullopt;
  const auto slot = number_in<Slot>(error.substr(slot_at, host_at - 1 - slot_at));
  const std::optional<std::uint16_t> port = port_of(error.substr(colon + 1));
  if (!slot || *slot >= kSlots || !port) return std::nullopt;
  const std::optional<HostPort> to = address_of(error.substr(host_at, colon - host_at), *port, asked);
  return to ? std::optional<Redirection>({*slot, *to}) : std::nullopt;
}

}  // namespace overlimit::redis::protocol
