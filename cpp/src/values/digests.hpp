// The names that digests give: those of scripts, which Redis chooses, and those of long identifiers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace overlimit::values {

/// The SHA-1 of a text (FIPS 180-4), as 40 hexadecimal digits. It keeps no secret: it is how EVALSHA names a
/// script.
[[nodiscard]] std::string sha1_hex(std::string_view text);

inline constexpr std::size_t kDigitsOfSha256 = 64;

/// The SHA-256 of a text (FIPS 180-4), in hexadecimal digits.
[[nodiscard]] std::string sha256_hex(std::string_view text);

}  // namespace overlimit::values
