// A store that is crowded by the names of policies: those without even a cell share common ones.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../calls.hpp"
#include "../examples.hpp"
#include "../limits.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/memory_store.hpp"

namespace overlimit {
namespace {

using namespace testing;

CompiledPolicy tenant(int number, const Limit& limit) {
  return {"tenant." + std::to_string(number), {limit}};
}

struct Size {
  std::size_t max_keys;
  std::size_t max_bytes;
};

class ManyNames : public ::testing::TestWithParam<Size> {
 protected:
  MemoryStore store{GetParam().max_keys, GetParam().max_bytes};
};

INSTANTIATE_TEST_SUITE_P(On, ManyNames,
                         ::testing::Values(Size{1'000'000, MemoryStore::kMinBytes},
                                           Size{100, MemoryStore::kMinBytes}, Size{100, 1 << 20},
                                           Size{4'096, 4 * MemoryStore::kMinBytes}),
                         [](const auto& param) {
                           return std::to_string(param.param.max_keys) + "Keys" +
                                  std::to_string(param.param.max_bytes >> 10) + "KiB";
                         });

TEST_P(ManyNames, AreEachAdmittedTheirLimitAtMost) {
  const int names = examples(16'000 + int(GetParam().max_bytes >> 5));  // there is not room for all
  int in_all = 0;
  for (int name = 0; name < names; ++name) {
    const CompiledPolicy policy = tenant(name, fixed_window(5, kMinute));
    int admitted = 0;
    for (int call = 0; call < 6; ++call) admitted += hit(store, policy, {"x"}, 0).allowed() ? 1 : 0;
    ASSERT_LE(admitted, 5) << name;
    in_all += admitted;
  }
  EXPECT_GT(in_all, 5 * 300) << "known keys and cells have all of theirs";
  EXPECT_LT(in_all, 5 * names);
}

TEST_P(ManyNames, GetRoomAgainWhenTimePasses) {
  for (int name = 0; name < 10'000; ++name) hit(store, tenant(name, fixed_window(5, kMinute)), {"x"}, 0);
  const CompiledPolicy anybody("anybody", {fixed_window(5, kMinute)});
  for (int call = 0; call < 10'000; ++call) peek(store, anybody, {std::to_string(call)}, kHour);
  EXPECT_EQ(store.size(), 0U);
  for (int name = 0; name < 50; ++name) {
    const CompiledPolicy policy = tenant(30'000 + name, fixed_window(5, kMinute));
    EXPECT_TRUE(hit(store, policy, {"x"}, kHour, 5).allowed()) << name;
    EXPECT_FALSE(hit(store, policy, {"x"}, kHour).allowed()) << name;
  }
}

TEST_P(ManyNames, FindRoomInEveryWaveThoughOneKeyNeverGoes) {
  const CompiledPolicy pinned("pinned", {fixed_window(5, 100 * kHour)});
  ASSERT_TRUE(hit(store, pinned, {"x"}, 0).allowed());
  constexpr int kWaves = examples(20);
  for (int wave = 0; wave < kWaves; ++wave) {
    const Micros now = wave * kHour;
    int admitted = 0;
    for (int name = 0; name < 2'000; ++name) {
      const CompiledPolicy policy = tenant(name, fixed_window(2 + wave, kMinute));
      admitted += hit(store, policy, {"x"}, now, 2).allowed() ? 1 : 0;
    }
    ASSERT_GT(admitted, 100) << wave;
  }
  EXPECT_EQ(peek(store, pinned, {"x"}, (kWaves - 1) * kHour, 0).decision.remaining, 4);
}

// All room is taken for an hour, by one key and the cells of many policies.
class NoRoomForNames : public ::testing::Test {
 protected:
  static constexpr int kFillers = 2'000;

  void SetUp() override {
    for (int name = 0; name < kFillers; ++name) hit(store, filler(name), {"filler"}, 0);
    ASSERT_EQ(store.size(), 1U);
  }
  static CompiledPolicy filler(int number) {
    return {"filler." + std::to_string(number), {fixed_window(1'000'000, kHour)}};
  }
  std::int64_t left(const CompiledPolicy& policy, std::string_view identifier, Micros now = 0) {
    return testing::left(store, policy, identifier, now);
  }
  void refund(const CompiledPolicy& policy, std::string_view identifier, const Answer& answer, Cost cost) {
    testing::refund(store, policy, {identifier}, answer, cost, 0);
  }
  void make_room_for_a_key() { store.reset_all(filler(0).identity(), {}); }
  void make_room_for_a_policy() { store.reset_all(filler(1).identity(), {}); }

  MemoryStore store{1, MemoryStore::kMinBytes};
  const CompiledPolicy a{"a", {fixed_window(9, kMinute)}};
  const CompiledPolicy b{"b", {fixed_window(9, kMinute)}};
  const CompiledPolicy c{"c", {fixed_window(9, kMinute)}};
  const CompiledPolicy other{"other", {fixed_window(10, kMinute)}};
};

TEST_F(NoRoomForNames, ThoseOfTheSameNumbersShareACell) {
  EXPECT_TRUE(hit(store, a, {"x"}, 0, 4).allowed());
  EXPECT_TRUE(hit(store, b, {"y"}, 0, 4).allowed());
  EXPECT_EQ(left(c, "z"), 1);
  EXPECT_FALSE(hit(store, c, {"z"}, 0, 2).allowed());
  EXPECT_TRUE(hit(store, c, {"z"}, 0).allowed());
  EXPECT_FALSE(hit(store, a, {"x"}, 0).allowed());
  EXPECT_TRUE(hit(store, a, {"x"}, kMinute, 9).allowed()) << "until the window is over";
}

TEST_F(NoRoomForNames, ThoseOfOtherNumbersAreNotChargedForThem) {
  EXPECT_TRUE(hit(store, a, {"x"}, 0, 9).allowed());
  for (const CompiledPolicy& policy :
       {other, CompiledPolicy("d", {fixed_window(9, kSecond)}),
        CompiledPolicy("e", {sliding_window(9, kMinute)}),
        CompiledPolicy("f", {fixed_window(9, kMinute)}, penalty({kMinute})),
        CompiledPolicy("g", {fixed_window(9, kMinute), fixed_window(10, kMinute)}),
        CompiledPolicy("h", {fixed_window(9, kMinute, "named")})}) {
    EXPECT_EQ(left(policy, "x"), 9 + (policy.name() == "other" ? 1 : 0)) << policy.name();
    EXPECT_TRUE(hit(store, policy, {"x"}, 0, 9).allowed()) << policy.name();
  }
  EXPECT_FALSE(hit(store, b, {"x"}, 0).allowed());
}

TEST_F(NoRoomForNames, AKeyThatGetsItsOwnStartsFromTheCommonCell) {
  hit(store, a, {"x"}, 0, 6);
  make_room_for_a_key();
  EXPECT_TRUE(hit(store, a, {"x"}, 0, 3).allowed());
  EXPECT_EQ(store.size(), 1U);
  EXPECT_FALSE(hit(store, a, {"x"}, 0).allowed());
  EXPECT_EQ(left(b, "y"), 3) << "the common entry was not charged with that";
}

TEST_F(NoRoomForNames, APolicyThatGetsItsOwnCellStartsFromTheCommonOne) {
  hit(store, a, {"x"}, 0, 6);
  make_room_for_a_policy();
  EXPECT_TRUE(hit(store, a, {"y"}, 0, 2).allowed());
  EXPECT_EQ(left(b, "z"), 3) << "the common entry was not charged with that";
  EXPECT_TRUE(hit(store, b, {"z"}, 0, 3).allowed());
  EXPECT_EQ(left(a, "x"), 1) << "nor is the policy's own with what others spend there since";
  EXPECT_TRUE(hit(store, a, {"x"}, 0).allowed());
  EXPECT_FALSE(hit(store, a, {"x"}, 0).allowed());
}

TEST_F(NoRoomForNames, APeekOrARefusalTakesNoRoomForGood) {
  hit(store, a, {"x"}, 0, 6);
  make_room_for_a_policy();
  EXPECT_FALSE(hit(store, a, {"x"}, 0, 4).allowed());
  EXPECT_TRUE(peek(store, b, {"x"}, 0, 3).allowed());
  EXPECT_TRUE(hit(store, other, {"x"}, 0, 1).allowed());
  EXPECT_TRUE(hit(store, c, {"x"}, 0, 3).allowed());
  EXPECT_FALSE(hit(store, b, {"x"}, 0).allowed()) << "b and c spend in the common entry still";
}

TEST_F(NoRoomForNames, AllKeysOfAPolicyInOneCallGoTheSameWay) {
  const CompiledPolicy before("filler.2", {fixed_window(1'000'000, kHour)});
  const CompiledPolicy after("filler.2", {fixed_window(1'000'000, kHour), fixed_window(1'000'000, kMinute)});
  const std::vector<Charge> charges{{&a, "x", 3}, {&after, "filler", 1}, {&a, "y", 2}};
  ASSERT_TRUE(ask(store, call_of(charges, 0)).allowed());
  int more = 0;
  while (hit(store, a, {"x"}, 0).allowed()) ++more;
  EXPECT_EQ(more, 9 - 5) << "though room for a cell came up in the middle of the call";
}

TEST_F(NoRoomForNames, ACallOfSeveralIsChargedOnce) {
  const std::vector<Charge> charges{{&a, "x", 2}, {&b, "x", 3}, {&other, "x", 4}};
  const Call call = call_of(charges, 0);
  const Answer answer = ask(store, call);
  EXPECT_TRUE(answer.allowed());
  EXPECT_EQ(left(c, "x"), 4);
  EXPECT_EQ(left(other, "x"), 6);
  EXPECT_EQ(ask(store, call).status(), Status::over) << "five where four are left";
  store.refund(call, answer.columns.receipt, {});
  EXPECT_EQ(left(c, "x"), 9);
  EXPECT_EQ(left(other, "x"), 10);
}

TEST_F(NoRoomForNames, NobodyIsToldNeverForTheCompanyOfOthers) {
  const std::vector<Charge> charges{{&a, "x", 5}, {&b, "x", 6}};
  const Answer crowded = ask(store, call_of(charges, 0));
  EXPECT_EQ(crowded.status(), Status::over);
  EXPECT_GE(crowded.decision.retry_after, 1);
  EXPECT_LT(crowded.decision.retry_after, kNever);
  EXPECT_EQ(left(a, "x"), 9);
}

TEST_F(NoRoomForNames, TheCommonCellIsGivenBackWhatItWasCharged) {
  const Answer of_a = hit(store, a, {"x"}, 0, 3);
  const Answer of_b = hit(store, b, {"x"}, 0, 4);
  refund(a, "x", of_a, 3);
  EXPECT_EQ(left(c, "x"), 5);
  refund(b, "x", of_b, 4);
  EXPECT_EQ(left(c, "x"), 9);
}

TEST_F(NoRoomForNames, TheCommonCellIsGivenBackWhatItWasChargedWhenItsKeyHasLeft) {
  const Answer spent = hit(store, a, {"x"}, 0, 3);
  make_room_for_a_policy();
  EXPECT_TRUE(hit(store, a, {"x"}, 0).allowed());
  refund(a, "x", spent, 3);
  EXPECT_EQ(left(a, "x"), 5) << "what it took over counts on";
  EXPECT_EQ(left(b, "x"), 9);
  make_room_for_a_key();
  EXPECT_TRUE(hit(store, a, {"x"}, 0).allowed());
  EXPECT_EQ(left(a, "x"), 4);
  EXPECT_EQ(left(b, "x"), 9);
}

TEST_F(NoRoomForNames, TheCommonCellIsNotGivenBackWhatAnotherWasCharged) {
  make_room_for_a_policy();
  const Answer spent = hit(store, a, {"x"}, 0, 3);
  hit(store, b, {"x"}, 0, 4);
  store.reset_all(a.identity(), {});
  EXPECT_TRUE(hit(store, c, {"x"}, 0).allowed()) << "which takes the room";
  refund(a, "x", spent, 3);
  EXPECT_EQ(left(b, "x"), 5);
}

TEST_F(NoRoomForNames, ResettingAPolicyLeavesTheCommonCell) {
  hit(store, a, {"x"}, 0, 6);
  store.reset_all(a.identity(), {});
  EXPECT_EQ(left(a, "x"), 3);
  EXPECT_EQ(left(b, "x"), 3);
}

TEST_F(NoRoomForNames, NobodyIsLockedForTheCompanyOfOthers) {
  const CompiledPolicy strict("strict", {fixed_window(1, kSecond)}, penalty({kMinute}));
  const CompiledPolicy as_strict("as.strict", {fixed_window(1, kSecond)}, penalty({kMinute}));
  EXPECT_TRUE(hit(store, strict, {"x"}, 0).allowed());
  EXPECT_EQ(hit(store, as_strict, {"y"}, 0).decision.retry_after, kSecond);
  EXPECT_TRUE(hit(store, as_strict, {"y"}, kSecond).allowed());
}

TEST_F(NoRoomForNames, NobodyIsLockedByHand) {
  hit(store, a, {"x"}, 0, 6);
  make_room_for_a_policy();
  const std::vector<Charge> charges = charges_of(a, {"x"}, 1);
  EXPECT_THROW(store.lock(call_of(charges, 0), For(kSecond), {}), OutOfMemory);
  EXPECT_TRUE(hit(store, b, {"x"}, 0, 3).allowed());
  EXPECT_FALSE(hit(store, b, {"x"}, 0).allowed());
}

TEST_F(NoRoomForNames, MoreNumbersThanThereIsRoomForAreAnErrorThatChargesNothing) {
  const CompiledPolicy first("first", {fixed_window(1'000, kMinute)});
  int admitted = 0;
  int errors = 0;
  for (int limit = 2'000; limit < 2'100; ++limit) {
    const CompiledPolicy next("next", {fixed_window(limit, kMinute)});
    const std::vector<Charge> charges{{&first, "x", 1}, {&next, "x", 1}};
    try {
      admitted += ask(store, call_of(charges, 0)).allowed() ? 1 : 0;
    } catch (const std::bad_alloc&) {
      ++errors;
    }
  }
  EXPECT_GT(admitted, 8);
  EXPECT_EQ(admitted + errors, 100);
  EXPECT_EQ(left(first, "x"), 1'000 - admitted);
}

// The admissions of every key, by what it may have in a period.
class Admissions {
 public:
  void add(const CompiledPolicy& policy, std::string_view identifier, Micros now) {
    times_[{policy.name(), std::string(identifier)}].push_back(now);
    ++count_;
  }
  void check(const std::string& policies, std::size_t limit, Micros period) const {
    for (const auto& [key, times] : times_) {
      if (!key.first.starts_with(policies)) continue;
      for (std::size_t i = limit; i < times.size(); ++i) {
        ASSERT_GE(times[i] - times[i - limit], period) << key.first << ' ' << key.second;
      }
    }
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  std::map<std::pair<std::string, std::string>, std::vector<Micros>> times_;
  std::size_t count_ = 0;
};

// Others take the room and leave it, so that names find their way from one cell to another and back.
TEST(Crowds, OfNamesAreNeverAdmittedMoreThanEachAlone) {
  std::deque<CompiledPolicy> fillers;
  for (int i = 0; i < 1'500; ++i) fillers.push_back(tenant(i, fixed_window(1'000, kMinute)));
  std::deque<CompiledPolicy> policies;
  for (int i = 0; i < 20; ++i) {
    const std::string number = std::to_string(i);
    policies.emplace_back("window." + number, std::vector{sliding_window(3, 10 * kSecond)});
    policies.emplace_back("log." + number, std::vector{sliding_log(4, 20 * kSecond)});
    policies.emplace_back("both." + number, std::vector{sliding_log(3, 5 * kSecond), token_bucket(50, 10)});
  }
  for (unsigned seed = 0; seed < 4; ++seed) {
    const std::size_t max_keys = seed % 2 == 0 ? 1 : 1'000'000;
    MemoryStore store(max_keys, MemoryStore::kMinBytes);
    std::mt19937 random(seed);
    Admissions admissions;
    Micros now = 0;
    for (int step = 0; step < examples(20'000); ++step) {
      now += Micros(random() % 20'000);
      const CompiledPolicy& filler = fillers[random() % fillers.size()];
      if (random() % 2 == 0) hit(store, filler, {"filler"}, now);
      if (random() % 8 == 0) store.reset_all(filler.identity(), {});
      const CompiledPolicy& policy = policies[random() % policies.size()];
      const CompiledPolicy& second = policies[random() % policies.size()];
      std::vector<Charge> charges{{&policy, random() % 2 == 0 ? "x" : "y", 1}};
      if (random() % 8 == 0) charges.push_back({&policy, "z", 1});
      if (random() % 8 == 0 && &second != &policy) charges.push_back({&second, "x", 1});
      const Mode mode = random() % 8 == 0 ? Mode::peek : Mode::consume;
      if (!ask(store, {charges, mode, At(now), true}).allowed() || mode == Mode::peek) continue;
      for (const Charge& charge : charges) admissions.add(*charge.policy, charge.identifier, now);
    }
    admissions.check("window", 3, 10 * kSecond);
    admissions.check("log", 4, 20 * kSecond);
    admissions.check("both", 3, 5 * kSecond);
    EXPECT_GT(admissions.count(), 500U) << seed;
    EXPECT_LE(store.size(), max_keys);
  }
}

}  // namespace
}  // namespace overlimit
