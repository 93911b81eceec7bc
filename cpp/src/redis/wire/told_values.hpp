// What a reply tells of its keys' values, besides what it answers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/time.hpp"
#include "redis/protocol/reply.hpp"

namespace overlimit::redis {

/// A key as the server has it after a command.
struct ToldValue {
  std::optional<std::string> value;  ///< empty: there is no key; nullopt: the reply does not tell
  std::int64_t created_at = 0;       ///< 0: there is no key
};

/// The reply to a command for so many keys as if nobody had asked for whole values, and what it tells of each
/// key; nothing of an answer that no script can have given, or that is no decision.
struct ToldReply {
  protocol::Reply reply;
  Instant now{};  ///< of the server's clock
  std::vector<ToldValue> keys{};
  bool is_restored = false;      ///< what was told has brought back something of a key
  bool is_of_others = false;     ///< nothing was done, as one of the keys is not the one that was remembered
  std::uint64_t connection = 0;  ///< that it came through
};

/// `limits`: per key, how many its policy has.
ToldReply told_in(protocol::Reply reply, const std::vector<std::size_t>& limits);

}  // namespace overlimit::redis
