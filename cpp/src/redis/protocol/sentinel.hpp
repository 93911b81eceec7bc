// What sentinels say, and whom to take for the master while they disagree.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string_view>

#include "overlimit/redis_location.hpp"
#include "redis/protocol/reply.hpp"

namespace overlimit::redis::protocol {

/// The address in a reply to SENTINEL GET-MASTER-ADDR-BY-NAME; none for nil (no such service) or another.
[[nodiscard]] std::optional<HostPort> named_master(const Reply& reply);

struct Switch {
  HostPort from;
  HostPort to;
};

/// Reads a message of the channel +switch-master. None for other messages and other services.
[[nodiscard]] std::optional<Switch> switch_of(const Reply& message, std::string_view service);

/// Decides who is the master while sentinels disagree: one may name, or announce late, a master that another
/// has announced to be replaced. For kDoubt after that, a master counts as back only when it is announced to
/// replace its successor. Not thread-safe. Reads no clock.
class MasterTracker {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Sentinels exchange their views every two seconds, more often after a switch.
  static constexpr std::chrono::seconds kDoubt{5};

  [[nodiscard]] const std::optional<HostPort>& master() const noexcept { return master_; }
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  void named(const HostPort& master, TimePoint now);
  void switched(const Switch& announced, TimePoint now);

 private:
  [[nodiscard]] bool is_replaced(const HostPort& server, TimePoint now) const;
  void follow(const HostPort& master, TimePoint now);

  std::optional<HostPort> master_;
  std::uint64_t epoch_ = 0;
  std::map<HostPort, TimePoint> replaced_;  // when each was replaced
};

}  // namespace overlimit::redis::protocol
