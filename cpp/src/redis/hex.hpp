// Bytes as lowercase hexadecimal digits.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace overlimit::redis {

inline std::string hex(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace overlimit::redis
