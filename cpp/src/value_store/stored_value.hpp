// A value as a store of one's own keeps it: a version, the value as in Redis, and a checksum
// (docs/guides/own_store.md).
#pragma once

#include <string>
#include <string_view>

#include "values/value.hpp"

namespace overlimit::values {

/// The CRC-32 of ISO 3309, as zlib has it.
[[nodiscard]] std::uint32_t crc32(std::string_view bytes) noexcept;

[[nodiscard]] std::string stored(const Value& value);
/// What is damaged, or was not written so, is as if there were nothing.
[[nodiscard]] Value read_stored(std::string_view bytes);

}  // namespace overlimit::values
