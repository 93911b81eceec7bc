// Who is the master of a service, when sentinels disagree for a while.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "overlimit/redis_site.hpp"
#include "redis/protocol/sentinel_replies.hpp"

namespace overlimit::redis::protocol {

/// Sentinels learn of a switch one after the other, so one may still name, or announce late, a master that
/// another has announced to be replaced. For kDoubt after its replacement, a master is believed to be back
/// only when its successor is announced to be replaced by it.
///
/// Not thread-safe. Reads no clock.
class Mastership {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  /// Sentinels tell each other every two seconds, more often after a switch.
  static constexpr std::chrono::seconds kDoubt{5};

  [[nodiscard]] const std::optional<HostPort>& master() const noexcept { return master_; }
  /// How often the master has changed.
  [[nodiscard]] std::uint64_t term() const noexcept { return term_; }

  /// A sentinel was asked and named this master.
  void named(const HostPort& master, Instant now);
  /// A sentinel announced this.
  void switched(const Switch& announced, Instant now);

 private:
  [[nodiscard]] bool is_replaced(const HostPort& server, Instant now) const;
  void follow(const HostPort& master, Instant now);

  std::optional<HostPort> master_;
  std::uint64_t term_ = 0;
  std::map<HostPort, Instant> replaced_;  // and when
};

}  // namespace overlimit::redis::protocol
