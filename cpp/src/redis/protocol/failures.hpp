// What the error replies of Redis mean: the one place that reads their text.
#pragma once

#include <cstdint>
#include <string_view>

#include "overlimit/redis_endpoint.hpp"
#include "redis/protocol/cause.hpp"
#include "redis/protocol/reply.hpp"

namespace overlimit::redis::protocol {

enum class Failure : std::uint8_t {
  no_script,  ///< the script is not loaded; nothing was executed: send its text
  moved,      ///< nothing was executed: the slot is another node's (redirection.hpp)
  ask,        ///< nothing was executed: the slot's key may be on another node already, which has to be asked
  unavailable,  ///< the server cannot serve now
  replica,      ///< nothing was executed: another server is the master
  cross_slot,   ///< nothing was executed: the keys of the call are in several slots of a cluster
  config,       ///< credentials, permissions, database or cluster layout are wrong
  script,       ///< everything else: the script or the command failed
};

struct Meaning {
  Failure failure;
  /// Nothing was executed and the same request may succeed after a while.
  bool retryable;
  /// What the operator should do.
  std::string_view advice;
  /// The server would say so to every hit.
  bool is_for_all = false;
};

/// The meaning of the text of an error reply (without the leading '-'), also of one that a script passed
/// on, whether wrapped in an ERR (Redis 6) or with a suffix (Redis 7).
[[nodiscard]] Meaning meaning_of(std::string_view error) noexcept;

[[nodiscard]] bool is_redirection(const Meaning& meaning) noexcept;

/// Whether it is the error of a server that cannot serve now and may after a while.
[[nodiscard]] bool is_worth_retrying(const Meaning& meaning) noexcept;
[[nodiscard]] bool is_worth_retrying(const Reply& reply) noexcept;
/// Whether it is the error of a server that serves no hit now.
[[nodiscard]] bool is_out_of_service(const Reply& reply) noexcept;
/// Whether it is the error of a replica: another server is the master.
[[nodiscard]] bool is_from_replica(const Reply& reply) noexcept;

/// Throws the error reply as StoreUnavailable, CrossSlot, StoreConfigError or ScriptError. The message names
/// who answered and what to do, and repeats neither credentials nor the arguments of the command.
[[noreturn]] void raise_error_reply(std::string_view error, std::string_view who);
[[noreturn]] void raise_error_reply(std::string_view error, const Endpoint& endpoint);
/// What it would throw.
[[nodiscard]] Cause cause_of(const Reply& error, const Endpoint& endpoint);

}  // namespace overlimit::redis::protocol
