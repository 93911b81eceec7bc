// Commands as the bytes Redis reads (RESP arrays of bulk strings).
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace overlimit::redis::protocol {

/// Appends one command of any bytes to `out`. Nothing is allocated but room there, once at most.
void append_command(std::string& out, std::span<const std::string_view> arguments);
void append_command(std::string& out, std::initializer_list<std::string_view> arguments);

}  // namespace overlimit::redis::protocol
