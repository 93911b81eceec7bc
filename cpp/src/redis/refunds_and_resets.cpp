// What Calls does besides deciding: refunds, locks, resets.
#include "redis/calls.hpp"
#include "redis/wire/answer.hpp"
#include "redis/wire/keys.hpp"

namespace overlimit::redis {
namespace {

using protocol::Reply;

std::vector<std::string> keys_of(const KeyNaming& keys, const PolicyIdentity& policy,
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
  naming_timeout(servers_.timeout(), [&] {
    const Wait wait{servers_.deadline(), interrupted};
    if (!slots.empty()) return give_back_across(call, slots, receipts, present, wait);
    Basis basis;
    Refunding refunding(*this, call, receipts, present, basis);
    run(refunding, wait);
  });
}

void Calls::lock(const Call& call, Duration duration, const Interrupted& interrupted) {
  std::vector<std::string_view> identifiers;
  for (const Charge& each : call.charges) identifiers.push_back(each.identifier);
  const EndingLeases ending(leasing_, call.charges.front().policy->name(), std::move(identifiers),
                            EndingLeases::Then::goes_back);
  const Call read = with_reading(call);
  naming_timeout(servers_.timeout(), [&] {
    Basis basis;
    Locking locking(*this, read, duration, basis);
    run(locking, {servers_.deadline(), interrupted});
  });
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
    Snapshots* const values = remembering_.wanted();
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
    Snapshots* const values = remembering_.wanted();
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
