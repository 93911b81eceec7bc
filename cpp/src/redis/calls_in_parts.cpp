// What Calls does for a call whose identifiers are asked for in several commands: those of several slots, and
// those that ask for leases of their own.
#include <algorithm>
#include <deque>

#include "redis/calls.hpp"

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
  std::vector<Instant> times(parts);
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
  std::deque<Deciding> deciding;
  std::vector<Exchange*> exchanges;
  for (std::size_t i = first; i < split.parts().size(); ++i)
    exchanges.push_back(
        &deciding.emplace_back(*this, calls[i - first], split.parts()[i].rows, times[i], basis, true));
  FirstError failure = run(exchanges, wait);
  for (std::size_t i = first; i < charged; ++i) {
    CallPart& part = split.parts()[i];
    part.is_charged = deciding[i - first].is_over() && part.admits();
    part.was_redirected = deciding[i - first].was_redirected;
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
      follow(split.call_of(part), part.rows.receipts(), basis, wait);
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
    if (remembering_.remembers(part)) return follow(part, own, basis, wait);
    ++basis.commands;
    const ScriptCall script = refund_call(part, own, false);
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
void Calls::follow(const Call& part, std::span<const Receipt> receipts, Basis& basis, const Wait& wait) {
  try {
    Refunding refunding(*this, part, receipts, nullptr, basis);
    run(refunding, wait);
  } catch (const StoreError&) {
  }
}

// A failure of one slot keeps nothing from the others. What these have given back is not given back again, so
// the error says that it may have been.
void Calls::give_back_across(const Call& call, std::span<const Slot> slots, std::span<const Receipt> receipts,
                             Present* present, const Wait& wait) {
  const auto in_order = [](const Charge&) { return false; };
  SplitCall given(call, slots, in_order);
  given.set_receipts(receipts);
  std::optional<SplitCall> shown;
  const Call peek{.charges = present == nullptr ? call.charges : present->charges, .mode = Mode::peek};
  if (present != nullptr) shown.emplace(peek, slots, in_order);
  std::vector<Call> calls = given.calls(0, given.parts().size());
  std::vector<Present> presents(calls.size());
  std::deque<Refunding> refunding;
  std::vector<Exchange*> exchanges;
  Basis basis;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (shown) presents[i] = {shown->parts()[i].charges, shown->parts()[i].rows};
    exchanges.push_back(&refunding.emplace_back(*this, calls[i], given.parts()[i].rows.receipts(),
                                                shown ? &presents[i] : nullptr, basis));
  }
  FirstError failure = run(exchanges, wait);
  if (std::ranges::any_of(refunding, &Refunding::is_over)) failure.set_maybe_charged();
  failure.raise_if_any();
  for (const Present& each : presents)
    if (shown) present->time = max(present->time, each.time);
  if (shown) shown->copy_rows(present->rows);
}

}  // namespace overlimit::redis
