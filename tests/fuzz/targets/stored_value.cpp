// The value of a key in Redis: read as by the plainest reader, and never admitting more than its limits
// grant.
#include "values/value.hpp"

#include <algorithm>
#include <array>

#include "limits.hpp"
#include "overlimit/compiled_policy.hpp"
#include "redis/packing.hpp"
#include "target.hpp"

namespace overlimit::fuzz {
namespace {

using testing::kMinute;
using testing::kSecond;
using testing::packed;
using testing::record_of;
using testing::value_of;
using values::Value;

struct PlainRecord {
  Tag tag;
  Micros expires_at;
  std::string state;

  [[nodiscard]] std::int64_t word(std::size_t index) const {
    return Bytes(std::string_view(state).substr(8 * index)).take<std::int64_t>();
  }
  [[nodiscard]] bool is_sound() const {
    if (state.size() < 24 || (state.size() - 24) % 16 != 0) return false;
    return std::ranges::all_of(std::array{expires_at, word(0), word(1), word(2)},
                               [](std::int64_t each) { return each >= 0 && each < kExact; });
  }
};

struct PlainValue {
  Micros created_at;
  std::vector<PlainRecord> records;
};

std::optional<PlainValue> plainly_read(std::string_view input) {
  Bytes bytes(input);
  if (input.size() < 8) return std::nullopt;
  PlainValue value{bytes.take<Micros>(), {}};
  while (!bytes.is_empty()) {
    if (bytes.rest().size() < 20) return std::nullopt;
    const auto tag = bytes.take<Tag>();
    const auto size = bytes.take<std::uint32_t>();
    const auto expires_at = bytes.take<Micros>();
    if (bytes.rest().size() < size) return std::nullopt;
    value.records.push_back({tag, expires_at, std::string(bytes.text(size))});
  }
  return value;
}

std::string written_again(const PlainValue& value) {
  std::vector<std::string> records;
  for (const PlainRecord& each : value.records)
    records.push_back(record_of(each.tag, each.expires_at, each.state));
  return value_of(value.created_at, records);
}

const CompiledPolicy& plan_of_all_algorithms() {
  using namespace testing;
  static const CompiledPolicy policy(
      "p", {fixed_window(5, kMinute), epoch_window(5, kMinute), sliding_window(9, kMinute),
            sliding_log(4, kMinute), sliding_window_counter(7, kMinute), token_bucket(20, 10),
            interval_bucket(6, 2, kSecond), leaky_bucket(10, kSecond, 5)});
  return policy;
}

void check_judgement(const Limit& limit, const FoundRecord& found, Instant now, Cost cost) {
  const ExaminedPair pair = examine(limit, &found, At(now), cost);
  const Verdict& verdict = pair.verdict;
  check(verdict.status != Status::ok || cost <= most(limit), "no more is admitted than a limit grants");
  check(verdict.status == Status::ok || verdict.retry_after > 0, "who is refused is told to wait");
  check(verdict.status != Status::over || verdict.retry_after < kExact, "nobody waits for ever");
  std::int64_t remaining = -1;
  Duration wait{};
  Receipt receipt;
  Status status{};
  const Rows rows{&status, &remaining, &wait, &wait, &wait, &receipt, 1};
  fill_uncharged(limit, pair, rows, 0);
  check(remaining >= 0 && remaining <= most(limit), "what remains is between nothing and the limit");
  if (verdict.status != Status::ok || cost == 0) return;
  for (const std::int64_t word : charge(limit, pair, cost).state)
    check(word >= 0 && word < kExact, "what is written can be read again");
}

void check_record(const Value& value, const PlainRecord& record) {
  const std::optional<FoundRecord> found = value.find(record.tag);
  check(found.has_value() == record.is_sound(), "a record is there unless it cannot be one");
  if (!found) return;
  check(found->expires_at == record.expires_at, "its expiry");
  check(found->header == Header{record.word(0), record.word(1), record.word(2)}, "its header");
  check(found->cells.size() == (record.state.size() - 24) / 16, "as many cells as there are");
  for (std::size_t i = 0; i < found->cells.size(); ++i)
    check(found->cells[i] == Cell{record.word(3 + 2 * i), record.word(4 + 2 * i)}, "its cells");
  for (const CompiledLimit& compiled : plan_of_all_algorithms().limits()) {
    for (const Instant now : {Instant(0), Instant(1'700'000'000'000'000), kMaxTime - 1}) {
      for (const Cost cost : {0, 1, 5}) check_judgement(compiled.limit, *found, now, cost);
    }
  }
}

void check_lock(const std::optional<FoundRecord>& found, const PlainValue& value) {
  if (value.records.empty()) return check(!found, "no lock where there is nothing");
  const PlainRecord& last = value.records.back();
  const bool is_lock = last.tag == kLockTag && last.state.size() == 24 && last.is_sound();
  check(found.has_value() == (is_lock && last.word(1) <= last.expires_at),
        "a lock is there unless it cannot be one");
  check(!found || found->expires_at == last.expires_at, "until when a lock is remembered");
}

void read_stored_value(std::string_view input) {
  const Value value(input);
  const std::optional<PlainValue> plain = plainly_read(input);
  check(value.created_at() == (plain ? plain->created_at : 0), "a created_at, or none if this is no value");
  if (!plain) {
    check(!value.lock(), "no lock in what is no value");
    for (const CompiledLimit& each : plan_of_all_algorithms().limits())
      check(!value.find(each.tag), "no record in what is no value");
    return;
  }
  check(written_again(*plain) == input, "what was read can be written again");
  check_lock(value.lock(), *plain);
  std::vector<Tag> seen;
  for (const PlainRecord& record : plain->records) {
    if (std::ranges::find(seen, record.tag) != seen.end()) continue;
    seen.push_back(record.tag);
    check_record(value, record);
  }
}

std::vector<std::string> stored_values() {
  const Micros now = 1'700'000'000'000'000;
  const std::string window = record_of(1, now + kMinute, packed({now, now + kMinute, 3}));
  const std::string log = record_of(2, now + kMinute, packed({now, 2, 0, now - 5, 1, now, 1}));
  const std::string lock = record_of(kLockTag, now + kMinute, packed({now, now + kSecond, 2}));
  return {value_of(now, {}), value_of(now, {window}), value_of(now, {window, log, lock})};
}

const Registration kStoredValue("stored_value", {read_stored_value, stored_values});

}  // namespace
}  // namespace overlimit::fuzz
