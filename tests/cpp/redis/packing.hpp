// Values and answers as bytes, as Redis' struct packs them.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "../times.hpp"
#include "overlimit/pair.hpp"

namespace overlimit::testing {

static_assert(std::endian::native == std::endian::little);

inline std::string bytes_of(const auto& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

inline std::string packed(std::initializer_list<std::int64_t> numbers) {
  std::string bytes;
  for (const std::int64_t number : numbers) bytes += bytes_of(number);
  return bytes;
}

inline std::string record_of(Tag tag, At expires_at, const std::string& state) {
  return bytes_of(tag) + bytes_of(static_cast<std::uint32_t>(state.size())) + bytes_of(expires_at.micros()) +
         state;
}

inline std::string value_of(At created_at, const std::vector<std::string>& records) {
  std::string value = bytes_of(created_at.micros());
  for (const std::string& record : records) value += record;
  return value;
}

}  // namespace overlimit::testing
