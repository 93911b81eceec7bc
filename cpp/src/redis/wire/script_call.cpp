#include "redis/wire/script_call.hpp"

#include "overlimit/pair.hpp"
#include "redis/protocol/command.hpp"

namespace overlimit::redis {
namespace {

constexpr Instant kServerClock{-1};
// How long a key outlives its state: the clocks of other callers may be behind by as much.
constexpr std::int64_t kServerSlackMs = 1'000;
constexpr std::int64_t kSystemSlackMs = 60'000;
constexpr std::int64_t kInjectedSlackMs = 3'600'000;

// Negative if the reply is to report whole values.
std::int64_t slack_ms(const Call& call, Reports reports) {
  const std::int64_t injected = call.system_clock ? kSystemSlackMs : kInjectedSlackMs;
  const std::int64_t slack = call.now ? injected : kServerSlackMs;
  return reports == Reports::value ? -slack : slack;
}

void append_int64(std::string& bytes, std::int64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append_byte(std::string& bytes, std::size_t number) { bytes += static_cast<char>(number); }

// Where in a call's arguments the numbers of each policy begin, counted from 1 as Lua does.
using Offsets = std::vector<std::pair<const CompiledPolicy*, std::size_t>>;

std::size_t offset_of(const Offsets& offsets, const CompiledPolicy* policy) {
  return std::ranges::find(offsets, policy, &Offsets::value_type::first)->second;
}

// The policies of a call, each once, one after the other from this offset on.
Offsets offsets_from(std::size_t begin, const Call& call) {
  Offsets offsets;
  for (const Charge& charge : call.charges) {
    if (std::ranges::find(offsets, charge.policy, &Offsets::value_type::first) != offsets.end()) continue;
    offsets.emplace_back(charge.policy, begin);
    begin += charge.policy->packed().size();
  }
  return offsets;
}

// Where the policy of the charge begins, how many limits it has, the cost and the role.
constexpr std::size_t kChargeBytes = 2 * sizeof(std::int64_t) + 2;
void append_charge(std::string& bytes, std::size_t offset, std::size_t limits, Cost cost, Role role) {
  append_int64(bytes, static_cast<std::int64_t>(offset));
  append_byte(bytes, limits);
  append_int64(bytes, cost);
  append_byte(bytes, static_cast<std::size_t>(role));
}

// Of a charge: when its key was created, and the states of its records.
void append_receipts(std::string& bytes, std::span<const Receipt> receipts) {
  append_int64(bytes, receipts.front().created_at.micros());
  for (const Receipt& each : receipts) {
    for (const std::int64_t number : each.after) append_int64(bytes, number);
  }
}

std::string encoded(std::string_view name, std::string_view script, const ScriptCall& call) {
  const std::string count = std::to_string(call.keys.size());
  std::vector<std::string_view> words;
  words.reserve(call.keys.size() + 6);
  words.assign({name, script, count});
  words.insert(words.end(), call.keys.begin(), call.keys.end());
  words.push_back(call.arguments);
  if (!call.second.empty()) words.push_back(call.second);
  if (!call.incarnations.empty()) words.push_back(call.incarnations);
  std::string command;
  protocol::append_command(command, words);
  return command;
}

// Room for the arguments of most calls.
constexpr std::size_t kUsualArguments = 256;

// What every script begins with: its keys and the clock.
ScriptCall begun(const Script& script, KeysOfCall keys, std::optional<Instant> now = std::nullopt) {
  ScriptCall encoded{.script = &script, .keys = std::move(keys), .arguments = {}, .second = {}};
  encoded.arguments.reserve(kUsualArguments);
  append_int64(encoded.arguments, now.value_or(kServerClock).micros());
  return encoded;
}

void append_charges(std::string& bytes, const Call& call) {
  const Offsets offsets = offsets_from(1 + bytes.size() + kChargeBytes * call.charges.size(), call);
  for (const Charge& charge : call.charges) {
    append_charge(bytes, offset_of(offsets, charge.policy), charge.policy->size(), cost_of(charge),
                  charge.role);
  }
  for (const auto& [policy, offset] : offsets) bytes += policy->packed();
}

// What every script that decides begins with.
ScriptCall begun_decision(const Script& script, KeysOfCall keys, const Call& call, Reports reports) {
  ScriptCall encoded = begun(script, std::move(keys), call.now);
  append_int64(encoded.arguments, slack_ms(call, reports));
  append_int64(encoded.arguments, call.patience.micros());
  return encoded;
}

// Of a call of one charge; `wanted` is what of a lease is.
ScriptCall decision_of_one(const Script& script, KeysOfCall keys, const Call& call, Reports reports,
                           std::initializer_list<std::int64_t> wanted = {}) {
  const CompiledPolicy& policy = *call.charges[0].policy;
  ScriptCall encoded = begun_decision(script, std::move(keys), call, reports);
  append_int64(encoded.arguments, cost_of(call.charges[0]));
  for (const std::int64_t number : wanted) append_int64(encoded.arguments, number);
  append_byte(encoded.arguments, policy.size());
  encoded.arguments += policy.packed();
  return encoded;
}

}  // namespace

std::string ScriptCall::evalsha() const { return encoded("EVALSHA", script->sha1(), *this); }

std::string ScriptCall::eval() const { return encoded("EVAL", script->text(), *this); }

ScriptCall script_call(const Call& call, KeysOfCall keys, const Scripts& scripts, Reports reports) {
  if (!may_charge(call)) return begun(scripts.read, std::move(keys), call.now);
  if (call.charges.size() == 1 && call.charges[0].role == Role::enforce)
    return decision_of_one(scripts.decide_one, std::move(keys), call, reports);
  ScriptCall encoded = begun_decision(scripts.decide_several, std::move(keys), call, reports);
  append_charges(encoded.arguments, call);
  return encoded;
}

ScriptCall lease_call(const Call& call, KeysOfCall keys, Cost extra, Duration term, const Scripts& scripts,
                      Reports reports) {
  return decision_of_one(scripts.lease, std::move(keys), call, reports, {extra, term.micros()});
}

ScriptCall refund_call(const Call& call, KeysOfCall keys, std::span<const Receipt> receipts,
                       bool shows_present, const Scripts& scripts, Of of) {
  ScriptCall encoded = begun(scripts.refund, std::move(keys), call.now);
  append_byte(encoded.arguments, (shows_present ? 1 : 0) + (of == Of::keys_as_charged ? 2 : 0));
  append_charges(encoded.arguments, call);
  std::size_t pair = 0;
  for (const Charge& charge : call.charges) {
    append_receipts(encoded.second, receipts.subspan(pair, charge.policy->size()));
    pair += charge.policy->size();
  }
  return encoded;
}

ScriptCall refund_call(std::string_view packed, std::string key, Cost units,
                       std::span<const Receipt> receipts, bool shows_present, const Scripts& scripts) {
  ScriptCall encoded = begun(scripts.refund, {std::move(key)});
  append_byte(encoded.arguments, shows_present ? 1 : 0);
  append_charge(encoded.arguments, 1 + encoded.arguments.size() + kChargeBytes, receipts.size(), units,
                Role::enforce);
  encoded.arguments += packed;
  append_receipts(encoded.second, receipts);
  return encoded;
}

ScriptCall lock_call(const Call& call, KeysOfCall keys, Duration duration, const Scripts& scripts,
                     Reports reports) {
  ScriptCall encoded = begun(scripts.lock, std::move(keys), call.now);
  append_int64(encoded.arguments, slack_ms(call, reports));
  append_int64(encoded.arguments, duration.micros());
  return encoded;
}

ScriptCall restore_call(const Charge& charge, std::string key, Instant reported_at, std::string_view value,
                        const Scripts& scripts) {
  ScriptCall encoded = begun(scripts.restore, {std::move(key)});
  append_int64(encoded.arguments, kServerSlackMs);
  append_byte(encoded.arguments, charge.policy->size());
  encoded.arguments += charge.policy->packed();
  append_int64(encoded.second, reported_at.micros());
  encoded.second += value;
  return encoded;
}

ScriptCall reset_call(KeysOfCall keys, const Scripts& scripts) {
  ScriptCall encoded = begun(scripts.restore, std::move(keys));
  append_int64(encoded.arguments, kServerSlackMs);
  append_byte(encoded.arguments, 0);
  return encoded;
}

}  // namespace overlimit::redis
