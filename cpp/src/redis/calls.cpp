#include "redis/calls.hpp"

#include <deque>

#include "redis/answer.hpp"
#include "redis/first_error.hpp"
#include "redis/keys.hpp"
#include "redis/leased_parts.hpp"
#include "redis/many_calls.hpp"

namespace overlimit::redis {
namespace {

using protocol::Reply;

/// What brings back what is remembered of a key.
struct Restoration {
  RememberedValues::Pointer known;
  ScriptCall script;
  Hearing hearing;
};

bool have_common_key(std::span<const Call> calls, const Call& other) {
  const auto is_same = [](const Charge& one, const Charge& two) {
    return one.identifier == two.identifier && one.policy->name() == two.policy->name();
  };
  return std::ranges::any_of(calls, [&](const Call& call) {
    return std::ranges::any_of(call.charges, [&](const Charge& one) {
      return std::ranges::any_of(other.charges, [&](const Charge& two) { return is_same(one, two); });
    });
  });
}

}  // namespace

Calls::Calls(Location location, const RedisStore::Options& options)
    : keys_(options.keys),
      servers_(std::move(location), options.timeout),
      known_(servers_.location(), {options.keys, options.max_stale, options.timeout}),
      leasing_(servers_.location(), {options.keys, options.lease, options.timeout, options.lease_in}),
      remembering_(servers_.location(), options.keys, options.remember) {}

Question::Question(Calls& store, DatedCall& call, bool may_doubt)
    : store_(store),
      call_(call),
      lease_(store.leasing(), *call),
      script_(store.script_call(*call, lease_)),
      telling_(store.known(), script_.keys) {
  if (!store.remembering().remembers(*call)) return;
  hearing_.emplace(store.remembering(), store.servers(), script_.keys);
  if (may_doubt && may_charge(*call)) script_.births = hearing_->births();
}

bool Question::doubts(Reply reply) {
  if (!hearing_) {
    told_.reply = std::move(reply);
    return false;
  }
  std::vector<std::size_t> limits;
  for (const Charge& charge : (*call_).charges) limits.push_back(charge.policy->size());
  told_ = told_in(std::move(reply), limits);
  return hearing_->doubts(told_);
}

std::optional<ScriptCall> Question::taking_back(const Rows& rows) {
  if (told_.is_of_others) return std::nullopt;
  const Answer answer = read_answer(call_, told_.reply, rows);
  const std::span receipts = rows.receipts().first(pairs_of((*call_).charges));
  const auto is_charged = [](const Receipt& each) { return each.created_at != Instant{}; };
  if (!answer.is_written || std::ranges::none_of(receipts, is_charged)) return std::nullopt;
  std::vector<Charge> charges((*call_).charges.begin(), (*call_).charges.end());
  charges.front().cost += granted_extra(told_.reply).value_or(0);
  Call charged = *call_;
  charged.charges = charges;
  return store_.refund_of_doubted(charged, receipts);
}

Instant Question::read(const Rows& rows, bool of_all) {
  const Answer answer = read_answer(call_, told_.reply, rows);
  if (hearing_) hearing_->keep(told_);
  telling_.tell(*call_, answer, rows, of_all);
  lease_.answered(*call_, answer.now, granted_extra(told_.reply), rows);
  store_.leasing().show_held(*call_, rows);
  return answer.now;
}

// What is leased first; then what is certainly refused; then what this process does not ask for yet.
bool Calls::decide_here(const Call& call, const Rows& rows, Instant& time, Basis& basis) {
  if (!anybody_wants_to_know.load(std::memory_order_relaxed)) return false;
  leasing_.open_file();
  if (leasing_.may_cut(call) && decide_cut_here(call, rows, time, basis)) return true;
  const Leases::Found leased = leasing_.find(call);
  if (leasing_.spend(leased, call, rows, time, basis)) return true;
  const Duration turn = leased.next_turn;
  if (known_.refuse(call, turn, rows, time, basis)) {
    if (turn > Duration{}) hold_back(turn, rows_of(rows, 0, pairs_of(call.charges)));
    return true;
  }
  return turn > Duration{} && (known_.refuse_until(call, turn, rows, time, basis) ||
                               leasing_.refuse_until_turn(leased, rows, time, basis));
}

// Several identifiers: all are leased here, or those that are not are certainly refused.
bool Calls::decide_cut_here(const Call& call, const Rows& rows, Instant& time, Basis& basis) {
  LeasedParts leased(leasing_, call);
  if (leased.are_all()) {
    if (!leased.take()) return false;
    time = leased.time();
    basis.source = Source::lease;
  } else if (!leased.are_some() || !known_.refuse(leased.rest(), {}, leased.rows_of_rest(), time, basis)) {
    return false;
  }
  leased.note_time(time);
  leased.show(time, rows);
  return true;
}

bool Calls::may_be_lost(const LeaseReturn& units) {
  const LeaseSubject& subject = units.lease->subject();
  const std::string key = redis::key_of(keys_, subject.policy, subject.identifier);
  const auto known = remembering_.values().find(key, boot_time());
  if (known == nullptr) return false;
  const transport::Link link = servers_.link_of(key);
  return !link.is_open || known->is_news_for(link);
}

// What goes to a key that its server may have forgotten waits until a call has brought that back.
GiveBacks Calls::give_backs(GiveBackTo keys) {
  Leases* const leases = leasing_.wanted();
  std::vector<LeaseReturn> ended;
  if (leases != nullptr) {
    if (const Duration now = boot_time(); leases->have_ended(now)) ended = leases->take_ended(now);
  }
  if (keys == GiveBackTo::keys_not_lost && remembering_.is_on()) {
    const auto waiting =
        std::ranges::partition(ended, [&](const LeaseReturn& each) { return !may_be_lost(each); });
    for (LeaseReturn& each : waiting) leases->give_back(std::move(each));
    ended.erase(waiting.begin(), waiting.end());
  }
  return {leases, std::move(ended), keys_, scripts_, is_refund_known_, remembering_, servers_};
}

// The refunds arrive in front of it. None of them is sent again; the script is, if it was not executed.
Reply Calls::ask_after(GiveBacks& before, const ScriptCall& script, const Wait& wait) {
  if (before.empty()) return servers_.run(script, wait);
  std::vector<std::string> commands;
  std::vector<std::optional<Slot>> slots;
  before.append_to(commands, slots, servers_);
  commands.push_back(script.evalsha());
  slots.push_back(servers_.slot_of(script.keys.front()));
  std::vector<std::optional<Reply>> replies(commands.size());
  FirstError failure;
  try {
    servers_.topology().call_many(commands, slots, replies, wait);
  } catch (...) {
    failure.note();
  }
  before.read(std::span(replies).first(before.size()));
  if (!replies.back()) failure.raise_if_any();
  if (!is_final(*replies.back())) return servers_.run(script, wait);
  return servers_.checked(*std::move(replies.back()));
}

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
  if (call.charges.size() == 1) return decide_in_slot(call, rows, basis, wait);
  if (leasing_.may_cut(call)) {
    if (const std::optional<Instant> decided = decide_cut(call, rows, basis, wait)) return *decided;
  }
  return decide_rest(call, rows, basis, wait);
}

Instant Calls::decide_rest(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  if (call.charges.size() == 1) return decide_in_slot(call, rows, basis, wait);
  const std::vector<Slot> parts = parts_of(call);
  if (!parts.empty()) return decide_across(call, parts, rows, basis, wait);
  return decide_in_slot(call, rows, basis, wait);
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

// Commands go first, and what is leased is taken last. If that is gone by then, what was charged goes back,
// and the whole call is asked for.
std::optional<Instant> Calls::decide_cut(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  LeasedParts leased(leasing_, call);
  if (!leased.are_some()) return std::nullopt;
  const Instant time = decide_rest(leased.rest(), leased.rows_of_rest(), basis, wait);
  const std::span<const Status> verdicts(leased.rows_of_rest().status, leased.rows_of_rest().count);
  const bool admits = std::ranges::all_of(verdicts, [](Status each) { return each == Status::ok; });
  if (admits && !leased.take()) {
    take_back(leased.rest(), leased.rows_of_rest().receipts(), basis, wait);
    return std::nullopt;
  }
  leased.note_time(time);
  leased.show(time, rows);
  return time;
}

// If the server's clock is in another period of a calendar, the call is made once more with its bounds; and
// if the server has forgotten, once what it has forgotten is back.
Instant Calls::decide_in_slot(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  DatedCall dated(call, call.now ? *call.now : system_now());
  bool was_elsewhere = false;
  for (int doubted = 0;;) {
    restore(*dated, basis, wait);
    std::optional<Question> question;
    if (anybody_wants_to_know.load(std::memory_order_relaxed))
      question.emplace(*this, dated, doubted < kMostDoubts);
    Reply reply = question ? ask(*question, basis, wait) : ask_plainly(*dated, basis, wait);
    if (const std::optional<Instant> elsewhere = out_of_bounds(reply)) {
      if (was_elsewhere) {
        throw ScriptError("the server's clock is in none of the periods that its calendar has around it",
                          false);
      }
      was_elsewhere = true;
      dated.move_to(*elsewhere);
      continue;
    }
    if (!question) return read_answer(dated, reply, rows).now;
    if (!question->doubts(std::move(reply)) || doubted++ == kMostDoubts) return question->read(rows, false);
    if (const std::optional<ScriptCall> refund = question->taking_back(rows))
      take_back_doubted({&*refund, 1}, basis, wait);
  }
}

Reply Calls::ask_plainly(const Call& call, Basis& basis, const Wait& wait) {
  ++basis.commands;
  return servers_.run(redis::script_call(call, keys_, scripts_), wait);
}

Reply Calls::ask(Question& question, Basis& basis, const Wait& wait) {
  GiveBacks before = give_backs();
  question.follows(before);
  basis.commands += std::uint32_t(1 + before.size());
  try {
    return ask_after(before, question.script(), wait);
  } catch (const StoreError& error) {
    if (error.maybe_charged()) question.lost();
    throw;
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
    (void)run_remembering(part, refund, receipts, wait);
  } catch (const StoreError&) {
  }
}

// In their order. A call across slots is under way alone, so that no other is refused by what it takes back.
// What may be decided here follows the calls before it that concern one of its keys.
void Calls::decide_many(std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                        std::span<Basis> bases, const Wait& wait) {
  std::vector<std::size_t> first_rows{0};
  for (const Call& call : calls) first_rows.push_back(first_rows.back() + pairs_of(call.charges));
  const auto rows_of_calls = [&](std::size_t first, std::size_t last) {
    return rows_of(rows, first_rows[first], first_rows[last] - first_rows[first]);
  };
  const auto is_decided_here = [&](std::size_t i) {
    return decide_here(calls[i], rows_of_calls(i, i + 1), times[i], bases[i]);
  };
  const auto is_asked_alone = [&](const Call& call) {
    return leasing_.may_cut(call) || !slots_across(call.charges).empty();
  };
  const bool knows = known_.are_told() || leasing_.is_on();
  std::size_t decided = calls.size();  // ahead of its turn
  for (std::size_t first = 0, next = 0; first < calls.size(); first = next) {
    next = first + 1;
    if (decided == first || is_decided_here(first)) continue;
    if (is_asked_alone(calls[first])) {
      times[first] = decide(calls[first], rows_of_calls(first, next), bases[first], wait);
      continue;
    }
    for (; next < calls.size() && !is_asked_alone(calls[next]); ++next) {
      if (!knows) continue;
      if (have_common_key(calls.subspan(first, next - first), calls[next])) break;
      if (is_decided_here(next)) {
        decided = next;
        break;
      }
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

// One command per key, all at once. What the keys hold then is what is remembered, whatever that was made of.
void Calls::restore(std::span<const Call* const> calls, Basis& basis, const Wait& wait) {
  std::deque<Restoration> all;
  for (const Call* const call : calls) {
    if (!remembering_.remembers(*call)) continue;
    for (const Charge& charge : call->charges) {
      const std::string key = key_of(charge);
      auto known = remembering_.values().find(key, boot_time());
      if (known == nullptr || !known->is_news_for(servers_.open_link_of(key, wait))) continue;
      const auto is_of_key = [&](const Restoration& each) { return each.script.keys.front() == key; };
      if (std::ranges::any_of(all, is_of_key)) continue;
      ScriptCall script = restore_call(charge, known->told, known->bytes, keys_, scripts_);
      all.push_back({std::move(known), std::move(script), {remembering_, servers_, {key}}});
    }
  }
  if (all.empty()) return;
  std::vector<std::string> keys;
  std::vector<ScriptCall> scripts;
  for (const Restoration& each : all) {
    keys.push_back(each.script.keys.front());
    scripts.push_back(each.script);
  }
  const Changing changing(known_, std::move(keys));
  basis.commands += std::uint32_t(all.size());
  std::vector<Reply> replies = run_all(scripts, wait);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].hearing.keep_restored(told_in(std::move(replies[i]), {1}), all[i].known)) ++basis.restored;
  }
}

// The first goes with its text, as the others mostly come to the same server; one that lacks it is asked
// again.
std::vector<Reply> Calls::run_all(std::span<const ScriptCall> scripts, const Wait& wait) {
  std::vector<Reply> checked;
  if (scripts.size() == 1) {
    checked.push_back(servers_.run(scripts.front(), wait));
    return checked;
  }
  std::vector<std::string> commands;
  std::vector<std::optional<Slot>> slots;
  for (const ScriptCall& script : scripts) {
    commands.push_back(commands.empty() ? script.eval() : script.evalsha());
    slots.push_back(servers_.slot_of(script.keys.front()));
  }
  std::vector<std::optional<Reply>> replies(commands.size());
  servers_.topology().call_many(commands, slots, replies, wait);
  for (std::size_t i = 0; i < replies.size(); ++i) {
    checked.push_back(is_final(*replies[i]) ? servers_.checked(*std::move(replies[i]))
                                            : servers_.run(scripts[i], wait));
  }
  return checked;
}

// What is not given back counts.
void Calls::take_back_doubted(std::span<const ScriptCall> refunds, Basis& basis, const Wait& wait) {
  std::vector<std::string> keys;
  for (const ScriptCall& refund : refunds) keys.insert(keys.end(), refund.keys.begin(), refund.keys.end());
  const Changing changing(known_, std::move(keys));
  basis.commands += std::uint32_t(refunds.size());
  FirstError failure;
  try {
    (void)run_all(refunds, wait);
  } catch (...) {
    failure.note();
    failure.set_maybe_charged();
  }
  failure.raise_if_any();
}

void Calls::close() {
  if (Leases* const leases = leasing_.wanted()) {
    leases->end_all();
    GiveBacks all = give_backs(GiveBackTo::all_keys);
    std::vector<std::string> commands;
    std::vector<std::optional<Slot>> slots;
    all.append_to(commands, slots, servers_);
    std::vector<std::optional<Reply>> replies(commands.size());
    try {
      if (!all.empty()) servers_.topology().call_many(commands, slots, replies, {servers_.deadline(), {}});
    } catch (const StoreError&) {
    }
    all.read(replies);
    for (const LeaseReturn& each : leases->take_ended(boot_time()))
      leases->count(each.lease->subject().policy, RedisStore::Units::lapsed, each.units);
  }
  servers_.topology().close();
}

LeaseCounts Calls::leased(const PolicyIdentity& policy) {
  Leases* const leases = leasing_.wanted();
  return leases == nullptr ? LeaseCounts{} : leases->counts(policy);
}

}  // namespace overlimit::redis
