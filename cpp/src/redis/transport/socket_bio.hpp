// A Socket as OpenSSL reads and writes it.
#pragma once

#include <openssl/bio.h>

#include <system_error>

#include "redis/transport/socket.hpp"

namespace overlimit::redis::transport {

/// A socket and how it ended, which OpenSSL doesn't tell.
struct Wire {
  Socket socket;
  std::error_code error;
  bool end = false;
};

/// A BIO that sends and receives as Socket does (OpenSSL's own would raise SIGPIPE). The caller owns it; it
/// must not outlive the wire. Throws std::bad_alloc.
[[nodiscard]] BIO* new_socket_bio(Wire& wire);

}  // namespace overlimit::redis::transport
