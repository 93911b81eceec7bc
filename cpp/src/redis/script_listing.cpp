#include "overlimit/redis_scripts.hpp"
#include "redis/wire/keys.hpp"
#include "redis/wire/script_call.hpp"

namespace overlimit::redis {
namespace {

ScriptCall call_for(ScriptUse use, Call call, KeysOfCall keys, const Scripts& scripts) {
  switch (use) {
    case ScriptUse::read:
      call.mode = Mode::peek;
      return script_call(call, std::move(keys), scripts);
    case ScriptUse::refund:
      return refund_call(call, std::move(keys), std::vector<Receipt>(pairs_of(call.charges)), false, scripts);
    case ScriptUse::lock:
      return lock_call(call, std::move(keys), {}, scripts);
    case ScriptUse::lease:
      return lease_call(call, std::move(keys), 0, {}, scripts);
    case ScriptUse::restore:
      return restore_call(call.charges.front(), keys.front(), {}, {}, scripts);
    case ScriptUse::decide:
      break;
  }
  return script_call(call, std::move(keys), scripts);
}

}  // namespace

ScriptListing script_listing(ScriptUse use, const CompiledPolicy& policy,
                             std::span<const std::string_view> identifiers, const RedisStore::Keys& keys) {
  const Scripts scripts;
  std::vector<Charge> charges;
  for (const std::string_view identifier : identifiers) charges.push_back({&policy, identifier});
  const DatedCall call(Call{charges}, system_now());
  const ScriptCall made = call_for(use, *call, keys_of(keys, *call), scripts);
  ScriptListing listing{made.script->text(), made.script->sha1(), made.keys, {made.arguments}};
  if (!made.second.empty()) listing.arguments.push_back(made.second);
  return listing;
}

}  // namespace overlimit::redis
