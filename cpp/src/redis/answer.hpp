// From what a script answered to the rows of the call.
#pragma once

#include <optional>

#include "overlimit/call.hpp"
#include "overlimit/store.hpp"
#include "redis/protocol/reply.hpp"

namespace overlimit::redis {

/// Whether nothing was decided because a calendar's bounds don't reach the instant: that instant.
std::optional<Instant> out_of_bounds(const protocol::Reply& reply);

/// How many extra units were charged for a lease, if this answers the script `lease` and the call was
/// admitted.
std::optional<Cost> granted_extra(const protocol::Reply& reply);

/// Fills the rows, moves the call to its instant and returns that. Throws ScriptError for no answer of ours.
Instant read_answer(DatedCall& call, const protocol::Reply& reply, const Rows& rows);

}  // namespace overlimit::redis
