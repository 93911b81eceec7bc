#include "redis/calls.hpp"

#include "redis/answer.hpp"
#include "redis/first_error.hpp"
#include "redis/keys.hpp"
#include "redis/many_calls.hpp"

namespace overlimit::redis {
namespace {

using protocol::Reply;

}  // namespace

Calls::Calls(Location location, const RedisStore::Options& options)
    : keys_(options.keys),
      servers_(std::move(location), options.timeout),
      known_(servers_.location(), {options.keys, options.max_stale, options.timeout}) {}

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

Instant Calls::decide(const Call& asked, const Rows& rows, Basis& basis, const Wait& wait) {
  const Call call = with_reading(asked);
  const std::vector<Slot> slots = slots_across(call.charges);
  if (!slots.empty()) return decide_across(call, slots, rows, basis, wait);
  return decide_in_slot(call, rows, basis, wait);
}

// If the server's clock is in another period of a calendar, the call is made once more with its bounds.
Instant Calls::decide_in_slot(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  DatedCall dated(call, call.now ? *call.now : system_now());
  for (bool is_first = true;; is_first = false) {
    const ScriptCall script = script_call(*dated);
    Telling telling(known_, script.keys);
    ++basis.commands;
    const Reply reply = servers_.run(script, wait);
    const std::optional<Instant> elsewhere = out_of_bounds(reply);
    if (!elsewhere) {
      const Answer answer = read_answer(dated, reply, rows);
      telling.tell(*dated, answer, rows, false);
      return answer.now;
    }
    if (!is_first) {
      throw ScriptError("the server's clock is in none of the periods that its calendar has around it",
                        false);
    }
    dated.move_to(*elsewhere);
  }
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
    const ScriptCall script = refund_call(split.call_of(part), part.rows.receipts(), false, keys_, scripts_);
    ++basis.commands;
    if (part.was_redirected) {
      follow(script, wait);
    } else {
      servers_.send(script.eval(), script.keys.front(), wait);
      known_.change_unheard(script.keys);
    }
    part.is_charged = false;
    has_charged = true;
  }
  return has_charged;
}

// A refund that does not arrive leaves its charge, as one that is sent does.
void Calls::follow(const ScriptCall& refund, const Wait& wait) {
  const Changing changing(known_, refund.keys);
  try {
    (void)servers_.run(refund, wait);
  } catch (const StoreError&) {
  }
}

// In their order. A call across slots is under way alone, so that no other is refused by what it takes back,
// and one that is refused here follows those before it.
void Calls::decide_many(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                        std::span<Basis> bases, const Wait& wait) {
  std::vector<std::size_t> first_rows{0};
  for (const Call& call : calls) first_rows.push_back(first_rows.back() + pairs_of(call.charges));
  const auto rows_of_calls = [&](std::size_t first, std::size_t last) {
    return rows_of(rows, first_rows[first], first_rows[last] - first_rows[first]);
  };
  const auto is_refused = [&](std::size_t i) {
    return known_.refuse(calls[i], rows_of_calls(i, i + 1), times[i], bases[i]);
  };
  const auto is_in_slot = [&](std::size_t i) { return slots_across(calls[i].charges).empty(); };
  for (std::size_t first = 0, next = 0; first < calls.size(); first = next) {
    next = first + 1;
    if (is_refused(first)) continue;
    if (is_in_slot(first)) {
      while (next < calls.size() && is_in_slot(next) && !is_refused(next)) ++next;
    }
    const std::size_t count = next - first;
    if (count == 1) {
      times[first] = decide(calls[first], rows_of_calls(first, next), bases[first], wait);
    } else {
      ManyCalls(*this, ManyCalls::Are::calls, calls.subspan(first, count), rows_of_calls(first, next),
                times.subspan(first, count), bases.subspan(first, count))
          .decide(wait);
    }
  }
}

}  // namespace overlimit::redis
