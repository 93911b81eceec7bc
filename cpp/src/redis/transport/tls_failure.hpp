// What OpenSSL's errors mean, and what to do about them.
#pragma once

#include <string>
#include <string_view>
#include <system_error>

#include "overlimit/redis_location.hpp"

namespace overlimit::redis::transport {

/// The category of OpenSSL's error codes. Its messages are fixed texts, with nothing from a file or a peer.
[[nodiscard]] const std::error_category& tls_category() noexcept;

/// Takes the first error of this thread's queue and drops the others, which follow from it. Others such as
/// Python's ssl may share the queue, so it is left empty.
[[nodiscard]] std::error_code take_tls_error() noexcept;

/// Whether the peer reported the error, not this side.
[[nodiscard]] bool is_alert(std::error_code error) noexcept;

/// What to do about an error in the configuration of one side; empty for any other error.
[[nodiscard]] std::string_view advice_on(std::error_code error) noexcept;

/// Throws StoreConfigError: the server's certificate is not trusted, for the reason of
/// SSL_get_verify_result().
[[noreturn]] void raise_untrusted(long verify_result, const Endpoint& endpoint);

/// Throws StoreConfigError: TLS failed with an error for which advice_on() is not empty.
[[noreturn]] void raise_misconfigured(std::error_code error, const Endpoint& endpoint);

/// Throws StoreConfigError with the first error of the queue: the option `what` cannot be used.
[[noreturn]] void raise_unusable(const std::string& what, const Endpoint& endpoint);

}  // namespace overlimit::redis::transport
