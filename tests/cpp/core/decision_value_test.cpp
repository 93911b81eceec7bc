#include "overlimit/decision_value.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <stdexcept>

namespace overlimit {
namespace {

const PolicyValue kNamed{
    "api",
    {{"fixed_window", {WholeNumber{"a"}}, {{"per", WholeNumber{"3c"}}}},
     {"token_bucket",
      {Ratio{{"1"}, {"3"}}},
      {{"per", 0.5}, {"debt", std::numeric_limits<double>::infinity()}, {"refill", "continuous"}}}}};
const PolicyValue kUnnamed{std::nullopt, {{"sliding_window", {WholeNumber{"0"}}, {}}}};

DecisionValue decided() {
  return {1'700'000'000'000'000,
          {"400000000000000000"},
          DecidedValue{true,
                       {kNamed, kUnnamed},
                       {{1, true, "user:42", 1, Role::enforce},
                        {0, false, std::string("\0\xff", 2), kExact, Role::shadow},
                        {1, true, "x", 0, Role::on_refusal}},
                       {{Status::ok, 9, 0, 1'000'000, 5},
                        {Status::never, 0, kNever, 0, 0},
                        {Status::over, 0, 17, 17, 0},
                        {Status::locked, 0, 3, 3, 0}}}};
}

DecisionValue undecided() { return {0, {"1"}, UndecidedValue{Status::over, 100'000}}; }

std::string changed(std::string bytes, std::size_t at, char to) {
  bytes[at] = to;
  return bytes;
}

TEST(DecisionValue, SurvivesItsBytes) {
  EXPECT_EQ(decode_decision(encode(decided())), decided());
  EXPECT_EQ(decode_decision(encode(undecided())), undecided());
}

TEST(DecisionValue, HasOtherBytesWhenAnythingDiffers) {
  DecisionValue other = decided();
  std::get<DecidedValue>(other.answer).is_local = false;
  EXPECT_NE(encode(other), encode(decided()));
  other = decided();
  std::get<DecidedValue>(other.answer).rows[2].delay = 1;
  EXPECT_NE(encode(other), encode(decided()));
  other = decided();
  other.cost.digits = "400000000000000001";
  EXPECT_NE(encode(other), encode(decided()));
}

TEST(DecisionValue, IsRefusedWhenItsBytesEndEarlyOrGoOn) {
  for (const std::string& bytes : {encode(decided()), encode(undecided())}) {
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_THROW(decode_decision(bytes.substr(0, length)), std::invalid_argument) << length;
    }
    EXPECT_THROW(decode_decision(bytes + '\0'), std::invalid_argument);
  }
}

TEST(DecisionValue, IsRefusedInAnotherVersionByItsNumber) {
  try {
    decode_decision(changed(encode(undecided()), 0, 2));
    FAIL() << "another version was read";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("format 2"), std::string::npos);
  }
}

TEST(DecisionValue, IsRefusedWithNumbersOutOfRange) {
  const auto refuses = [](DecisionValue value, const auto& change) {
    change(value, std::get<DecidedValue>(value.answer));
    EXPECT_THROW(decode_decision(encode(value)), std::invalid_argument);
  };
  refuses(decided(), [](auto& value, auto&) { value.time = -1; });
  refuses(decided(), [](auto& value, auto&) { value.time = kMaxTime; });
  for (const char* digits : {"", "-", "-1", "-0", "01", "1A", "0x1", " 1"}) {
    refuses(decided(), [&](auto& value, auto&) { value.cost.digits = digits; });
  }
  refuses(decided(), [](auto&, auto& answer) { answer.subjects[0].policy = 2; });
  refuses(decided(), [](auto&, auto& answer) { answer.subjects[0].identifier.clear(); });
  refuses(decided(), [](auto&, auto& answer) { answer.subjects[0].cost = -1; });
  refuses(decided(), [](auto&, auto& answer) { answer.subjects[0].role = Role(3); });
  refuses(decided(), [](auto&, auto& answer) { answer.rows[0].status = Status(4); });
  refuses(decided(), [](auto&, auto& answer) { answer.rows[0].remaining = -1; });
  refuses(decided(), [](auto&, auto& answer) { answer.rows[0].retry_after = kNever - 1; });
  refuses(decided(), [](auto&, auto& answer) { answer.rows[0].reset_after = -1; });
  refuses(decided(), [](auto&, auto& answer) { answer.rows[0].delay = kNever; });
  refuses(decided(), [](auto&, auto& answer) { answer.rows.pop_back(); });
  refuses(decided(), [](auto&, auto& answer) { answer.rows.push_back(answer.rows[0]); });
  refuses(decided(), [](auto&, auto& answer) { answer.policies[0].limits.clear(); });
  refuses(decided(), [](auto&, auto& answer) { answer.policies[0].limits.resize(17); });
  refuses(decided(), [](auto&, auto& answer) { answer.policies.clear(); });
  refuses(decided(), [](auto&, auto& answer) { answer.subjects.clear(); });
  refuses(decided(), [](auto&, auto& answer) {
    answer.policies[0].limits[1].positional[0] = Ratio{{"1"}, {"0"}};
  });
}

TEST(DecisionValue, OfAnyBytesIsReadOrRefused) {
  std::minstd_rand random(7);
  const std::string bytes = encode(decided());
  std::size_t read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<char>(1U << (random() % 8));
    try {
      EXPECT_EQ(encode(decode_decision(damaged)), damaged);
      ++read;
    } catch (const std::invalid_argument&) {
    }
  }
  EXPECT_GT(read, 2'000U);
  EXPECT_LT(read, 18'000U);
}

}  // namespace
}  // namespace overlimit
