// From what a script answered to the rows of the call.
#pragma once

#include <optional>

#include "overlimit/store.hpp"
#include "redis/protocol/reply.hpp"

namespace overlimit::redis {

/// Whether nothing was decided because a calendar's bounds don't reach the instant: that instant.
std::optional<Micros> out_of_bounds(const protocol::Reply& reply);

/// Fills the rows and returns the instant at which the call was decided. The reply is not an error.
/// Throws ScriptError for an answer that no script of ours gives.
Micros read_answer(const Call& call, const protocol::Reply& reply, const Rows& rows);

}  // namespace overlimit::redis
