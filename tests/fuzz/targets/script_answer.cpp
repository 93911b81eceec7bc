// What a script answers: rows that can be, or an error.
#include <algorithm>

#include "columns.hpp"
#include "limits.hpp"
#include "overlimit/decision.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/pair.hpp"
#include "redis/packing.hpp"
#include "redis/recovery/snapshots.hpp"
#include "redis/wire/answer.hpp"
#include "target.hpp"

namespace overlimit::fuzz {
namespace {

using redis::protocol::Reply;
using testing::Columns;
using testing::kMinute;
using testing::kSecond;
using testing::packed;
using testing::record_of;
using testing::value_of;

const CompiledPolicy& small_plan() {
  static const CompiledPolicy policy("p", {testing::fixed_window(5, kMinute), testing::token_bucket(20, 10)});
  return policy;
}

const CompiledPolicy& strict_plan() {
  static const CompiledPolicy policy(
      "q", {testing::sliding_log(4, kMinute), testing::leaky_bucket(10, kSecond, 5)},
      testing::penalty({kSecond, kMinute}, true, std::nullopt));
  return policy;
}

/// The calls that are answered: one by one more charges, with and without effect.
std::vector<Charge> charges_of(std::size_t kind) {
  std::vector<Charge> charges{{kind % 2 == 0 ? &small_plan() : &strict_plan(), "x", 2}};
  if (kind >= 2) charges.push_back({&strict_plan(), "y", 1, Role::shadow});
  if (kind >= 4) charges.push_back({&small_plan(), "z", 1, kind == 5 ? Role::always : Role::on_refusal});
  return charges;
}

void check_rows(const std::vector<Charge>& charges, Columns& columns) {
  std::size_t row = 0;
  for (const Charge& charge : charges) {
    for (const CompiledLimit& compiled : charge.policy->limits()) {
      check(columns.status[row] <= Status::never, "a verdict");
      check(columns.remaining[row] >= 0 && columns.remaining[row] <= most(compiled.limit),
            "what remains is between nothing and the limit");
      check(columns.retry_after[row] >= 0 && columns.reset_after[row] >= 0 && columns.delay[row] >= 0,
            "no time is negative");
      for (const std::int64_t word : columns.receipt[row].after)
        check(word >= 0 && word < kExact, "a receipt can be sent again");
      ++row;
    }
  }
  const Decision decision = fold(charges, columns.rows());
  check(decision.remaining >= 0 && decision.retry_after >= 0, "an answer of such rows");
}

void read_script_answer(std::string_view input) {
  Bytes bytes(input);
  const std::vector<Charge> charges = charges_of(bytes.number_up_to(5));
  const Mode mode = bytes.number_up_to(1) == 0 ? Mode::consume : Mode::peek;
  Columns columns(pairs_of(charges));
  try {
    const redis::ScriptReply reply(Reply::string(std::string(bytes.rest())), charges.size());
    const std::vector<redis::ScriptReply::Key> keys = reply.keys();
    check(keys.empty() || keys.size() == charges.size(), "every key is told of, or none");
    for (const redis::ScriptReply::Key& key : keys)
      check(redis::last_expiry(key.value.value_or("")) >= 0, "an instant");
    DatedCall call({charges, mode}, At(0));
    const Instant now = redis::read_answer(call, reply, columns.rows()).now;
    check(now >= 0 && now < kMaxTime, "an instant that a clock can read");
    check_rows(charges, columns);
  } catch (const ScriptError& error) {
    check(error.maybe_charged(), "whatever answered so may have charged");
  }
}

std::vector<std::string> script_answers() {
  const Micros now = 1'700'000'000'000'000;
  const CompiledLimit& first = small_plan().limits()[0];
  const CompiledLimit& second = small_plan().limits()[1];
  const std::string window = record_of(first.tag, now + kMinute, packed({now, now + kMinute, 3}));
  const std::string bucket = record_of(second.tag, now + kSecond, packed({400'000, now, 100'000}));
  const std::string charged = char(16) + packed({now, now}) + window + bucket;
  const std::string found = char(8) + packed({now}) + value_of(now, {window, bucket});
  const std::string written = char(2 + 8) + packed({now, now}) + value_of(now, {window});
  const std::string locked =
      char(8) + packed({now}) +
      value_of(now, {record_of(kLockTag, now + kMinute, packed({now, now + kSecond, 2}))});
  return {std::string("\0\0", 2) + charged,
          std::string("\0\0", 2) + found,
          std::string("\0\1", 2) + found,
          std::string("\0\0", 2) + written,
          std::string("\1\0", 2) + locked,
          std::string("\0\0", 2) + char(0) + packed({now}),
          std::string("\0\0", 2) + char(16 + 32) + packed({now}) + value_of(now, {window, bucket}),
          std::string("\0\0", 2) + char(2 + 8 + 32) + packed({now, now}) + std::string("\0\0\0\0", 4) +
              value_of(now, {window})};
}

const Registration kScriptAnswer("script_answer", {read_script_answer, script_answers});

}  // namespace
}  // namespace overlimit::fuzz
