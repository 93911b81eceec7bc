#include "redis/recovery/snapshots.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "../packing.hpp"
#include "redis/plain/server_reading.hpp"

namespace overlimit::redis {
namespace {

using testing::packed;
using testing::record_of;
using testing::value_of;

constexpr std::int64_t kBirth = 5;

/// Reported at this time of the server's clock, to a command that was sent then.
Snapshot reported(Micros at, std::int64_t created_at = kBirth, std::size_t bytes = 52) {
  return {.bytes = std::string(bytes, 'x'),
          .created_at = created_at,
          .reported_at = At(at),
          .asked_at = For(at),
          .answered_at = For(at + 10),
          .forgotten_at = For(testing::kHour),
          .server = 1,
          .newest = 3,
          .sequence = Snapshots::next_sequence()};
}

Instant reported_at(Snapshots& values, const std::string& key = "a") {
  const auto known = values.find(key, For(0));
  return known == nullptr ? At(-1) : known->reported_at;
}

/// Has "a" suspected, as another key of that name was reported.
void suspect(Snapshots& values) { values.keep("a", reported(25, kBirth + 9)); }

TEST(LastExpiry, IsThatOfTheLongestLivedRecord) {
  const std::string state = packed({1, 2, 3});
  EXPECT_EQ(last_expiry(value_of(5, {record_of(7, 100, state), record_of(8, 300, state + packed({1, 2})),
                                     record_of(9, 200, state)})),
            300);
  EXPECT_EQ(last_expiry(value_of(5, {})), 0);
  for (const char* garbage : {"", "x", "nothing that is a value, and longer than a record of one"}) {
    EXPECT_EQ(last_expiry(garbage), 0);
  }
}

TEST(Snapshot, IsNewsForAnotherServerAndALaterConnection) {
  Snapshot value = reported(10);
  EXPECT_FALSE(value.is_news_for({1, 3}));
  EXPECT_FALSE(value.is_news_for({1, 2}));
  EXPECT_FALSE(value.is_news_for({2, 0})) << "not connected yet";
  EXPECT_TRUE(value.is_news_for({1, 4}));
  EXPECT_TRUE(value.is_news_for({2, 2}));
  value.suspected = 1;
  EXPECT_TRUE(value.is_news_for({1, 3}));
}

TEST(Snapshots, KeepWhatWasToldLast) {
  Snapshots values;
  EXPECT_EQ(values.find("a", For(0)), nullptr);
  values.keep("a", reported(20));
  values.keep("a", reported(15));
  EXPECT_EQ(reported_at(values), 20);
  values.keep("a", reported(30));
  EXPECT_EQ(reported_at(values), 30);
  Snapshot by_a_clock_behind = reported(40);
  by_a_clock_behind.reported_at = At(1);
  values.keep("a", std::move(by_a_clock_behind));
  EXPECT_EQ(reported_at(values), 1);
}

TEST(Snapshots, DoubtWhatAnotherKeyOfThatNameIsTold) {
  Snapshots values;
  values.keep("a", reported(20));
  values.keep("a", reported(30, kBirth + 1));
  EXPECT_EQ(reported_at(values), 20);
  const auto known = values.find("a", For(0));
  EXPECT_GT(known->suspected, 0);
  values.keep_restored("a", reported(40, kBirth + 1), known);
  EXPECT_EQ(reported_at(values), 40) << "that it was restored";
  EXPECT_EQ(values.find("a", For(0))->suspected, 0);
  values.keep_reset("a", reported(50, kBirth + 2));
  EXPECT_EQ(reported_at(values), 50);
}

/// What is made of a reply for "a", which was asked for when that was remembered.
Trust heard(Snapshots& values, Snapshot fresh, Snapshots::Pointer sent, std::uint64_t connection = 3,
            std::size_t server = 1) {
  const std::string key = "a";
  fresh.server = server;
  std::array<Snapshots::Report, 1> reports{{{key, true, std::move(fresh), std::move(sent), connection}}};
  return values.judge(reports, false);
}

TEST(Snapshots, BelieveWhatIsToldOfTheKeyThatTheyKnow) {
  Snapshots values;
  EXPECT_EQ(heard(values, reported(20), nullptr), Trust::trusted);
  const auto sent = values.find("a", For(0));
  suspect(values);
  EXPECT_EQ(heard(values, reported(30), sent), Trust::trusted)
      << "others may have asked before it was restored";
  EXPECT_EQ(reported_at(values), 30);
  EXPECT_EQ(heard(values, reported(40, kBirth + 1), sent), Trust::suspect);
  EXPECT_EQ(heard(values, reported(40), sent, 3, 2), Trust::suspect) << "another server";
  EXPECT_EQ(heard(values, reported(40), sent, 4), Trust::suspect) << "a later connection";
  EXPECT_EQ(heard(values, reported(40), nullptr, 4), Trust::suspect) << "later than what came meanwhile";
  EXPECT_EQ(reported_at(values), 30);
  EXPECT_GT(values.find("a", For(0))->suspected, 0);
}

TEST(Snapshots, BelieveOfALostKeyWhatCameBackWithIt) {
  Snapshots values;
  values.keep("a", reported(20));
  const auto sent = values.find("a", For(0));
  values.keep_restored("a", reported(50, kBirth + 1), sent);
  values.keep_restored("a", reported(90, kBirth + 2), values.find("a", For(0)));
  EXPECT_EQ(heard(values, reported(19), sent), Trust::trusted)
      << "charged before the value that was restored";
  EXPECT_EQ(heard(values, reported(20), sent), Trust::lost);
  EXPECT_EQ(heard(values, reported(49, kBirth + 1), sent), Trust::trusted);
  EXPECT_EQ(heard(values, reported(51, kBirth + 1), sent), Trust::lost);
  EXPECT_EQ(reported_at(values), 90);
  EXPECT_EQ(values.find("a", For(0))->suspected, 0);
  values.keep_restored("a", reported(95, kBirth + 2), std::make_shared<Snapshot>(reported(30)));
  EXPECT_EQ(heard(values, reported(29), sent), Trust::trusted) << "that has been merged, too";
  values.keep_reset("a", reported(99, kBirth + 3));
  EXPECT_EQ(heard(values, reported(19), sent), Trust::suspect);
}

TEST(Snapshots, AskForAllAgainIfAnyIsLost) {
  Snapshots values;
  values.keep("a", reported(20));
  values.keep("b", reported(20));
  const auto sent = values.find("a", For(0));
  values.keep_restored("a", reported(50, kBirth + 1), sent);
  const std::string a = "a";
  const std::string b = "b";
  const auto hear = [&](Micros of_a, Micros of_b) {
    std::array<Snapshots::Report, 2> both{{{a, true, reported(of_a), sent, 3},  //
                                           {b, true, reported(of_b), nullptr, 3}}};
    return values.judge(both, false);
  };
  EXPECT_EQ(hear(30, 31), Trust::suspect) << "what was charged to the other is to be refunded";
  EXPECT_EQ(reported_at(values, "b"), 20);
  EXPECT_EQ(hear(10, 31), Trust::trusted);
  EXPECT_EQ(reported_at(values, "b"), 31);
  EXPECT_EQ(reported_at(values, "a"), 50);
}

TEST(Snapshots, AreRestoredAlthoughTheyWereDoubtedMeanwhile) {
  Snapshots values;
  values.keep("a", reported(20));
  const auto restored = values.find("a", For(0));
  suspect(values);
  values.keep_restored("a", reported(50, kBirth + 1), restored);
  EXPECT_EQ(reported_at(values), 50);
  values.keep("a", reported(60, kBirth + 1));
  values.keep_restored("a", reported(90, kBirth + 2), restored);
  EXPECT_EQ(reported_at(values), 60) << "what was reported to others meanwhile is not restored yet";
  EXPECT_GT(values.find("a", For(0))->suspected, 0);
}

TEST(Snapshots, DoubtUntilTheyAreToldOfWhatWasAskedAfter) {
  Snapshots values;
  values.keep("a", reported(20));
  Snapshot under_way = reported(30);
  suspect(values);
  values.keep("a", std::move(under_way));
  EXPECT_EQ(reported_at(values), 30);
  EXPECT_GT(values.find("a", For(0))->suspected, 0);
  values.keep("a", reported(40));
  EXPECT_EQ(values.find("a", For(0))->suspected, 0);
}

TEST(Snapshots, ForgetInTime) {
  Snapshots values;
  values.keep("a", reported(20));
  EXPECT_NE(values.find("a", For(testing::kHour) - Duration(1)), nullptr);
  EXPECT_EQ(values.find("a", For(testing::kHour)), nullptr);
  values.keep("a", reported(30));
  values.forget("a");
  EXPECT_EQ(values.find("a", For(0)), nullptr);
  Snapshot lapsed = reported(40);
  lapsed.forgotten_at = For(50);
  values.keep("a", std::move(lapsed));
  EXPECT_EQ(values.find("a", For(0)), nullptr);
}

TEST(Snapshots, ForgetWhatHasBecomeTooLarge) {
  Snapshots values;
  values.keep("a", reported(20));
  values.keep("a", reported(30, kBirth, Snapshots::kMostBytesOfKey + 1));
  EXPECT_EQ(values.find("a", For(0)), nullptr);
}

TEST(Snapshots, KnowTheKeysOfAPolicy) {
  Snapshots values;
  for (const char* key : {"ol1:p:a", "ol1:p#b", "ol1:pp:c"}) values.keep(key, reported(20));
  const std::array<std::string, 2> starts{"ol1:p:", "ol1:p#"};
  EXPECT_EQ(values.keys_of(starts).size(), 2);
}

TEST(Snapshots, HaveABoundAndKeepThoseThatComeBack) {
  Snapshots values;
  const auto name = [](std::size_t i) { return "key:" + std::to_string(i); };
  values.keep("customer", reported(20));
  values.keep("customer", reported(21));
  for (std::size_t i = 0; i <= 3 * Snapshots::kMostKeys; ++i) values.keep(name(i), reported(20));
  EXPECT_NE(values.find("customer", For(0)), nullptr);
  EXPECT_NE(values.find(name(3 * Snapshots::kMostKeys), For(0)), nullptr);
  const std::array<std::string, 1> all{""};
  EXPECT_EQ(values.keys_of(all).size(), Snapshots::kMostKeys);
  EXPECT_LE(Snapshots::kMostKeys * Snapshots::kMostBytesOfKey, 4 * Snapshots::kMostBytes);
}

}  // namespace
}  // namespace overlimit::redis
