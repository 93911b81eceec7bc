#include "redis/question.hpp"

#include <algorithm>
#include <vector>

#include "redis/calls.hpp"
#include "redis/wire/answer.hpp"

namespace overlimit::redis {

Question::Question(Calls& store, DatedCall& call, bool may_doubt)
    : store_(store),
      call_(call),
      lease_(store.leasing(), *call),
      script_(store.script_call(*call, lease_)),
      telling_(store.known(), script_.keys),
      may_doubt_(may_doubt) {
  if (!store.remembering().remembers(*call)) return;
  hearing_.emplace(store.remembering(), store.servers(), script_.keys);
  if (may_doubt && may_charge(*call)) script_.births = hearing_->births();
}

bool Question::doubts() {
  if (!hearing_) return false;
  if (!may_doubt_) {
    hearing_->keep(*reply_);
    return false;
  }
  belief_ = hearing_->hear(*reply_);
  return belief_ != Belief::sound;
}

std::optional<ScriptCall> Question::taking_back(const Rows& rows) {
  if (reply_->has(ReplyFlags::kOtherKeys) || belief_ == Belief::lost) return std::nullopt;
  const Answer answer = read_answer(call_, *reply_, rows);
  const std::span receipts = rows.receipts().first(pairs_of((*call_).charges));
  const auto is_charged = [](const Receipt& each) { return each.created_at != Instant{}; };
  if (!answer.is_written || std::ranges::none_of(receipts, is_charged)) return std::nullopt;
  std::vector<Charge> charges((*call_).charges.begin(), (*call_).charges.end());
  charges.front().cost += reply_->granted().value_or(0);
  Call charged = *call_;
  charged.charges = charges;
  return store_.refund_of_doubted(charged, receipts);
}

Instant Question::read(const Rows& rows, bool of_all) {
  const Answer answer = read_answer(call_, *reply_, rows);
  telling_.tell(*call_, answer, rows, of_all);
  lease_.answered(*call_, answer.now, reply_->granted(), rows);
  store_.leasing().show_held(*call_, rows);
  return answer.now;
}

}  // namespace overlimit::redis
