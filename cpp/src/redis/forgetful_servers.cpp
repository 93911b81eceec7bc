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
using transport::Wait;

/// What brings back what is remembered of a key.
struct Restoration {
  Snapshots::Pointer known;
  ScriptCall script;
  Hearing hearing;
};

// The first goes with its text, as the others mostly come to the same server; one that lacks it is asked
// again.
std::deque<Reply> replies_to(Servers& servers, const auto& all, const auto& script_of, const Wait& wait) {
  std::deque<Reply> replies;
  if (all.size() == 1) {
    replies.push_back(servers.run(std::invoke(script_of, all.front()), wait));
    return replies;
  }
  Batch batch(servers);
  for (const auto& each : all)
    batch.add(std::invoke(script_of, each), batch.size() == 0 ? Batch::By::text : Batch::By::name);
  batch.run(wait);
  batch.failure().raise_if_any();
  for (std::size_t i = 0; i < all.size(); ++i) replies.push_back(batch.reply(i, wait));
  return replies;
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
void Calls::restore(std::span<Exchange* const> exchanges, const Wait& wait) {
  std::deque<Restoration> all;
  for (const Exchange* const exchange : exchanges) {
    if (!remembering_.remembers(exchange->call())) continue;
    for (const Charge& charge : exchange->call().charges) {
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
  for (const Restoration& each : all) keys.push_back(each.script.keys.front());
  const Changing changing(known_, std::move(keys));
  Basis& basis = exchanges.front()->basis();
  basis.commands += std::uint32_t(all.size());
  std::deque<Reply> replies = replies_to(servers_, all, &Restoration::script, wait);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].hearing.keep_restored(ScriptReply(std::move(replies[i]), 1), all[i].known)) ++basis.restored;
  }
}

// What is not given back counts.
void Calls::undo(std::span<const ScriptCall> refunds, Basis& basis, const Wait& wait) {
  std::vector<std::string> keys;
  for (const ScriptCall& refund : refunds) keys.insert(keys.end(), refund.keys.begin(), refund.keys.end());
  const Changing changing(known_, std::move(keys));
  basis.commands += std::uint32_t(refunds.size());
  FirstError failure;
  try {
    (void)replies_to(servers_, refunds, std::identity{}, wait);
  } catch (...) {
    failure.note();
    failure.set_maybe_charged();
  }
  failure.raise_if_any();
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
