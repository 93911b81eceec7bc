#include "redis/script_call.hpp"

#include <algorithm>
#include <tuple>

#include "overlimit/call.hpp"
#include "overlimit/pair.hpp"
#include "redis/keys.hpp"
#include "redis/protocol/command.hpp"

namespace overlimit::redis {
namespace {

constexpr std::int64_t kServerClock = -1;
constexpr std::size_t kCallBytes = 24;
constexpr std::size_t kChargeBytes = 32;
// How long a key outlives its state: the clocks of other callers may be behind by so much.
constexpr std::int64_t kServerSlackMs = 1'000;
constexpr std::int64_t kSystemSlackMs = 60'000;
constexpr std::int64_t kInjectedSlackMs = 3'600'000;

std::int64_t slack_ms(const Call& call) {
  if (!call.now) return kServerSlackMs;
  return call.system_clock ? kSystemSlackMs : kInjectedSlackMs;
}

void append_int64(std::string& bytes, std::int64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::vector<const Plan*> numbered_plans(const Call& call) {
  std::vector<const Plan*> plans;
  for (const Charge& charge : call.charges) plans.push_back(charge.plan);
  const auto order = [](const Plan* plan) {
    return std::tuple<const std::string&, const Plan*>(plan->shape(), plan);
  };
  std::ranges::sort(plans, {}, order);
  plans.erase(std::unique(plans.begin(), plans.end()), plans.end());
  return plans;
}

// The policy's number and where its part of the argument begins, counted from 1; cost and role.
void append_charge(std::string& bytes, const Charge& charge, std::span<const Plan* const> plans,
                   std::size_t charges) {
  std::size_t number = 0;
  std::size_t part = 1 + kCallBytes + kChargeBytes * charges;
  for (; plans[number] != charge.plan; ++number) part += plans[number]->packed().size();
  append_int64(bytes, static_cast<std::int64_t>(number + 1));
  append_int64(bytes, static_cast<std::int64_t>(part));
  append_int64(bytes, cost_of(charge));
  append_int64(bytes, static_cast<std::int64_t>(charge.role));
}

std::string encoded(std::string_view name, std::string_view script, const ScriptCall& call) {
  const std::string count = std::to_string(call.keys.size());
  std::vector<std::string_view> words{name, script, count};
  words.insert(words.end(), call.keys.begin(), call.keys.end());
  words.push_back(call.arguments);
  if (!call.receipts.empty()) words.push_back(call.receipts);
  std::string command;
  protocol::append_command(command, words);
  return command;
}

bool ever_fits(const Charge& charge) {
  return charge.role == Role::shadow ||
         std::ranges::all_of(charge.plan->limits(), [&](const PlannedLimit& planned) {
           return cost_of(charge) <= most(planned.limit);
         });
}

// Clock and keys: what every script begins with.
ScriptCall begun(const Script& script, const Call& call, const RedisStore::Keys& keys) {
  ScriptCall encoded{&script, {}, {}, {}};
  append_int64(encoded.arguments, slack_ms(call));
  append_int64(encoded.arguments, call.patience);
  append_int64(encoded.arguments, call.now.value_or(kServerClock));
  for (const Charge& charge : call.charges) {
    encoded.keys.push_back(key_of(keys, charge.plan->policy(), charge.identifier));
  }
  return encoded;
}

void append_policies(std::string& bytes, const Call& call, std::span<const Plan* const> plans) {
  for (const Charge& charge : call.charges) append_charge(bytes, charge, plans, call.charges.size());
  for (const Plan* plan : plans) bytes += plan->packed();
}

const Script* single_script(const Call& call) {
  const bool is_single = call.charges.size() == 1 && call.charges[0].role == Role::enforce;
  return is_single ? Script::of(*call.charges[0].plan) : nullptr;
}

ScriptCall single_call(const Script& script, const Call& call, const RedisStore::Keys& keys) {
  const Charge& charge = call.charges[0];
  ScriptCall encoded = begun(script, call, keys);
  append_int64(encoded.arguments, cost_of(charge));
  encoded.arguments += charge.plan->packed();
  return encoded;
}

}  // namespace

std::string ScriptCall::evalsha() const { return encoded("EVALSHA", script->sha1(), *this); }

std::string ScriptCall::eval() const { return encoded("EVAL", script->text(), *this); }

bool may_charge(const Call& call) {
  return call.mode == Mode::consume && spends(call.charges) && std::ranges::all_of(call.charges, ever_fits);
}

ScriptCall script_call(const Call& call, const RedisStore::Keys& keys, const Scripts& scripts) {
  if (!may_charge(call)) return begun(scripts.reading(), call, keys);
  if (const Script* const single = single_script(call)) return single_call(*single, call, keys);
  const std::vector<const Plan*> plans = numbered_plans(call);
  ScriptCall encoded = begun(scripts.several(plans), call, keys);
  append_policies(encoded.arguments, call, plans);
  return encoded;
}

ScriptCall refund_call(const Call& call, std::span<const Receipt> receipts, const RedisStore::Keys& keys,
                       const Scripts& scripts) {
  const std::vector<const Plan*> plans = numbered_plans(call);
  ScriptCall encoded = begun(scripts.refunding(plans), call, keys);
  append_policies(encoded.arguments, call, plans);
  std::size_t pair = 0;
  for (const Charge& charge : call.charges) {
    append_int64(encoded.receipts, receipts[pair].birth);
    for (std::size_t i = 0; i < charge.plan->size(); ++i) {
      for (const std::int64_t number : receipts[pair].after) append_int64(encoded.receipts, number);
      ++pair;
    }
  }
  return encoded;
}

ScriptCall lock_call(const Call& call, Micros duration, const RedisStore::Keys& keys,
                     const Scripts& scripts) {
  ScriptCall encoded = begun(scripts.locking(), call, keys);
  append_int64(encoded.arguments, duration);
  return encoded;
}

}  // namespace overlimit::redis
