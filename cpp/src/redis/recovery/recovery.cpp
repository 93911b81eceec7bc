#include "redis/recovery/recovery.hpp"

#include <algorithm>
#include <deque>
#include <map>

#include "redis/plain/server_reading.hpp"
#include "redis/recovery/command_snapshots.hpp"

namespace overlimit::redis {
namespace {

/// Of an exchange: its reply is held against what is remembered.
class Judging : public Observation {
 public:
  Judging(CommandSnapshots snapshots, bool trusts_all)
      : snapshots_(std::move(snapshots)), trusts_all_(trusts_all) {}

  Trust judge(const ScriptReply& reply) override {
    if (!trusts_all_) return snapshots_.judge(reply);
    snapshots_.keep(reply);
    return Trust::trusted;
  }

 private:
  CommandSnapshots snapshots_;
  const bool trusts_all_;
};

/// What brings back what is remembered of a key.
struct Restoration {
  Snapshots::Pointer known;
  ScriptCall script;
  CommandSnapshots snapshots;
};

}  // namespace

Recovery::Recovery(StoreClient& store, Calls& below, Duration longest)
    : Layer(below), store_(store), longest_(longest) {
  (void)values();
}

// Not of keys that go by a clock that the caller brings.
std::unique_ptr<Observation> Recovery::observe_attempt(const Exchange& exchange, Extras& extras) {
  if (!exchange.goes_by_server()) return nullptr;
  CommandSnapshots snapshots(values(), store_.servers(), exchange.keys(), longest_);
  extras.reports = Reports::value;
  if (!exchange.is_last_attempt() && exchange.takes_incarnations())
    extras.incarnations = snapshots.incarnations();
  return std::make_unique<Judging>(std::move(snapshots), exchange.is_last_attempt());
}

bool Recovery::suspects(std::string_view key) {
  const auto known = values().find(key, boot_time());
  if (known == nullptr) return false;
  const transport::Link link = store_.servers().link_of(key);
  return !link.is_open || known->is_news_for(link);
}

// One command per key, all at once. What the keys hold then is what is remembered, whatever that was made of.
void Recovery::precede(std::span<Exchange* const> exchanges, const Wait& wait) {
  std::deque<Restoration> all;
  for (const Exchange* const exchange : exchanges) {
    if (!exchange->goes_by_server()) continue;
    for (const Charge& charge : exchange->charges()) {
      const std::string key = key_of(store_.naming(), charge);
      auto known = values().find(key, boot_time());
      if (known == nullptr || !known->is_news_for(store_.servers().open_link_of(key, wait))) continue;
      const auto is_of_key = [&](const Restoration& each) { return each.script.keys.front() == key; };
      if (std::ranges::any_of(all, is_of_key)) continue;
      ScriptCall script = restore_call(charge, key, known->reported_at, known->bytes, store_.scripts());
      all.push_back({std::move(known), std::move(script),
                     CommandSnapshots(values(), store_.servers(), {key}, longest_)});
    }
  }
  if (all.empty()) return;
  std::vector<std::string> keys;
  std::vector<const ScriptCall*> scripts;
  for (const Restoration& each : all) {
    keys.push_back(each.script.keys.front());
    scripts.push_back(&each.script);
  }
  const StoreClient::Changes changes = store_.announce({.keys = keys});
  Basis& basis = exchanges.front()->basis();
  basis.commands += std::uint32_t(all.size());
  std::vector<protocol::Reply> replies = store_.replies_to(scripts, wait);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].snapshots.keep_restored(ScriptReply(std::move(replies[i]), 1), all[i].known)) ++basis.restored;
  }
}

// What is not refunded counts.
void Recovery::undo(std::span<const ScriptCall> refunds, Basis& basis, const Wait& wait) {
  std::vector<std::string> keys;
  std::vector<const ScriptCall*> scripts;
  for (const ScriptCall& refund : refunds) {
    keys.insert(keys.end(), refund.keys.begin(), refund.keys.end());
    scripts.push_back(&refund);
  }
  const StoreClient::Changes changes = store_.announce({.keys = keys});
  basis.commands += std::uint32_t(refunds.size());
  FirstError failure;
  try {
    (void)store_.replies_to(scripts, wait);
  } catch (...) {
    failure.note();
    failure.set_maybe_charged();
  }
  failure.raise_if_any();
}

// Waits for the new values. A refund that does not arrive leaves its charge, as one that is sent does.
void Recovery::send_refund(const Call& call, std::span<const Receipt> receipts, Basis& basis,
                           const Wait& wait) {
  if (!goes_by_server(call)) return below().send_refund(call, receipts, basis, wait);
  ++basis.commands;
  try {
    below().refund(call, receipts, nullptr, wait);
  } catch (const StoreError&) {
  }
}

void Recovery::reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
                     const Interrupted& interrupted) {
  if (identifiers.empty()) return;
  const std::vector<std::string> keys = keys_of(store_.naming(), policy, identifiers);
  const StoreClient::Changes changes =
      store_.announce({keys, Change::Kind::reset, policy.name(), identifiers});
  reset(keys, interrupted);
}

// What is remembered here of keys that the server has lost is reset, too.
void Recovery::reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) {
  const StoreClient::Changes changes =
      store_.announce({.keys = {}, .kind = Change::Kind::reset, .policy = policy.name()});
  const std::vector<std::string> before = values().keys_of(starts_of(store_.naming(), policy.name()));
  const auto remove = [&](const std::vector<std::string>& keys) { reset(keys, interrupted); };
  store_.servers().for_each_page(patterns_of(store_.naming(), policy.name()), remove, interrupted);
  reset(before, interrupted);
}

// In each key that is left which was reset, and when, so that what was reported of it before does not come
// back.
void Recovery::reset(const std::vector<std::string>& keys, const Interrupted& interrupted) {
  std::map<std::optional<protocol::Slot>, std::vector<std::string>> parts;
  for (const std::string& key : keys) parts[store_.servers().slot_of(key)].push_back(key);
  for (const auto& [slot, part] : parts) {
    CommandSnapshots snapshots(values(), store_.servers(), part, longest_);
    const ScriptCall script = reset_call(part, store_.scripts());
    snapshots.keep_reset(ScriptReply(store_.servers().run(script, interrupted), part.size()));
  }
}

}  // namespace overlimit::redis
