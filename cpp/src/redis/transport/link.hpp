// What a command goes through to its server.
#pragma once

#include <cstddef>
#include <cstdint>

namespace overlimit::redis::transport {

/// A server, by a hash of its address, and the number of the newest connection to it: those of a process are
/// numbered from 1 on as they are opened. 0: there is none.
struct Link {
  std::size_t server = 0;
  std::uint64_t newest = 0;
  bool is_open = false;  ///< as far as is known without asking
};

}  // namespace overlimit::redis::transport
