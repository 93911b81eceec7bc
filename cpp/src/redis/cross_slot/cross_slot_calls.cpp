#include "redis/cross_slot/cross_slot_calls.hpp"

#include <algorithm>
#include <deque>
#include <utility>

namespace overlimit::redis {

CrossSlotCalls::CrossSlotCalls(StoreClient& store, Calls& below, IsAskedApart is_asked_apart)
    : Layer(below), store_(store), is_asked_apart_(std::move(is_asked_apart)) {}

bool CrossSlotCalls::is_decided_apart(const Call& call) {
  return !slots_across(call.charges).empty() || below().is_decided_apart(call);
}

Instant CrossSlotCalls::decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  if (call.charges.size() > 1) {
    const std::vector<protocol::Slot> parts = parts_of(call);
    if (!parts.empty()) return decide_across(call, parts, rows, basis, wait);
  }
  return below().decide(call, rows, basis, wait);
}

void CrossSlotCalls::refund(const Call& call, std::span<const Receipt> receipts, Present* present,
                            const Wait& wait) {
  const std::vector<protocol::Slot> slots = slots_across(call.charges);
  if (slots.empty()) return below().refund(call, receipts, present, wait);
  refund_across(call, slots, receipts, present, wait);
}

void CrossSlotCalls::send_refund(const Call& call, std::span<const Receipt> receipts, Basis& basis,
                                 const Wait& wait) {
  if (slots_across(call.charges).empty()) return below().send_refund(call, receipts, basis, wait);
  std::size_t row = 0;
  for (const Charge& charge : call.charges) {
    Call part = call;
    part.charges = {&charge, 1};
    below().send_refund(part, receipts.subspan(row, charge.policy->size()), basis, wait);
    row += charge.policy->size();
  }
}

// Whether the hash tag alone says that the keys are in one slot.
bool CrossSlotCalls::are_tagged_alike(std::span<const Charge> charges) const {
  if (store_.naming().hash_tag != HashTag::policy) return store_.naming().hash_tag == HashTag::prefix;
  return std::ranges::all_of(
      charges, [&](const Charge& each) { return each.policy->name() == charges.front().policy->name(); });
}

// Of each charge, if there are several slots among them; else nothing.
std::vector<protocol::Slot> CrossSlotCalls::slots_across(std::span<const Charge> charges) {
  if (charges.size() < 2 || !store_.servers().topology().has_slots() || are_tagged_alike(charges)) return {};
  std::vector<protocol::Slot> slots;
  for (const Charge& charge : charges) slots.push_back(protocol::key_slot(key_of(store_.naming(), charge)));
  if (std::ranges::all_of(slots, [&](protocol::Slot each) { return each == slots.front(); })) return {};
  return slots;
}

// Of each charge, what tells the part that it is asked in: its slot, or a number of its own if it comes so
// often that it asks for a lease. Nothing, if all are asked in one command.
std::vector<protocol::Slot> CrossSlotCalls::parts_of(const Call& call) {
  std::vector<protocol::Slot> parts = slots_across(call.charges);
  if (!is_asked_apart_) return parts;
  const bool has_slots = !parts.empty();
  bool is_any_hot = false;
  if (!has_slots) parts.assign(call.charges.size(), 0);
  protocol::Slot own = protocol::kSlots;
  for (std::size_t k = 0; k < call.charges.size(); ++k) {
    if (!is_asked_apart_(call, call.charges[k])) continue;
    parts[k] = own++;
    is_any_hot = true;
  }
  return has_slots || is_any_hot ? parts : std::vector<protocol::Slot>{};
}

// A call that no part can admit, and one that only looks, charges nowhere. Parts that may refuse it, because
// they have lately, are charged while the others are only read, so that a flood that one of them refuses
// leaves the others alone.
Instant CrossSlotCalls::decide_across(const Call& call, std::span<const protocol::Slot> slots,
                                      const Rows& rows, Basis& basis, const Wait& wait) {
  SplitCall split(call, slots,
                  [&](const Charge& charge) { return refusals_.has(key_of(store_.naming(), charge)); });
  const std::size_t parts = split.parts().size();
  const std::size_t leading = may_charge(call) ? split.leading() : 0;
  std::vector<Instant> times(parts);
  ask(split, 0, leading, times, basis, wait);
  if (leading > 0 && leading < parts && split.admits()) ask(split, leading, parts, times, basis, wait);
  if (!split.admits()) {
    for (const Charge* const charge : split.refusing()) refusals_.note(key_of(store_.naming(), *charge));
    send_refund(split, basis, wait);
    split.show_uncharged();
  }
  split.copy_rows(rows);
  return std::ranges::max(times);
}

// Of the parts from `first` on, those before `charged` are charged. If one of them does not answer, what the
// others have charged is refunded, which nobody confirms.
void CrossSlotCalls::ask(SplitCall& split, std::size_t first, std::size_t charged, std::span<Instant> times,
                         Basis& basis, const Wait& wait) {
  const std::vector<Call> calls = split.calls(first, charged);
  std::deque<DecideExchange> deciding;
  std::vector<Exchange*> exchanges;
  for (std::size_t i = first; i < split.parts().size(); ++i)
    exchanges.push_back(
        &deciding.emplace_back(store_, calls[i - first], split.parts()[i].rows, times[i], basis, true));
  FirstError failure = store_.run(exchanges, wait);
  for (std::size_t i = first; i < charged; ++i) {
    CallPart& part = split.parts()[i];
    part.is_charged = deciding[i - first].is_over() && part.admits();
    part.was_redirected = deciding[i - first].was_redirected;
  }
  if (failure && send_refund(split, basis, wait)) failure.set_maybe_charged();
  failure.raise_if_any();
}

// A refund is sent without learning where its slot is, so one that has moved is followed at once.
bool CrossSlotCalls::send_refund(SplitCall& split, Basis& basis, const Wait& wait) {
  bool has_charged = false;
  for (CallPart& part : split.parts()) {
    if (!part.is_charged) continue;
    const Call call = split.call_of(part);
    if (part.was_redirected) {
      ++basis.commands;
      try {
        below().refund(call, part.rows.receipts(), nullptr, wait);
      } catch (const StoreError&) {
      }
    } else {
      store_.top().send_refund(call, part.rows.receipts(), basis, wait);
    }
    part.is_charged = false;
    has_charged = true;
  }
  return has_charged;
}

// A failure of one slot keeps nothing from the others. What these have refunded is not refunded again, so
// the error says that it may have been.
void CrossSlotCalls::refund_across(const Call& call, std::span<const protocol::Slot> slots,
                                   std::span<const Receipt> receipts, Present* present, const Wait& wait) {
  const auto in_order = [](const Charge&) { return false; };
  SplitCall given(call, slots, in_order);
  given.set_receipts(receipts);
  std::optional<SplitCall> shown;
  const Call peek{.charges = present == nullptr ? call.charges : present->charges, .mode = Mode::peek};
  if (present != nullptr) shown.emplace(peek, slots, in_order);
  std::vector<Call> calls = given.calls(0, given.parts().size());
  std::vector<Present> presents(calls.size());
  std::deque<RefundExchange> refunding;
  std::vector<Exchange*> exchanges;
  Basis basis;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (shown) presents[i] = {shown->parts()[i].charges, shown->parts()[i].rows};
    exchanges.push_back(&refunding.emplace_back(store_, calls[i], given.parts()[i].rows.receipts(),
                                                shown ? &presents[i] : nullptr, basis));
  }
  const std::vector<std::string> keys = keys_of(store_.naming(), call);
  const StoreClient::Changes changes = store_.announce({.keys = keys});
  FirstError failure = store_.run(exchanges, wait);
  if (std::ranges::any_of(refunding, &RefundExchange::is_over)) failure.set_maybe_charged();
  failure.raise_if_any();
  for (const Present& each : presents)
    if (shown) present->time = max(present->time, each.time);
  if (shown) shown->copy_rows(present->rows);
}

}  // namespace overlimit::redis
