#include "redis/answer.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "../columns.hpp"
#include "../limits.hpp"
#include "overlimit/errors.hpp"
#include "packing.hpp"

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

Reply array_of(std::vector<std::optional<std::string>> elements) {
  std::vector<Reply> replies;
  for (std::optional<std::string>& element : elements) {
    replies.push_back(element ? Reply::string(std::move(*element)) : Reply::nil());
  }
  return Reply::array(std::move(replies));
}

// A window of 5 a minute and a bucket of 20 at ten a second, asked for x.
class Answers : public ::testing::Test {
 protected:
  Micros read(const std::vector<Charge>& charges, const Reply& reply, Mode mode = Mode::consume) {
    columns = Columns(pairs_of(charges));
    return read_answer({charges, mode}, reply, columns.rows());
  }
  void expect_script_error(const std::vector<Charge>& charges, const Reply& reply,
                           Mode mode = Mode::consume) {
    try {
      read(charges, reply, mode);
      ADD_FAILURE() << "taken for an answer";
    } catch (const ScriptError& error) {
      EXPECT_TRUE(error.maybe_charged());
    }
  }
  std::string window_record(std::int64_t count) const {
    return record_of(plan.limits()[0].tag, 100 + kMinute, packed({100, 100 + kMinute, count}));
  }
  std::string bucket_record(std::int64_t tokens) const {
    return record_of(plan.limits()[1].tag, 100 + tokens * 100'000, packed({tokens * 100'000, 100, 100'000}));
  }
  std::string found(std::int64_t in_window, std::int64_t in_bucket) const {
    return value_of(77, {window_record(in_window), bucket_record(in_bucket)});
  }

  const Plan plan{"p", {fixed_window(5, kMinute), token_bucket(20, 10)}};
  const std::vector<Charge> one{{&plan, "x", 2}};
  Columns columns{0};
};

TEST_F(Answers, ThatAreCompactTellEverythingOfACharge) {
  const std::string compact = packed({200, 77, 100, 100 + kMinute, 3, 400'000, 200, 100'000});
  EXPECT_EQ(read(one, Reply::string(compact)), 200);
  EXPECT_EQ(columns.status, (std::vector{Status::ok, Status::ok}));
  EXPECT_EQ(columns.remaining, (std::vector<std::int64_t>{2, 16}));
  EXPECT_EQ(columns.retry_after, (std::vector<Micros>{0, 0}));
  EXPECT_EQ(columns.reset_after, (std::vector<Micros>{kMinute - 100, 400'000}));
  EXPECT_EQ(columns.receipt[0].birth, 77);
  EXPECT_EQ(columns.receipt[1].after, (Header{400'000, 200, 100'000}));
}

TEST_F(Answers, ThatAreCompactHaveTheBirthOfEachKey) {
  const std::string states = packed({100, 100 + kMinute, 3, 400'000, 200, 100'000});
  read({{&plan, "x", 2}, {&plan, "y", 2}}, Reply::string(packed({200, 77}) + states + packed({88}) + states));
  EXPECT_EQ(columns.receipt[1].birth, 77);
  EXPECT_EQ(columns.receipt[2].birth, 88);
}

TEST_F(Answers, ThatAreCompactAreOfExactlyOneSize) {
  const std::string compact = packed({200, 77, 100, 100 + kMinute, 3, 400'000, 200, 100'000});
  for (std::size_t size = 0; size < compact.size(); ++size) {
    expect_script_error(one, Reply::string(compact.substr(0, size)));
  }
  expect_script_error(one, Reply::string(compact + "x"));
  expect_script_error(one, Reply::string(compact), Mode::peek);
}

TEST_F(Answers, OfARefusalExplainWhatWasFound) {
  EXPECT_EQ(read(one, array_of({packed({200, 0}), found(4, 1)})), 200);
  EXPECT_EQ(columns.status, (std::vector{Status::over, Status::ok}));
  EXPECT_EQ(columns.remaining, (std::vector<std::int64_t>{1, 19}));
  EXPECT_EQ(columns.retry_after, (std::vector<Micros>{kMinute - 100, 0}));
  EXPECT_EQ(columns.reset_after, (std::vector<Micros>{kMinute - 100, 99'900}));
  EXPECT_EQ(columns.receipt[0].birth, 0);
}

TEST_F(Answers, OfAPeekShowWhatAHitWouldShow) {
  EXPECT_EQ(read(one, array_of({packed({200, 0}), found(1, 1)}), Mode::peek), 200);
  EXPECT_EQ(columns.remaining, (std::vector<std::int64_t>{2, 17}));
  EXPECT_EQ(columns.receipt[0].birth, 0);
}

TEST_F(Answers, OfAKeyThatIsNotThereAreThoseOfOneNeverSeen) {
  read({{&plan, "x", 0}}, array_of({packed({200, 0}), std::nullopt}));
  EXPECT_EQ(columns.status, (std::vector{Status::ok, Status::ok}));
  EXPECT_EQ(columns.remaining, (std::vector<std::int64_t>{5, 20}));
  EXPECT_EQ(columns.reset_after, (std::vector<Micros>{0, 0}));
}

TEST_F(Answers, TakeAForeignValueForNone) {
  read({{&plan, "x", 0}}, array_of({packed({200, 0}), "something else entirely"}));
  EXPECT_EQ(columns.remaining, (std::vector<std::int64_t>{5, 20}));
}

TEST_F(Answers, OfNeverAreForeverWhateverWasFound) {
  read({{&plan, "x", 6}}, array_of({packed({200, 0}), found(1, 1)}));
  EXPECT_EQ(columns.status, (std::vector{Status::never, Status::ok}));
  EXPECT_EQ(columns.retry_after[0], kNever);
}

TEST_F(Answers, OfACallThatPartlyCostsTellWhatWasCharged) {
  read({{&plan, "x", 2}, {&plan, "y", 0}}, array_of({packed({200, 1, 77, 88}), found(1, 1), std::nullopt}));
  EXPECT_EQ(columns.remaining, (std::vector<std::int64_t>{2, 17, 5, 20}));
  EXPECT_EQ(columns.receipt[0].birth, 77);
  EXPECT_EQ(columns.receipt[0].after, (Header{100, 100 + kMinute, 3}));
  EXPECT_EQ(columns.receipt[2].birth, 0) << "nothing was charged to y";
}

TEST_F(Answers, OfACountedRefusalTellHowLongTheMetaLimitTakes) {
  const Plan meta("meta", {fixed_window(1, 2 * kMinute)});
  const std::vector<Charge> charges{{&plan, "x", 2}, {&meta, "x", 1, Role::on_refusal}};
  read(charges, array_of({packed({200, 1, 77, 88}), found(4, 1), std::nullopt}));
  EXPECT_EQ(columns.status, (std::vector{Status::over, Status::ok, Status::ok}));
  EXPECT_EQ(columns.receipt[0].birth, 0);
  EXPECT_EQ(columns.receipt[2].birth, 88);
  EXPECT_EQ(columns.remaining[2], 0);
  EXPECT_EQ(columns.retry_after[2], 2 * kMinute);
}

TEST_F(Answers, OfAViolationTellHowLongItLocks) {
  const Plan strict("p", {fixed_window(5, kMinute)}, Penalty{{2 * kMinute, 5 * kMinute}});
  const std::vector<Charge> charges{{&strict, "x", 2}};
  const std::string window = window_record(4);
  read(charges, array_of({packed({200, 1, 77}), value_of(77, {window})}));
  EXPECT_EQ(columns.status[0], Status::over);
  EXPECT_EQ(columns.remaining[0], 0);
  EXPECT_EQ(columns.retry_after[0], 2 * kMinute);
  const std::string lock = record_of(kLockTag, 300, packed({100, 150, 2}));
  read(charges, array_of({packed({200, 1, 77}), value_of(77, {window, lock})}));
  EXPECT_EQ(columns.retry_after[0], 5 * kMinute) << "the next level";
  expect_script_error(charges, array_of({packed({200, 0}), value_of(77, {window})}));
}

TEST_F(Answers, OfALockedKeyTellHowLongItStillIs) {
  const std::string lock = record_of(kLockTag, 2 * kMinute, packed({100, 2 * kMinute, 1}));
  read(one, array_of({packed({200, 0}), value_of(77, {window_record(1), bucket_record(1), lock})}));
  EXPECT_EQ(columns.status, (std::vector{Status::locked, Status::locked}));
  EXPECT_EQ(columns.remaining, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(columns.retry_after, (std::vector<Micros>{2 * kMinute - 200, 2 * kMinute - 200}));
}

TEST_F(Answers, TakeALockOfAnyOtherFormForNone) {
  for (const std::string& lock : {record_of(kLockTag, 2 * kMinute, packed({100, -1, 1})),
                                  record_of(kLockTag, 200, packed({100, 2 * kMinute, 1})),
                                  record_of(kLockTag, 2 * kMinute, packed({kMaxTime, kMaxTime + 1, 1})),
                                  record_of(kLockTag, 2 * kMinute, packed({100, 2 * kMinute, 1, 5, 5}))}) {
    read({{&plan, "x", 0}}, array_of({packed({200, 0}), value_of(77, {lock})}));
    EXPECT_EQ(columns.status[0], Status::ok);
  }
}

TEST_F(Answers, MayBeAnInstantThatNoCalendarReached) {
  EXPECT_EQ(out_of_bounds(Reply::string(packed({200}))), 200);
  EXPECT_EQ(out_of_bounds(Reply::string(packed({200, 77}))), std::nullopt);
  EXPECT_EQ(out_of_bounds(Reply::nil()), std::nullopt);
  EXPECT_EQ(out_of_bounds(array_of({packed({200})})), std::nullopt);
}

TEST_F(Answers, ThatContradictTheEngineAreErrors) {
  expect_script_error(one, array_of({packed({200, 1, 77}), found(4, 1)}));
  expect_script_error(one, array_of({packed({200, 0}), found(1, 1)}));
  expect_script_error(one, array_of({packed({200, 1, 77}), found(1, 1)}), Mode::peek);
}

TEST_F(Answers, OfAnyOtherFormAreErrors) {
  expect_script_error(one, Reply::nil());
  expect_script_error(one, Reply::integer(1));
  expect_script_error(one, Reply::status("OK"));
  expect_script_error(one, array_of({}));
  expect_script_error(one, array_of({packed({200, 0})}));
  expect_script_error(one, array_of({packed({200, 0}), std::nullopt, std::nullopt}));
  expect_script_error(one, array_of({std::nullopt, found(4, 1)}));
  expect_script_error(one, array_of({packed({200}), found(4, 1)}));
  expect_script_error(one, array_of({"", found(4, 1)}));
  expect_script_error(one, array_of({packed({200, 1}), found(1, 1)}));
  expect_script_error(one, array_of({packed({200, 1, 77, 88}), found(1, 1)}));
}

}  // namespace
}  // namespace overlimit::redis
