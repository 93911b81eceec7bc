// What the replies of Redis mean: the one place that classifies them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "breaker/cause.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/redis_location.hpp"
#include "redis/protocol/reply.hpp"

namespace overlimit::redis::protocol {

/// What a reply means for its command. Where nothing else is said, an error means that nothing was executed.
enum class Outcome : std::uint8_t {
  answered,        ///< no error: the command was executed
  no_script,       ///< the server does not have the script: send its text
  moved,           ///< another node serves the slot (Redirection)
  ask,             ///< another node may have the key already (Redirection)
  cross_slot,      ///< the keys of the command are in several slots of a cluster
  try_again,       ///< the same command may succeed after a while
  out_of_service,  ///< the server executes no hit now, and may do so after a while
  not_master,      ///< the same, because another server is the master
  unavailable,     ///< the server executes no hit until its operator does something
  misconfigured,   ///< credentials, permissions, database or cluster layout are wrong
  failed,          ///< any other error: of the script or of the command, which may have been executed
};

struct Classified {
  Outcome outcome = Outcome::answered;
  std::string_view advice{};  ///< what the operator should do

  /// Whether the same server may execute the same command after a while.
  [[nodiscard]] bool is_retryable() const noexcept {
    return outcome == Outcome::try_again || is_out_of_service();
  }
  /// Whether the server would answer the same to every hit for a while.
  [[nodiscard]] bool is_out_of_service() const noexcept {
    return outcome == Outcome::out_of_service || outcome == Outcome::not_master;
  }
  [[nodiscard]] bool is_redirection() const noexcept {
    return outcome == Outcome::moved || outcome == Outcome::ask;
  }
  [[nodiscard]] bool is_unavailable() const noexcept {
    return is_retryable() || outcome == Outcome::unavailable;
  }
};

/// Classifies the text of an error reply, also of one that a script passed on (Redis 6 wraps it in an ERR).
[[nodiscard]] Classified classify_error(std::string_view error) noexcept;

[[nodiscard]] inline Classified classify(const Reply& reply) noexcept {
  return reply.is_error() ? classify_error(reply.as_text()) : Classified();
}

/// Throws an error reply. The message names the server and what to do, without credentials or arguments.
[[noreturn]] void raise_error_reply(std::string_view error, std::string_view server);
[[nodiscard]] Cause cause_of(const Reply& error, const Endpoint& endpoint);

/// Why a server must not be used, from its reply to HELLO or SELECT; nothing if it may be used. It refused,
/// is older than Redis 6.2, or is a replica where the endpoint requires a master.
[[nodiscard]] std::optional<Cause> handshake_failure(const Reply& reply, const Endpoint& endpoint);

}  // namespace overlimit::redis::protocol
