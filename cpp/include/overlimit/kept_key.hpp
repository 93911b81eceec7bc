// What a store in shared memory keeps of a key, copied for those who look after it.
#pragma once

#include <cstdint>
#include <vector>

#include "overlimit/algorithms/step.hpp"

namespace overlimit {

/// A key as it was at one instant. Its identifier is not kept, only a keyed hash of it.
struct KeptKey {
  struct Hash {
    std::uint64_t low;
    std::uint32_t high;
    bool operator==(const Hash&) const = default;
  };
  struct Record {
    std::uint64_t tag;
    Instant expires_at;
    Header header;
    std::vector<Cell> cells;
  };

  Hash hash;
  std::uint64_t policy;  ///< the digest of its name; 0 for counts that several policies share
  Instant created_at;
  bool is_overflow;  ///< counts that identifiers without an entry of their own share
  std::vector<Record> records;
};

}  // namespace overlimit
