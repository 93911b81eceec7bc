#include "redis/wire/answer.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "../../columns.hpp"
#include "../../limits.hpp"
#include "../packing.hpp"
#include "overlimit/errors.hpp"

namespace overlimit::redis {
namespace {

using protocol::Reply;
using testing::Columns;
using testing::fixed_window;
using testing::kMinute;
using testing::packed;
using testing::record_of;
using testing::token_bucket;
using testing::value_of;

using F = ReplyFlags;

Reply answer(int flags, std::initializer_list<std::int64_t> numbers, const std::string& rest) {
  return Reply::string(static_cast<char>(flags) + packed(numbers) + rest);
}

// A value that another one follows.
std::string sized(const std::string& value) {
  const std::string size = packed({static_cast<std::int64_t>(value.size())});
  return size.substr(0, 4) + value;
}

// A window of 5 a minute and a bucket of 20 at ten a second, asked for x.
class Answers : public ::testing::Test {
 protected:
  Instant read(const std::vector<Charge>& charges, Reply reply, Mode mode = Mode::consume) {
    columns = Columns(pairs_of(charges));
    DatedCall call({charges, mode}, At(0));
    return read_answer(call, ScriptReply(std::move(reply), charges.size()), columns.rows()).now;
  }
  void expect_script_error(const std::vector<Charge>& charges, Reply reply, Mode mode = Mode::consume) {
    try {
      read(charges, std::move(reply), mode);
      ADD_FAILURE() << "taken for an answer";
    } catch (const ScriptError& error) {
      EXPECT_TRUE(error.maybe_charged());
    }
  }
  std::string window_record(std::int64_t count) const {
    return record_of(policy.limits()[0].tag, 100 + kMinute, packed({100, 100 + kMinute, count}));
  }
  std::string bucket_record(std::int64_t tokens) const {
    return record_of(policy.limits()[1].tag, 100 + tokens * 100'000,
                     packed({tokens * 100'000, 100, 100'000}));
  }
  std::string found(std::int64_t in_window, std::int64_t in_bucket) const {
    return value_of(77, {window_record(in_window), bucket_record(in_bucket)});
  }

  std::string charged_records() const {
    return window_record(3) + record_of(policy.limits()[1].tag, 400'200, packed({400'000, 200, 100'000}));
  }

  const CompiledPolicy policy{"p", {fixed_window(5, kMinute), token_bucket(20, 10)}};
  const std::vector<Charge> one{{&policy, "x", 2}};
  Columns columns{0};
};

TEST_F(Answers, OfAChargeAreOfExactlyOneSize) {
  const std::string whole = char(F::kCharged) + packed({200, 77}) + charged_records();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    expect_script_error(one, Reply::string(whole.substr(0, size)));
  }
  expect_script_error(one, Reply::string(whole + "x"));
  expect_script_error(one, Reply::string(whole), Mode::peek);
}

TEST_F(Answers, OfALeaseSayHowMuchWasGrantedAndThenWhatWasCharged) {
  const std::string whole = char(F::kGranted | F::kCharged) + packed({200, 9, 77}) + charged_records();
  EXPECT_EQ(ScriptReply(Reply::string(whole), 1).granted(), 9);
  EXPECT_EQ(read(one, Reply::string(whole)), 200);
  EXPECT_EQ(columns.remaining, (std::vector<Cost>{2, 16}));
  for (std::size_t size = 0; size < whole.size(); ++size)
    expect_script_error(one, Reply::string(whole.substr(0, size)));
  expect_script_error(one, Reply::string(whole + "x"));
  expect_script_error(one, Reply::string(whole), Mode::peek);
  for (const std::int64_t extra : {std::int64_t{-1}, kExact, INT64_MIN})
    expect_script_error(one, answer(F::kGranted | F::kCharged, {200, extra, 77}, charged_records()));
}

TEST_F(Answers, OfNoLeaseGrantNothing) {
  EXPECT_FALSE(ScriptReply(answer(F::kCharged, {200, 77}, charged_records()), 1).granted());
  EXPECT_FALSE(ScriptReply(answer(F::kFound, {200}, found(4, 1)), 1).granted());
  expect_script_error(one, answer(F::kGranted | F::kFound, {200, 9}, found(4, 1)));
}

TEST_F(Answers, OfWholeValuesAreTheSame) {
  const std::string value = packed({77}) + charged_records() + record_of(13, 900, packed({1, 2, 3}));
  EXPECT_EQ(read(one, answer(F::kCharged | F::kValues, {200}, value)), 200);
  EXPECT_EQ(columns.remaining, (std::vector<Cost>{2, 16}));
  EXPECT_EQ(columns.receipt[0].created_at, 77);
  const std::string both = sized(found(4, 1)) + value;
  EXPECT_EQ(read({{&policy, "x", 0}}, answer(F::kFound | F::kValues, {200}, both)), 200);
}

TEST_F(Answers, AreResetByTheExpiryOfARecordThatHoldsUnits) {
  const auto bucket = [&](std::uint32_t size, Micros expires_at) {
    std::string record = record_of(policy.limits()[1].tag, expires_at, packed({400'000, 200, 100'000}));
    return record.replace(8, sizeof size, testing::bytes_of(size));
  };
  read(one, answer(F::kCharged, {200, 77}, window_record(3) + bucket(40, 999'200)));
  EXPECT_EQ(columns.reset_after[1], 400'000) << "a note alone is no hold";
  read(one, answer(F::kCharged, {200, 77}, window_record(3) + bucket(56, 999'200)));
  EXPECT_EQ(columns.reset_after[1], 999'000);
  for (const Micros expires_at : {Micros{-1}, Micros{199}, kExact, INT64_MIN, INT64_MAX})
    expect_script_error(one, answer(F::kCharged, {200, 77}, window_record(3) + bucket(56, expires_at)));
}

TEST_F(Answers, HaveOnlyNumbersThatAScriptCanPack) {
  for (const std::int64_t number : {std::int64_t{-1}, kExact, INT64_MIN, INT64_MAX}) {
    expect_script_error(one, answer(F::kCharged, {number, 77}, charged_records()));
    expect_script_error(one, answer(F::kFound, {number}, found(4, 1)));
    for (std::size_t place = 20; place < charged_records().size(); place += 44) {
      std::string states = charged_records();
      states.replace(place, 8, packed({number}));
      expect_script_error(one, answer(F::kCharged, {200, 77}, states));
    }
  }
}

TEST_F(Answers, HandOnATimeOfCreationAsItWasFound) {
  for (const std::int64_t created_at : {std::int64_t{-1}, kExact, INT64_MIN, INT64_MAX}) {
    EXPECT_EQ(read(one, answer(F::kCharged, {200, created_at}, charged_records())), 200);
    EXPECT_EQ(columns.receipt[0].created_at, created_at);
  }
}

TEST_F(Answers, OfAChargeHaveTheRecordsOfItsLimits) {
  std::string records = charged_records();
  records[0] = static_cast<char>(records[0] + 1);
  expect_script_error(one, answer(F::kCharged, {200, 77}, records));
}

TEST_F(Answers, OfAChargeOnARecordThatHasExpiredAreNone) {
  expect_script_error(one, answer(F::kCharged, {100 + kMinute + 1, 77}, charged_records()));
}

TEST_F(Answers, TakeALockOfAnyOtherFormForNone) {
  for (const std::string& lock :
       {record_of(kLockTag, 2 * kMinute, packed({100, -1, 1})),
        record_of(kLockTag, 200, packed({100, 2 * kMinute, 1})),
        record_of(kLockTag, 2 * kMinute, packed({kMaxTime.micros(), kMaxTime.micros() + 1, 1})),
        record_of(kLockTag, 2 * kMinute, packed({100, 2 * kMinute, 1, 5, 5}))}) {
    read({{&policy, "x", 0}}, answer(F::kFound, {200}, value_of(77, {lock})));
    EXPECT_EQ(columns.status[0], Status::ok);
  }
}

TEST_F(Answers, MayBeAnInstantThatNoCalendarReached) {
  const ScriptReply nowhere(answer(0, {200}, ""), 1);
  EXPECT_TRUE(nowhere.is_out_of_bounds());
  EXPECT_EQ(nowhere.now(), 200);
  EXPECT_FALSE(ScriptReply(answer(F::kFound, {200}, ""), 1).is_out_of_bounds());
  EXPECT_FALSE(ScriptReply(Reply::nil(), 1).is_out_of_bounds());
  expect_script_error(one, answer(0, {200, 77}, ""));
}

TEST_F(Answers, ThatContradictTheEngineAreErrors) {
  expect_script_error(one, answer(F::kWritten | F::kFound, {200, 77}, found(4, 1)));
  expect_script_error(one, answer(F::kFound, {200}, found(1, 1)));
  expect_script_error(one, answer(F::kWritten | F::kFound, {200, 77}, found(1, 1)), Mode::peek);
}

TEST_F(Answers, OfAnyOtherFormAreErrors) {
  expect_script_error(one, Reply::nil());
  expect_script_error(one, Reply::integer(1));
  expect_script_error(one, Reply::status("OK"));
  expect_script_error(one, Reply::string(""));
  expect_script_error(one, Reply::string("F"));
  expect_script_error(one, answer(F::kRestored, {200}, found(4, 1)));
  expect_script_error(one, answer(0, {200}, ""));
  std::vector<Reply> elements;
  elements.push_back(answer(F::kFound, {200}, found(4, 1)));
  expect_script_error(one, Reply::array(std::move(elements)));
}

TEST_F(Answers, OfSeveralKeysAreErrorsWhenTheyEndEarly) {
  const std::vector<Charge> two{{&policy, "x", 2}, {&policy, "y", 0}};
  const std::string whole = char(F::kWritten | F::kFound) + packed({200, 77, 88}) + sized(found(1, 1));
  EXPECT_EQ(read(two, Reply::string(whole)), 200);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    expect_script_error(two, Reply::string(whole.substr(0, size)));
  }
}

}  // namespace
}  // namespace overlimit::redis
