// Sending to a peer that may be gone, without SIGPIPE, whose default is to end the process.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace overlimit::platform {

/// As send(2), without waiting.
[[nodiscard]] ssize_t send(int fd, std::string_view bytes) noexcept;

}  // namespace overlimit::platform
