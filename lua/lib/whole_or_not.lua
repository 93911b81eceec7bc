-- whole_or_not: whether the caller keeps values, and is to get the whole of what is written.
-- takes   slack_ms   negative: it does
-- gives   whole, slack_ms
local whole = slack_ms < 0
if whole then slack_ms = -slack_ms end
