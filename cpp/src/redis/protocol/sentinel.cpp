#include "redis/protocol/sentinel.hpp"

#include "redis/protocol/addresses.hpp"

namespace overlimit::redis::protocol {
namespace {

/// Service, old host and port, new host and port.
using Words = std::array<std::string_view, 5>;

std::optional<HostPort> host_port(std::string_view host, std::string_view digits) {
  const std::optional<std::uint16_t> port = port_of(digits);
  if (host.empty() || !port) return std::nullopt;
  return HostPort{std::string(host), *port};
}

std::optional<Words> words_of(std::string_view text) {
  Words words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t space = text.find(' ');
    const bool is_last = i + 1 == words.size();
    if ((space == std::string_view::npos) != is_last) return std::nullopt;
    words[i] = text.substr(0, space);
    text.remove_prefix(is_last ? text.size() : space + 1);
  }
  return words;
}

bool are_strings(std::span<const Reply> replies) {
  for (const Reply& reply : replies) {
    if (!reply.is_string()) return false;
  }
  return true;
}

}  // namespace

std::optional<HostPort> named_master(const Reply& reply) {
  if (!reply.is_array() || reply.as_array().size() != 2 || !are_strings(reply.as_array()))
    return std::nullopt;
  return host_port(reply.as_array()[0].as_text(), reply.as_array()[1].as_text());
}

std::optional<Switch> switch_of(const Reply& message, std::string_view service) {
  if (!message.is_array() || message.as_array().size() != 3 || !are_strings(message.as_array())) {
    return std::nullopt;
  }
  const std::span<const Reply> parts = message.as_array();
  if (parts[0].as_text() != "message" || parts[1].as_text() != "+switch-master") return std::nullopt;
  const std::optional<Words> words = words_of(parts[2].as_text());
  if (!words || (*words)[0] != service) return std::nullopt;
  const std::optional<HostPort> from = host_port((*words)[1], (*words)[2]);
  const std::optional<HostPort> to = host_port((*words)[3], (*words)[4]);
  return from && to ? std::optional<Switch>({*from, *to}) : std::nullopt;
}

void MasterTracker::named(const HostPort& master, TimePoint now) {
  if (!is_replaced(master, now)) follow(master, now);
}

void MasterTracker::switched(const Switch& announced, TimePoint now) {
  if (announced.from != master_ && is_replaced(announced.to, now)) return;
  follow(announced.to, now);
  if (announced.from != announced.to) replaced_[announced.from] = now;
}

bool MasterTracker::is_replaced(const HostPort& server, TimePoint now) const {
  const auto found = replaced_.find(server);
  return found != replaced_.end() && now - found->second < kDoubt;
}

void MasterTracker::follow(const HostPort& master, TimePoint now) {
  if (master_ == master) return;
  std::erase_if(replaced_, [&](const auto& each) { return !is_replaced(each.first, now); });
  if (master_) replaced_[*master_] = now;
  replaced_.erase(master);
  master_ = master;
  ++epoch_;
}

}  // namespace overlimit::redis::protocol
