// What OpenSSL's errors mean, and what to do about them.
#pragma once

#include <string>
#include <string_view>
#include <system_error>

#include "overlimit/redis_endpoint.hpp"

namespace overlimit::redis::transport {

/// Of OpenSSL's codes. Its messages are fixed texts, without anything of a file or a peer.
[[nodiscard]] const std::error_category& tls_category() noexcept;

/// Takes the first error of this thread's queue and drops those that followed from it. The queue may be
/// shared with others (Python's ssl), so it is to be left empty.
[[nodiscard]] std::error_code take_tls_error() noexcept;

/// Whether the peer said it, instead of us finding out.
[[nodiscard]] bool is_alert(std::error_code error) noexcept;

/// What to do about an error that comes from how one side is configured; empty for any other.
[[nodiscard]] std::string_view advice_on(std::error_code error) noexcept;

/// Throws StoreConfigError: the server's certificate is refused, for a reason as SSL_get_verify_result()
/// says.
[[noreturn]] void raise_untrusted(long verify_result, const Endpoint& endpoint);

/// Throws StoreConfigError: TLS failed with an error that there is advice on.
[[noreturn]] void raise_misconfigured(std::error_code error, const Endpoint& endpoint);

/// Throws StoreConfigError with the first error of the queue: an option, shown as `what`, cannot be used.
[[noreturn]] void raise_unusable(const std::string& what, const Endpoint& endpoint);

}  // namespace overlimit::redis::transport
