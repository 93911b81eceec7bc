// What the error replies of Redis mean: the one place that reads their text.
#pragma once

#include <cstdint>
#include <string_view>

#include "overlimit/redis_endpoint.hpp"

namespace overlimit::redis::protocol {

enum class Failure : std::uint8_t {
  no_script,    ///< the script is not loaded; nothing was executed: send its text
  unavailable,  ///< the server cannot serve now
  config,       ///< credentials, permissions, database or cluster layout are wrong
  script,       ///< everything else: the script or the command failed
};

struct Meaning {
  Failure failure;
  /// Nothing was executed and the same request may succeed after a while.
  bool retryable;
  /// What the operator should do.
  std::string_view advice;
};

/// The meaning of the text of an error reply (without the leading '-'), also of one that a script passed
/// on, whether wrapped in an ERR (Redis 6) or with a suffix (Redis 7).
[[nodiscard]] Meaning meaning_of(std::string_view error) noexcept;

/// Throws the error reply as StoreUnavailable, StoreConfigError or ScriptError. The message names the
/// endpoint and what to do, and repeats neither credentials nor the arguments of the command.
[[noreturn]] void raise_error_reply(std::string_view error, const Endpoint& endpoint,
                                    bool maybe_charged = false);

}  // namespace overlimit::redis::protocol
