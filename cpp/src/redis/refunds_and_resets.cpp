// What Calls does besides deciding: refunds, locks, resets.
#include <deque>
#include <map>

#include "redis/answer.hpp"
#include "redis/calls.hpp"
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

// Whether any of the charges with these receipts was made on a key as it is told now.
bool is_charged_there(const Call& call, std::span<const Receipt> receipts, const ToldReply& told) {
  std::size_t row = 0;
  for (std::size_t k = 0; k < told.keys.size() && row < receipts.size(); ++k) {
    if (are_of_one_key(receipts[row].created_at.micros(), told.keys[k].created_at)) return true;
    row += call.charges[k].policy->size();
  }
  return false;
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
  const bool tells = present != nullptr || remembering_.remembers(call);
  const ScriptCall script = refund_call(call, receipts, tells, keys_, scripts_);
  const Changing changing(known_, script.keys);
  const Reply reply = run_remembering(call, script, receipts, interrupted);
  if (present == nullptr) return;
  DatedCall peek({.charges = present->charges, .mode = Mode::peek});
  present->time = read_answer(peek, reply, present->rows).now;
}

Reply Calls::run_remembering(const Call& call, const ScriptCall& script, std::span<const Receipt> receipts,
                             const Interrupted& interrupted) {
  Reply reply;
  naming_timeout(servers_.timeout(), [&] {
    reply = run_remembering(call, script, receipts, Wait{servers_.deadline(), interrupted});
  });
  return reply;
}

// A script that answers what the keys hold then. It is run again if its server had forgotten them, unless it
// has given something back: that was charged after.
Reply Calls::run_remembering(const Call& call, ScriptCall script, std::span<const Receipt> receipts,
                             const Wait& wait) {
  if (!remembering_.remembers(call)) return servers_.run(script, wait);
  std::vector<std::size_t> limits;
  for (const Charge& charge : call.charges) limits.push_back(charge.policy->size());
  for (int doubted = 0;; ++doubted) {
    Basis basis;
    restore(call, basis, wait);
    Hearing hearing(remembering_, servers_, script.keys);
    script.births = doubted < kMostDoubts ? hearing.births() : std::string();
    ToldReply told = told_in(servers_.run(script, wait), limits);
    const bool is_doubted = hearing.doubts(told);
    if (!is_doubted || doubted == kMostDoubts) hearing.keep(told);
    const bool is_done = !is_doubted || is_charged_there(call, receipts, told);
    if (!told.is_of_others && (is_done || doubted == kMostDoubts)) return std::move(told.reply);
  }
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
  std::deque<Hearing> hearings;
  const Wait wait{servers_.deadline(), interrupted};
  const bool remembers = remembering_.remembers(call);
  Basis basis;
  restore(call, basis, wait);
  for (const CallPart& part : given.parts()) {
    const bool tells = shown.has_value() || remembers;
    refunds.push_back(refund_call(given.call_of(part), part.rows.receipts(), tells, keys_, scripts_));
    if (remembers) {
      hearings.emplace_back(remembering_, servers_, refunds.back().keys);
      refunds.back().births = hearings.back().births();
    }
    commands.push_back(refunds.back().evalsha());
    where.emplace_back(part.slot);
  }
  std::vector<std::string> keys;
  for (const Charge& charge : call.charges) keys.push_back(key_of(charge));
  const Changing changing(known_, std::move(keys));
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
      ToldReply told = told_in(
          is_final(*replies[i]) ? servers_.checked(*std::move(replies[i])) : servers_.run(refunds[i], wait),
          std::vector<std::size_t>(given.parts()[i].charges.size()));
      is_any_given = true;
      if (remembers && !hearings[i].doubts(told)) hearings[i].keep(told);
      if (told.is_of_others) {
        const CallPart& lost = given.parts()[i];
        told.reply = run_remembering(given.call_of(lost), refunds[i], lost.rows.receipts(), wait);
      }
      if (!shown) continue;
      const CallPart& part = shown->parts()[i];
      DatedCall dated(shown->call_of(part));
      present->time = max(present->time, read_answer(dated, told.reply, part.rows).now);
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
  const Call read = with_reading(call);
  const Tells tells = remembering_.remembers(read) ? Tells::value : Tells::charge;
  const ScriptCall script = lock_call(read, duration, keys_, scripts_, tells);
  const Changing changing(known_, script.keys);
  (void)run_remembering(read, script, {}, interrupted);
}

// In each key that is left which was reset, and when, so that what was told of it before does not come back.
void Calls::reset_remembered(const std::vector<std::string>& keys, const Interrupted& interrupted) {
  std::map<std::optional<Slot>, std::vector<std::string>> parts;
  for (const std::string& key : keys) parts[servers_.slot_of(key)].push_back(key);
  for (auto& [slot, part] : parts) {
    Hearing hearing(remembering_, servers_, part);
    const std::vector<std::size_t> limits(part.size());
    hearing.keep_reset(told_in(servers_.run(reset_call(std::move(part), scripts_), interrupted), limits));
  }
}

void Calls::reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
                  const Interrupted& interrupted) {
  if (identifiers.empty()) return;
  const EndingLeases ending(leasing_, policy.name(), {identifiers.begin(), identifiers.end()},
                            EndingLeases::Then::is_forgotten);
  const std::vector<std::string> keys = keys_of(keys_, policy, identifiers);
  const Changing changing(known_, keys);
  if (remembering_.is_on()) return reset_remembered(keys, interrupted);
  const auto forget = [&] {
    RememberedValues* const values = remembering_.wanted();
    for (std::size_t i = 0; values != nullptr && i < keys.size(); ++i) values->forget(keys[i]);
  };
  forget();
  servers_.reset(keys, interrupted);
  forget();
}

// What is remembered here of keys that the server has lost is reset, too.
void Calls::reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) {
  const EndingLeases ending(leasing_, policy.name(), {}, EndingLeases::Then::is_forgotten);
  const ChangingAll changing(known_);
  const auto remembered = [&] {
    RememberedValues* const values = remembering_.wanted();
    return values == nullptr ? std::vector<std::string>{} : values->keys_of(starts_of(keys_, policy.name()));
  };
  const std::vector<std::string> before = remembered();
  const auto remove = [&](const std::vector<std::string>& keys) {
    if (remembering_.is_on()) return reset_remembered(keys, interrupted);
    servers_.unlink(keys, interrupted);
  };
  servers_.for_each_page(patterns_of(keys_, policy.name()), remove, interrupted);
  if (remembering_.is_on()) return reset_remembered(before, interrupted);
  for (const std::string& key : remembered()) remembering_.values().forget(key);
}

}  // namespace overlimit::redis
