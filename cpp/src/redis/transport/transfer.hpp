// What one attempt to send or receive came to.
#pragma once

#include <cstddef>
#include <system_error>

namespace overlimit::redis::transport {

struct Transfer {
  std::size_t count = 0;
  std::error_code error;  ///< none for would-block, which is a count of 0
  bool end = false;       ///< the peer has closed its side; only of receiving
};

}  // namespace overlimit::redis::transport
