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

}  // namespace overlimit::redis::protocol
