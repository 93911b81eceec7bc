// What Calls gives back and takes away: refunds, locks, resets.
#include "redis/calls.hpp"

#include "redis/answer.hpp"
#include "redis/first_error.hpp"
#include "redis/keys.hpp"

namespace overlimit::redis {
namespace {

using protocol::Reply;

std::vector<std::string> keys_of(const RedisStore::Keys& keys, const PolicyIdentity& policy,
                                 std::span<const std::string_view> identifiers) {
  std::vector<std::string> all;
  for (const std::string_view each : identifiers) all.push_back(key_of(keys, policy.name(), each));
  return all;
}

}  // namespace

// What leases take back that live; the rest is given back as ever. False: there was nothing of leases.
bool Calls::put_back(const Call& call, std::span<const Receipt> receipts, const Interrupted& interrupted) {
  if (leasing_.wanted() == nullptr) return false;
  std::vector<Charge> others;
  std::vector<Receipt> of_others;
  std::size_t row = 0;
  for (const Charge& charge : call.charges) {
    Call one = call;
    one.charges = {&charge, 1};
    const std::span own = receipts.subspan(row, charge.policy->size());
    row += own.size();
    if (leasing_.put_back(one, own)) continue;
    others.push_back(charge);
    of_others.insert(of_others.end(), own.begin(), own.end());
  }
  if (others.size() == call.charges.size()) return false;
  Call rest = call;
  rest.charges = others;
  if (!others.empty()) give_back(rest, of_others, nullptr, interrupted);
  return true;
}

void Calls::give_back(const Call& asked, std::span<const Receipt> receipts, Present* present,
                      const Interrupted& interrupted) {
  const Call call = with_reading(asked);
  if (present == nullptr && put_back(call, receipts, interrupted)) return;
  const std::vector<Slot> slots = slots_across(call.charges);
  if (slots.empty()) return give_back_in_slot(call, receipts, present, interrupted);
  naming_timeout(servers_.timeout(), [&] { give_back_across(call, slots, receipts, present, interrupted); });
}

void Calls::give_back_in_slot(const Call& call, std::span<const Receipt> receipts, Present* present,
                              const Interrupted& interrupted) {
  const ScriptCall script = refund_call(call, receipts, present != nullptr, keys_, scripts_);
  const Changing changing(known_, script.keys);
  const Reply reply = servers_.run(script, interrupted);
  if (present == nullptr) return;
  DatedCall peek({.charges = present->charges, .mode = Mode::peek});
  present->time = read_answer(peek, reply, present->rows).now;
}

// A failure of one slot keeps nothing from the others. What these have given back is not given back again, so
// the error says that it may have been.
void Calls::give_back_across(const Call& call, std::span<const Slot> slots, std::span<const Receipt> receipts,
                             Present* present, const Interrupted& interrupted) {
  const auto in_order = [](const Charge&) { return false; };
  SplitCall given(call, slots, in_order);
  given.set_receipts(receipts);
  std::optional<SplitCall> shown;
  const Call peek{.charges = present == nullptr ? call.charges : present->charges, .mode = Mode::peek};
  if (present != nullptr) shown.emplace(peek, slots, in_order);
  std::vector<ScriptCall> refunds;
  std::vector<std::string> commands;
  std::vector<std::optional<Slot>> where;
  for (const CallPart& part : given.parts()) {
    refunds.push_back(
        refund_call(given.call_of(part), part.rows.receipts(), shown.has_value(), keys_, scripts_));
    commands.push_back(refunds.back().evalsha());
    where.emplace_back(part.slot);
  }
  std::vector<std::string> keys;
  for (const Charge& charge : call.charges) keys.push_back(key_of(charge));
  const Changing changing(known_, std::move(keys));
  const Wait wait{servers_.deadline(), interrupted};
  std::vector<std::optional<Reply>> replies(commands.size());
  FirstError failure;
  try {
    servers_.topology().call_many(commands, where, replies, wait);
  } catch (...) {
    failure.note();
  }
  bool is_any_given = false;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i]) continue;
    try {
      const Reply reply =
          is_final(*replies[i]) ? servers_.checked(*std::move(replies[i])) : servers_.run(refunds[i], wait);
      is_any_given = true;
      if (!shown) continue;
      const CallPart& part = shown->parts()[i];
      DatedCall dated(shown->call_of(part));
      present->time = max(present->time, read_answer(dated, reply, part.rows).now);
    } catch (...) {
      failure.note();
    }
  }
  if (is_any_given) failure.set_maybe_charged();
  failure.raise_if_any();
  if (shown) shown->copy_rows(present->rows);
}

void Calls::lock(const Call& call, Duration duration, const Interrupted& interrupted) {
  std::vector<std::string_view> identifiers;
  for (const Charge& each : call.charges) identifiers.push_back(each.identifier);
  const EndingLeases ending(leasing_, call.charges.front().policy->name(), std::move(identifiers),
                            EndingLeases::Then::goes_back);
  const ScriptCall script = lock_call(with_reading(call), duration, keys_, scripts_);
  const Changing changing(known_, script.keys);
  (void)servers_.run(script, interrupted);
}

void Calls::reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
                  const Interrupted& interrupted) {
  if (identifiers.empty()) return;
  const EndingLeases ending(leasing_, policy.name(), {identifiers.begin(), identifiers.end()},
                            EndingLeases::Then::lapses);
  const std::vector<std::string> keys = keys_of(keys_, policy, identifiers);
  const Changing changing(known_, keys);
  servers_.reset(keys, interrupted);
}

void Calls::reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) {
  const EndingLeases ending(leasing_, policy.name(), {}, EndingLeases::Then::lapses);
  const ChangingAll changing(known_);
  servers_.reset_all(patterns_of(keys_, policy.name()), interrupted);
}

}  // namespace overlimit::redis
