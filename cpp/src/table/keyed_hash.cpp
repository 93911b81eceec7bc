#include "table/keyed_hash.hpp"

#include <random>

namespace overlimit::table {

KeyedHash::KeyedHash() {
  std::random_device random;
  for (std::uint64_t& word : key_) {
    // Odd, so that multiplying loses nothing.
    word = ((std::uint64_t{random()} << 32) | random()) | 1;
  }
}

}  // namespace overlimit::table
