// What sentinels say, and whom to believe.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "redis/protocol/sentinel.hpp"
#include "replies.hpp"

namespace overlimit::redis::protocol {
namespace {

using namespace std::chrono_literals;

const HostPort kOne{"10.0.0.1", 6379};
const HostPort kTwo{"10.0.0.2", 6379};
const HostPort kThree{"10.0.0.3", 6379};

TEST(NamedMaster, IsAHostAndAPort) {
  EXPECT_EQ(named_master(words({"10.0.0.1", "6379"})), kOne);
  EXPECT_EQ(named_master(words({"2001:db8::1", "1"})), (HostPort{"2001:db8::1", 1}));
}

TEST(NamedMaster, IsNoneOfAnUnknownServiceOrAMalformedReply) {
  EXPECT_FALSE(named_master(Reply::nil()));
  EXPECT_FALSE(named_master(Reply::string("10.0.0.1")));
  EXPECT_FALSE(named_master(Reply::error("ERR no")));
  EXPECT_FALSE(named_master(array_of(Reply::string("10.0.0.1"), Reply::integer(6379))));
  EXPECT_FALSE(named_master(words({"pong", ""})));
  for (const auto& bad : {std::vector<std::string>{},
                          {"a"},
                          {"", "1"},
                          {"a", "0"},
                          {"a", "65536"},
                          {"a", "1 "},
                          {"a", "1", "b"}}) {
    EXPECT_FALSE(named_master(words(bad)));
  }
}

Reply notice(const std::string& text) { return words({"message", "+switch-master", text}); }

TEST(SwitchOf, ReadsTheMessageOfItsService) {
  const auto announced = switch_of(notice("cache 10.0.0.1 6379 10.0.0.2 6379"), "cache");
  ASSERT_TRUE(announced.has_value());
  EXPECT_EQ(announced->from, kOne);
  EXPECT_EQ(announced->to, kTwo);
}

TEST(SwitchOf, IsNoneOfAnotherServiceOrAMalformedMessage) {
  for (const std::string text :
       {"other 10.0.0.1 6379 10.0.0.2 6379", "cache 10.0.0.1 6379 10.0.0.2", "cache", "",
        "cache 10.0.0.1 6379 10.0.0.2 6379 more", "cache 10.0.0.1 6379 10.0.0.2 no",
        "cache  6379 10.0.0.2 6379", "cache 10.0.0.1 6379  6379", "cache 10.0.0.1 6379 10.0.0.2 "}) {
    EXPECT_FALSE(switch_of(notice(text), "cache")) << text;
  }
  EXPECT_FALSE(switch_of(words({"message", "+sdown", "cache 10.0.0.1 6379 10.0.0.2 6379"}), "cache"));
  EXPECT_FALSE(switch_of(words({"subscribe", "+switch-master", "1"}), "cache"));
  EXPECT_FALSE(switch_of(words({"message", "+switch-master"}), "cache"));
  EXPECT_FALSE(switch_of(Reply::nil(), "cache"));
  EXPECT_FALSE(switch_of(
      array_of(Reply::string("message"), Reply::string("+switch-master"), Reply::integer(1)), "cache"));
}

class Masterships : public ::testing::Test {
 protected:
  void named(const HostPort& master) { tracker.named(master, now); }
  void switched(const HostPort& from, const HostPort& to) { tracker.switched({from, to}, now); }

  MasterTracker tracker;
  MasterTracker::TimePoint now{1h};
};

TEST_F(Masterships, BeginWithNobody) {
  EXPECT_FALSE(tracker.master().has_value());
  EXPECT_EQ(tracker.epoch(), 0U);
}

TEST_F(Masterships, FollowWhatIsNamedAndAnnounced) {
  named(kOne);
  EXPECT_EQ(tracker.master(), kOne);
  named(kOne);
  EXPECT_EQ(tracker.epoch(), 1U) << "the same is no change";
  switched(kOne, kTwo);
  EXPECT_EQ(tracker.master(), kTwo);
  switched(kOne, kTwo);
  EXPECT_EQ(tracker.epoch(), 2U) << "every sentinel announces it";
}

TEST_F(Masterships, DoNotGoBackForASentinelThatIsBehind) {
  named(kOne);
  switched(kOne, kTwo);
  named(kOne);
  EXPECT_EQ(tracker.master(), kTwo);
  switched(kTwo, kThree);
  switched(kOne, kTwo);
  EXPECT_EQ(tracker.master(), kThree) << "a late announcement";
  EXPECT_EQ(tracker.epoch(), 3U);
}

TEST_F(Masterships, KnowWhoWasReplacedThoughTheyNeverFollowedHim) {
  switched(kOne, kTwo);
  named(kOne);
  EXPECT_EQ(tracker.master(), kTwo);
}

TEST_F(Masterships, GoBackWhenThatIsAnnounced) {
  named(kOne);
  switched(kOne, kTwo);
  switched(kTwo, kOne);
  EXPECT_EQ(tracker.master(), kOne);
  named(kTwo);
  EXPECT_EQ(tracker.master(), kOne);
}

TEST_F(Masterships, BelieveAnyoneAfterAWhile) {
  named(kOne);
  switched(kOne, kTwo);
  now += MasterTracker::kDoubt - 1us;
  named(kOne);
  EXPECT_EQ(tracker.master(), kTwo);
  now += 1us;
  named(kOne);
  EXPECT_EQ(tracker.master(), kOne);
}

}  // namespace
}  // namespace overlimit::redis::protocol
