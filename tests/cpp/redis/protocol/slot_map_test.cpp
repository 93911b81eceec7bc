#include "redis/protocol/cluster_slots.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "replies.hpp"

namespace overlimit::redis::protocol {
namespace {

const HostPort kAsked{"10.0.0.1", 7000};

Reply server(Reply host, std::int64_t port) {
  return array_of(std::move(host), Reply::integer(port), Reply::string("id"));
}

Reply server(const std::string& host, std::int64_t port) { return server(Reply::string(host), port); }

template <typename... Servers>
Reply range(std::int64_t first, std::int64_t last, Servers... servers) {
  return array_of(Reply::integer(first), Reply::integer(last), std::move(servers)...);
}

HostPort master(const SlotMap& map, Slot slot) {
  const HostPort* found = map.master_of(slot);
  return found == nullptr ? HostPort{"nobody", 0} : *found;
}

TEST(SlotMap, IsEmptyAtFirst) {
  const SlotMap map;
  EXPECT_EQ(map.master_of(0), nullptr);
  EXPECT_EQ(map.master_of(16383), nullptr);
  EXPECT_TRUE(map.masters().empty());
  EXPECT_TRUE(map.servers().empty());
}

TEST(SlotMap, KnowsTheMasterOfEverySlotAndAllServers) {
  const auto map = SlotMap::read(array_of(range(0, 99, server("a", 1), server("b", 2)),
                                          range(200, 16383, server("c", 3)), range(100, 100, server("a", 1))),
                                 kAsked);
  ASSERT_TRUE(map.has_value());
  EXPECT_EQ(master(*map, 0), (HostPort{"a", 1}));
  EXPECT_EQ(master(*map, 100), (HostPort{"a", 1}));
  EXPECT_EQ(map->master_of(101), nullptr);
  EXPECT_EQ(map->master_of(199), nullptr);
  EXPECT_EQ(master(*map, 200), (HostPort{"c", 3}));
  EXPECT_EQ(master(*map, 16383), (HostPort{"c", 3}));
  EXPECT_EQ(map->masters(), (std::set<HostPort>{{"a", 1}, {"c", 3}}));
  EXPECT_EQ(map->servers().size(), 3U);
}

TEST(SlotMap, TakesAnEmptyOrAbsentHostForTheNodeThatWasAsked) {
  const auto map =
      SlotMap::read(array_of(range(0, 1, server("", 7001)), range(2, 3, server(Reply::nil(), 7002))), kAsked);
  ASSERT_TRUE(map.has_value());
  EXPECT_EQ(master(*map, 1), (HostPort{"10.0.0.1", 7001}));
  EXPECT_EQ(master(*map, 2), (HostPort{"10.0.0.1", 7002}));
}

TEST(SlotMap, TakesTheIpOfANodeWithoutTheNameItShouldHave) {
  Reply nameless = array_of(Reply::string("?"), Reply::integer(7001), Reply::string("id"),
                            words({"hostname", "", "ip", "10.0.0.9"}));
  const auto map =
      SlotMap::read(array_of(range(0, 1, std::move(nameless)), range(2, 3, server("?", 7002))), kAsked);
  ASSERT_TRUE(map.has_value());
  EXPECT_EQ(master(*map, 0), (HostPort{"10.0.0.9", 7001}));
  EXPECT_EQ(map->master_of(2), nullptr) << "nobody knows where that is";
}

TEST(SlotMap, LearnsOneSlot) {
  auto map = *SlotMap::read(array_of(range(0, 9, server("a", 1))), kAsked);
  map.learn(5, {"b", 2});
  map.learn(16383, {"a", 1});
  EXPECT_EQ(master(map, 4), (HostPort{"a", 1}));
  EXPECT_EQ(master(map, 5), (HostPort{"b", 2}));
  EXPECT_EQ(master(map, 6), (HostPort{"a", 1}));
  EXPECT_EQ(master(map, 16383), (HostPort{"a", 1}));
  EXPECT_EQ(map.servers().size(), 2U);
}

TEST(SlotMap, SaysWhichSlotNobodyServes) {
  EXPECT_EQ(SlotMap().first_gap(), 0);
  const auto partial =
      *SlotMap::read(array_of(range(0, 9, server("a", 1)), range(11, 16383, server("b", 2))), kAsked);
  EXPECT_EQ(partial.first_gap(), 10);
  auto last = *SlotMap::read(array_of(range(0, 16382, server("a", 1))), kAsked);
  EXPECT_EQ(last.first_gap(), 16383);
  last.learn(16383, {"b", 2});
  EXPECT_EQ(last.first_gap(), std::nullopt);
}

TEST(SlotMap, TakesFromAnotherWhatItDoesNotKnow) {
  auto map = *SlotMap::read(array_of(range(0, 9, server("a", 1))), kAsked);
  const auto other = *SlotMap::read(array_of(range(5, 14, server("b", 2), server("c", 3))), kAsked);
  map.complete(other, {});
  EXPECT_EQ(master(map, 0), (HostPort{"a", 1}));
  EXPECT_EQ(master(map, 9), (HostPort{"a", 1})) << "what it knows it keeps";
  EXPECT_EQ(master(map, 10), (HostPort{"b", 2}));
  EXPECT_EQ(master(map, 14), (HostPort{"b", 2}));
  EXPECT_EQ(map.master_of(15), nullptr);
  EXPECT_EQ(map.servers().size(), 2U) << "no more of the others than serve something";
  map.complete(SlotMap(), {{"a", 1}});
  EXPECT_EQ(master(map, 9), (HostPort{"a", 1})) << "whoever serves a slot is better than nobody";
}

TEST(SlotMap, TakesThoseNotDoubtedInThePlaceOfThoseWhoAre) {
  const auto told = *SlotMap::read(
      array_of(range(0, 4, server("a", 1)), range(5, 9, server("b", 2)), range(10, 14, server("c", 3))),
      kAsked);
  const auto other = *SlotMap::read(array_of(range(0, 12, server("c", 3))), kAsked);
  auto map = told;
  map.complete(other, {{"a", 1}, {"d", 4}});
  EXPECT_EQ(master(map, 4), (HostPort{"c", 3}));
  EXPECT_EQ(master(map, 5), (HostPort{"b", 2}));
  map = told;
  map.complete(other, {{"a", 1}, {"b", 2}, {"c", 3}});
  EXPECT_TRUE(map.agrees_with(told));
}

TEST(SlotMap, KnowsNoMoreServersThanItCanNumber) {
  std::vector<Reply> words;
  words.push_back(Reply::integer(0));
  words.push_back(Reply::integer(9));
  for (std::int64_t i = 0; i < 65'535; ++i) words.push_back(server("a", i));
  EXPECT_FALSE(SlotMap::read(array_of(Reply::array(std::move(words))), kAsked));
}

TEST(SlotMap, AgreesWithOneThatNamesTheSameMastersHoweverItWasTold) {
  const auto one =
      *SlotMap::read(array_of(range(0, 9, server("a", 1)), range(10, 19, server("b", 2))), kAsked);
  auto other = *SlotMap::read(array_of(range(10, 19, server("b", 2), server("c", 3)),
                                       range(0, 4, server("a", 1)), range(5, 9, server("a", 1))),
                              kAsked);
  EXPECT_TRUE(one.agrees_with(other));
  other.learn(9, {"b", 2});
  EXPECT_FALSE(one.agrees_with(other));
  EXPECT_FALSE(one.agrees_with(SlotMap()));
  EXPECT_FALSE(SlotMap().agrees_with(one));
  EXPECT_TRUE(SlotMap().agrees_with(SlotMap()));
}

TEST(SlotMap, IsNoneOfAMalformedReply) {
  std::vector<Reply> bad;
  bad.push_back(Reply::nil());
  bad.push_back(Reply::status("OK"));
  bad.push_back(array_of(Reply::integer(1)));
  bad.push_back(array_of(array_of(Reply::integer(0), Reply::integer(1))));
  bad.push_back(array_of(range(0, 16384, server("a", 1))));
  bad.push_back(array_of(range(-1, 1, server("a", 1))));
  bad.push_back(array_of(range(2, 1, server("a", 1))));
  bad.push_back(array_of(range(0, 1, server("a", 65536))));
  bad.push_back(array_of(range(0, 1, server("a", -1))));
  bad.push_back(array_of(range(0, 1, server(Reply::integer(5), 1))));
  bad.push_back(array_of(range(0, 1, Reply::string("a:1"))));
  bad.push_back(array_of(range(0, 1, words({"a"}))));
  bad.push_back(array_of(range(0, 1, words({"a", "1"}))));
  bad.push_back(array_of(range(0, 1, server("a", 1), Reply::nil())));
  bad.push_back(array_of(range(0, 1, server("a", 1)), Reply::nil()));
  bad.push_back(array_of(array_of(Reply::string("0"), Reply::integer(1), server("a", 1))));
  for (std::size_t i = 0; i < bad.size(); ++i) EXPECT_FALSE(SlotMap::read(bad[i], kAsked)) << i;
}

TEST(SlotMap, OfAClusterWithoutSlotsIsEmpty) {
  const auto map = SlotMap::read(array_of(), kAsked);
  ASSERT_TRUE(map.has_value());
  EXPECT_TRUE(map->masters().empty());
}

}  // namespace
}  // namespace overlimit::redis::protocol
