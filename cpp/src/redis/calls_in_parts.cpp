// What Calls does for a call whose identifiers are asked for in several commands: those of several slots, and
// those that ask for leases of their own.
#include <algorithm>
#include <deque>

#include "redis/calls.hpp"
#include "redis/many_calls.hpp"
#include "redis/transport/first_error.hpp"
#include "redis/wire/answer.hpp"

namespace overlimit::redis {

using protocol::Reply;

// Whether the hash tag alone says that the keys are in one slot.
bool Calls::are_tagged_alike(std::span<const Charge> charges) const {
  if (keys_.hash_tag != HashTag::policy) return keys_.hash_tag == HashTag::prefix;
  return std::ranges::all_of(
      charges, [&](const Charge& each) { return each.policy->name() == charges.front().policy->name(); });
}

// Of each charge, if there are several slots among them; else nothing.
std::vector<Calls::Slot> Calls::slots_across(std::span<const Charge> charges) {
  if (charges.size() < 2 || !servers_.topology().has_slots() || are_tagged_alike(charges)) return {};
  std::vector<Slot> slots;
  for (const Charge& charge : charges) slots.push_back(protocol::key_slot(key_of(charge)));
  if (std::ranges::all_of(slots, [&](Slot each) { return each == slots.front(); })) return {};
  return slots;
}

// Of each charge, what tells the part that it is asked in: its slot, or a number of its own if it comes so
// often that it asks for a lease. Nothing, if all are asked in one command.
std::vector<Calls::Slot> Calls::parts_of(const Call& call) {
  std::vector<Slot> parts = slots_across(call.charges);
  if (!leasing_.may_cut(call)) return parts;
  const bool has_slots = !parts.empty();
  bool is_any_hot = false;
  if (!has_slots) parts.assign(call.charges.size(), 0);
  Slot own = protocol::kSlots;
  for (std::size_t k = 0; k < call.charges.size(); ++k) {
    if (!leasing_.is_hot(call.charges[k])) continue;
    parts[k] = own++;
    is_any_hot = true;
  }
  return has_slots || is_any_hot ? parts : std::vector<Slot>{};
}

// A call that no part can admit, and one that only looks, charges nowhere. Parts that may refuse it, because
// they have lately, are charged while the others are only read, so that a flood that one of them refuses
// leaves the others alone.
Instant Calls::decide_across(const Call& call, std::span<const Slot> slots, const Rows& rows, Basis& basis,
                             const Wait& wait) {
  SplitCall split(call, slots, [&](const Charge& charge) { return refusals_.has(key_of(charge)); });
  const std::size_t parts = split.parts().size();
  const std::size_t leading = may_charge(call) ? split.leading() : 0;
  std::vector<Instant> times(parts, kUnasked);
  ask(split, 0, leading, times, basis, wait);
  if (leading > 0 && leading < parts && split.admits()) ask(split, leading, parts, times, basis, wait);
  if (!split.admits()) {
    for (const Charge* const charge : split.refusing()) refusals_.note(key_of(*charge));
    take_back(split, basis, wait);
    split.show_uncharged();
  }
  split.copy_rows(rows);
  return std::ranges::max(times);
}

// Of the parts from `first` on, those before `charged` are charged. If one of them does not answer, what the
// others have charged is taken back, which nobody confirms.
void Calls::ask(SplitCall& split, std::size_t first, std::size_t charged, std::span<Instant> times,
                Basis& basis, const Wait& wait) {
  const std::vector<Call> calls = split.calls(first, charged);
  const std::span<Instant> own = times.subspan(first);
  std::ranges::fill(own, kUnasked);
  ManyCalls many(*this, ManyCalls::Are::parts, calls, split.rows_from(first), own, {&basis, 1});
  FirstError failure;
  try {
    many.decide(wait);
  } catch (...) {
    failure.note();
  }
  for (std::size_t i = first; i < charged; ++i) {
    CallPart& part = split.parts()[i];
    part.is_charged = times[i] != kUnasked && part.admits();
    part.was_redirected = many.was_redirected(i - first);
  }
  if (failure && take_back(split, basis, wait)) failure.set_maybe_charged();
  failure.raise_if_any();
}

// A refund is sent with its text: nobody learns whether the server has the script. Nor where the slot is,
// so one that has moved is followed at once.
bool Calls::take_back(SplitCall& split, Basis& basis, const Wait& wait) {
  bool has_charged = false;
  for (CallPart& part : split.parts()) {
    if (!part.is_charged) continue;
    if (part.was_redirected) {
      ++basis.commands;
      follow(split.call_of(part), part.rows.receipts(), wait);
    } else {
      take_back(split.call_of(part), part.rows.receipts(), basis, wait);
    }
    part.is_charged = false;
    has_charged = true;
  }
  return has_charged;
}

// What was charged together with a lease goes back to that. Who remembers values waits for the new ones.
void Calls::take_back(const Call& call, std::span<const Receipt> receipts, Basis& basis, const Wait& wait) {
  if (leasing_.put_back(call, receipts)) return;
  const std::vector<Slot> slots = slots_across(call.charges);
  const auto send = [&](const Call& part, std::span<const Receipt> own) {
    ++basis.commands;
    if (remembering_.remembers(part)) return follow(part, own, wait);
    const ScriptCall script = refund_call(part, own, false, keys_, scripts_);
    servers_.send(script.eval(), script.keys.front(), wait);
    known_.change_unheard(script.keys);
  };
  if (slots.empty()) return send(call, receipts);
  std::size_t row = 0;
  for (const Charge& charge : call.charges) {
    Call part = call;
    part.charges = {&charge, 1};
    send(part, receipts.subspan(row, charge.policy->size()));
    row += charge.policy->size();
  }
}

// A refund that does not arrive leaves its charge, as one that is sent does.
void Calls::follow(const Call& part, std::span<const Receipt> receipts, const Wait& wait) {
  const ScriptCall refund = refund_call(part, receipts, remembering_.remembers(part), keys_, scripts_);
  const Changing changing(known_, refund.keys);
  try {
    std::optional<ScriptReply> reply;
    run_remembering(part, refund, receipts, reply, wait);
  } catch (const StoreError&) {
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
      std::optional<ScriptReply> told(
          std::in_place,
          is_final(*replies[i]) ? servers_.checked(*std::move(replies[i])) : servers_.run(refunds[i], wait),
          refunds[i].keys.size());
      is_any_given = true;
      const Belief belief = remembers ? hearings[i].hear(*told) : Belief::sound;
      if (told->has(ReplyFlags::kOtherKeys) || belief == Belief::lost) {
        const CallPart& lost = given.parts()[i];
        run_remembering(given.call_of(lost), refunds[i], lost.rows.receipts(), told, wait);
      }
      if (!shown) continue;
      const CallPart& part = shown->parts()[i];
      DatedCall dated(shown->call_of(part));
      present->time = max(present->time, read_answer(dated, *told, part.rows).now);
    } catch (...) {
      failure.note();
    }
  }
  if (is_any_given) failure.set_maybe_charged();
  failure.raise_if_any();
  if (shown) shown->copy_rows(present->rows);
}

}  // namespace overlimit::redis
