#include "redis/protocol/greeting.hpp"

#include <charconv>
#include <string>
#include <string_view>

#include "redis/protocol/failures.hpp"

namespace overlimit::redis::protocol {
namespace {

constexpr int kLeastMajor = 6;
constexpr int kLeastMinor = 2;

/// The value of a field of HELLO, which is a flat list of names and values; empty if it is not there.
std::string_view field(const Reply& hello, std::string_view name) {
  const std::span<const Reply> words = hello.as_array();
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i].is_string() && words[i].as_text() == name && words[i + 1].is_string()) {
      return words[i + 1].as_text();
    }
  }
  return {};
}

bool is_new_enough(std::string_view version) {
  int major = 0;
  int minor = 0;
  const char* const end = version.data() + version.size();
  const auto [dot, error] = std::from_chars(version.data(), end, major);
  if (error != std::errc() || dot == end) return false;
  std::from_chars(dot + 1, end, minor);
  return major > kLeastMajor || (major == kLeastMajor && minor >= kLeastMinor);
}

StoreConfigError too_old(std::string_view version, const Endpoint& endpoint) {
  return StoreConfigError("redis at " + endpoint.describe() + " is " + std::string(version) +
                          "; overlimit needs Redis 6.2 or Valkey 7.2 at least");
}

}  // namespace

std::optional<Cause> objection_to(const Reply& reply, const Endpoint& endpoint) {
  if (reply.is_error()) {
    const bool is_unknown = reply.as_text().starts_with("ERR unknown command");
    return is_unknown ? Cause::of(too_old("older than 6", endpoint)) : cause_of(reply, endpoint);
  }
  if (!reply.is_array()) return std::nullopt;
  const std::string_view version = field(reply, "version");
  if (!is_new_enough(version)) return Cause::of(too_old("version '" + std::string(version) + "'", endpoint));
  if (endpoint.must_be_master && field(reply, "role") != "master") {
    return Cause::unavailable("redis at " + endpoint.describe() + " is no longer a master");
  }
  return std::nullopt;
}

}  // namespace overlimit::redis::protocol
