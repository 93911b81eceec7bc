// From what a script answered to the rows of the call.
#pragma once

#include <optional>
#include <vector>

#include "overlimit/call.hpp"
#include "overlimit/store.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/wire/value.hpp"

namespace overlimit::redis {

/// Whether nothing was decided because a calendar's bounds don't reach the instant: that instant.
std::optional<Instant> out_of_bounds(const protocol::Reply& reply);

/// What a script said of a call besides its rows.
struct Answer {
  Instant now;               ///< of the call
  bool is_written;           ///< whether anything was charged or locked
  std::vector<Value> found;  ///< per charge its key's value before that; none if every charge was written
};

/// How many extra units were charged for a lease, if this answers the script `lease` and the call was
/// admitted.
std::optional<Cost> granted_extra(const protocol::Reply& reply);

/// Fills the rows and moves the call to its instant. Throws ScriptError for no answer of ours.
Answer read_answer(DatedCall& call, const protocol::Reply& reply, const Rows& rows);

}  // namespace overlimit::redis
