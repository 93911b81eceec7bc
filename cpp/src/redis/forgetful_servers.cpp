// What Calls does where a server may have forgotten what this process remembers (docs/semantics.md: counts
// that come back).
#include <algorithm>
#include <deque>
#include <map>

#include "redis/calls.hpp"
#include "redis/transport/first_error.hpp"

namespace overlimit::redis {
namespace {

using protocol::Reply;

/// What brings back what is remembered of a key.
struct Restoration {
  RememberedValues::Pointer known;
  ScriptCall script;
  Hearing hearing;
};

// Whether any of the charges with these receipts was made on a key as it is told now.
bool is_charged_there(const Call& call, std::span<const Receipt> receipts, const ScriptReply& told) {
  std::size_t row = 0;
  const std::vector<ScriptReply::Key> keys = told.keys();
  for (std::size_t k = 0; k < keys.size() && row < receipts.size(); ++k) {
    if (are_of_one_key(receipts[row].created_at.micros(), keys[k].created_at)) return true;
    row += call.charges[k].policy->size();
  }
  return false;
}

}  // namespace

bool Calls::may_be_lost(const LeaseReturn& units) {
  const LeaseSubject& subject = units.lease->subject();
  const std::string key = redis::key_of(keys_, subject.policy, subject.identifier);
  const auto known = remembering_.values().find(key, boot_time());
  if (known == nullptr) return false;
  const transport::Link link = servers_.link_of(key);
  return !link.is_open || known->is_news_for(link);
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
    if (all[i].hearing.keep_restored(ScriptReply(std::move(replies[i]), 1), all[i].known)) ++basis.restored;
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

void Calls::run_remembering(const Call& call, const ScriptCall& script, std::span<const Receipt> receipts,
                            std::optional<ScriptReply>& reply, const Interrupted& interrupted) {
  naming_timeout(servers_.timeout(), [&] {
    run_remembering(call, script, receipts, reply, Wait{servers_.deadline(), interrupted});
  });
}

// A script that answers what the keys hold then. It is run again if its server had forgotten them, or has
// since, unless it has given something back on a key in doubt: that was charged after.
void Calls::run_remembering(const Call& call, ScriptCall script, std::span<const Receipt> receipts,
                            std::optional<ScriptReply>& reply, const Wait& wait) {
  const auto run = [&] { reply.emplace(servers_.run(script, wait), script.keys.size()); };
  if (!remembering_.remembers(call)) return run();
  for (int doubted = 0;; ++doubted) {
    Basis basis;
    restore(call, basis, wait);
    Hearing hearing(remembering_, servers_, script.keys);
    script.births = doubted < kMostDoubts ? hearing.births() : std::string();
    run();
    if (doubted == kMostDoubts) return hearing.keep(*reply);
    const Belief belief = hearing.hear(*reply);
    if (reply->has(ReplyFlags::kOtherKeys)) continue;
    if (belief == Belief::sound) return;
    if (belief == Belief::doubtful && is_charged_there(call, receipts, *reply)) return;
  }
}

// In each key that is left which was reset, and when, so that what was told of it before does not come back.
void Calls::reset_remembered(const std::vector<std::string>& keys, const Interrupted& interrupted) {
  std::map<std::optional<Slot>, std::vector<std::string>> parts;
  for (const std::string& key : keys) parts[servers_.slot_of(key)].push_back(key);
  for (auto& [slot, part] : parts) {
    Hearing hearing(remembering_, servers_, part);
    const std::size_t count = part.size();
    hearing.keep_reset(ScriptReply(servers_.run(reset_call(std::move(part), scripts_), interrupted), count));
  }
}

}  // namespace overlimit::redis
