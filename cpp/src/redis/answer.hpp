// From what a script answered to the rows of the call.
#pragma once

#include "overlimit/store.hpp"
#include "redis/protocol/reply.hpp"

namespace overlimit::redis {

/// Fills the rows and returns the instant at which the call was decided. The reply is not an error.
/// Throws ScriptError for an answer that no script of ours gives.
Micros read_answer(const Call& call, const protocol::Reply& reply, const Rows& rows);

}  // namespace overlimit::redis
