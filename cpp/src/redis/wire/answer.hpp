// From what a script replied to the rows of the call.
#pragma once

#include <vector>

#include "overlimit/call.hpp"
#include "overlimit/store.hpp"
#include "redis/wire/script_reply.hpp"
#include "values/value.hpp"

namespace overlimit::redis {

using values::Value;

/// What a script said of a call besides its rows.
struct Answer {
  Instant now;               ///< of the call
  bool is_written;           ///< whether anything was charged or locked
  std::vector<Value> found;  ///< per charge its key's value before that; none if every charge was written
};

/// Fills the rows and moves the call to its instant. Throws ScriptError for no answer to it.
Answer read_answer(DatedCall& call, const ScriptReply& reply, const Rows& rows);

}  // namespace overlimit::redis
