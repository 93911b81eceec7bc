// How the keys of a Redis store are named (lua/README.md).
#pragma once

#include <cstdint>
#include <string>

namespace overlimit {

/// What the keys of one call have in common in their names, for a Redis Cluster to keep them in one slot. Of
/// a call in several slots each decides its part (docs/semantics.md: calls across slots).
enum class HashTag : std::uint8_t {
  none,    ///< nothing: one identifier of one policy is in one slot
  policy,  ///< the policy: calls of one policy are
  prefix,  ///< all: any call is, and one node has all the keys
};

namespace redis {

struct KeyNaming {
  std::string prefix = "ol";  ///< [A-Za-z0-9_.-]{1,64}
  HashTag hash_tag = HashTag::none;
  bool hash_identifiers = false;  ///< not only those too long for a key
  bool takes_hashes = false;      ///< whoever calls names identifiers by what is kept of them, the SHA-256
};

}  // namespace redis
}  // namespace overlimit
