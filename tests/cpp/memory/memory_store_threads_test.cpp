// Many threads at once: exactly the limit, no deadlock, no key lost.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../calls.hpp"
#include "../examples.hpp"
#include "../limits.hpp"
#include "../threads.hpp"
#include "overlimit/memory_store.hpp"

namespace overlimit {
namespace {

using namespace testing;

TEST(Threads, OfOneIdentifierAreAdmittedExactlyTheLimit) {
  MemoryStore store;
  const CompiledPolicy policy("p", {sliding_window(5, kMinute), fixed_window(7, kMinute)});
  for (int round = 0; round < examples(100); ++round) {
    const std::string name = "id" + std::to_string(round);
    std::atomic<int> admitted = 0;
    in_threads(32, [&](std::ptrdiff_t) {
      for (int i = 0; i < 10; ++i) admitted += hit(store, policy, {name}, 0).allowed() ? 1 : 0;
    });
    ASSERT_EQ(admitted, 5) << round;
  }
}

TEST(Threads, ReadingTheRealTimeAreAdmittedExactlyTheLimit) {
  MemoryStore store;
  const CompiledPolicy policy("p", {sliding_window(50, 10 * kMinute)});
  std::atomic<int> admitted = 0;
  in_threads(8, [&](std::ptrdiff_t) {
    const Charge charge{&policy, "a", 1};
    for (int i = 0; i < 100; ++i) admitted += ask(store, {std::span(&charge, 1)}).allowed() ? 1 : 0;
  });
  EXPECT_EQ(admitted, 50);
}

TEST(Threads, WithTheSameIdentifiersInDifferentOrdersAreAdmittedExactlyTheLimit) {
  MemoryStore store;
  const CompiledPolicy policy("p", {fixed_window(100, kMinute)});
  std::atomic<int> admitted = 0;
  in_threads(8, [&](std::ptrdiff_t thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    std::array<std::string, 5> names{"a", "b", "c", "d", "e"};
    for (int i = 0; i < 200; ++i) {
      std::shuffle(names.begin(), names.end(), random);
      admitted += hit(store, policy, {names[0], names[1], names[2], names[3], names[4]}, 0).allowed() ? 1 : 0;
    }
  });
  EXPECT_EQ(admitted, 100);
  EXPECT_EQ(store.size(), 5U);
}

TEST(Threads, WithOverlappingIdentifiersChargeEachExactlyAsOftenAsItWasAdmitted) {
  MemoryStore store(10'000);
  const CompiledPolicy policy("p", {token_bucket(200, 1), sliding_window(150, kMinute)});
  std::array<std::atomic<int>, 8> admitted{};
  in_threads(8, [&](std::ptrdiff_t thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    for (int i = 0; i < 400; ++i) {
      const std::size_t first = random() % 8;
      const std::size_t second = (first + 1 + random() % 7) % 8;
      if (!hit(store, policy, {std::to_string(first), std::to_string(second)}, 0).allowed()) continue;
      ++admitted[first];
      ++admitted[second];
    }
  });
  int used_up = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_LE(admitted[i], 150);
    EXPECT_EQ(left(store, policy, std::to_string(i), 0), 150 - admitted[i]);
    used_up += admitted[i] == 150;
  }
  EXPECT_GE(used_up, 7) << "of two that are left a call would have been admitted";
}

TEST(Threads, OnAFullStoreAreAdmittedNoMoreThanTheKnownKeysAndTheCellGrant) {
  MemoryStore store(4, MemoryStore::kMinBytes);
  const CompiledPolicy policy("p", {fixed_window(5, kMinute)});
  std::atomic<int> admitted = 0;
  std::atomic<int> too_many = 0;
  in_threads(8, [&](std::ptrdiff_t thread) {
    for (int i = 0; i < 300; ++i) {
      const std::string name = std::to_string((i + thread) % 40);
      admitted += hit(store, policy, {name}, 0).allowed() ? 1 : 0;
      too_many += store.size() > 4 ? 1 : 0;
    }
  });
  EXPECT_EQ(admitted, 4 * 5 + 5);
  EXPECT_EQ(too_many, 0);
}

TEST(Threads, InACrowdOfPoliciesKeepNoMoreThanTheLimitOfEach) {
  MemoryStore store(1'000'000, MemoryStore::kMinBytes);
  std::deque<CompiledPolicy> policies;
  for (int i = 0; i < 2'000; ++i)
    policies.emplace_back(std::to_string(i), std::vector{fixed_window(5, kMinute)});
  std::vector<std::atomic<int>> kept(policies.size());
  in_threads(6, [&](std::ptrdiff_t thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    for (int i = 0; i < examples(5'000); ++i) {
      const std::size_t number = random() % policies.size();
      const Charge charge{&policies[number], "x", 1};
      const Call call = call_of(std::span(&charge, 1), 0);
      const auto answer = ask(store, call);
      if (!answer.allowed()) continue;
      if (random() % 3 == 0) {
        store.refund(call, answer.columns.receipt, {});
      } else {
        ++kept[number];
      }
    }
  });
  int in_all = 0;
  for (const std::atomic<int>& count : kept) {
    EXPECT_LE(count, 5);
    in_all += count;
  }
  EXPECT_GT(in_all, 1'000);
}

TEST(Threads, MayResetAndChangePoliciesMeanwhile) {
  MemoryStore store(100, 1 << 20);
  const CompiledPolicy before("p", {fixed_window(1'000'000, kMinute), sliding_window(1'000'000, kMinute)});
  const CompiledPolicy after("p", {sliding_window(1'000'000, kMinute), token_bucket(1'000'000, 1)});
  std::atomic<int> refused = 0;
  in_threads(6, [&](std::ptrdiff_t thread) {
    const CompiledPolicy& policy = thread % 2 == 0 ? before : after;
    for (int i = 0; i < 500; ++i) {
      const std::string name = std::to_string(i % 10);
      const std::string other = std::to_string(10 + i % 7);
      refused += hit(store, policy, {name, other}, i).allowed() ? 0 : 1;
      const std::string_view forgotten[] = {other};
      if (thread == 0) store.reset(policy.identity(), forgotten, {});
    }
  });
  EXPECT_EQ(refused, 0);
  EXPECT_LE(store.size(), 17U);
  EXPECT_GE(store.size(), 10U);
  for (int i = 0; i < 10; ++i) {
    const auto used = 1'000'000 - peek(store, before, {std::to_string(i)}, 500, 0).columns.remaining[1];
    EXPECT_EQ(used, 6 * 50) << "the sliding window they have in common";
  }
}

TEST(Threads, MayRefundLockAndForgetMeanwhile) {
  MemoryStore store(100, 1 << 20);
  const CompiledPolicy policy("p", {sliding_log(50, kMinute), token_bucket(50, 1)},
                              penalty({1'000, 5'000}, true));
  const CompiledPolicy other("q", {fixed_window(1'000'000, kMinute)});
  in_threads(6, [&](std::ptrdiff_t thread) {
    for (int i = 0; i < 400; ++i) {
      const std::string name = std::to_string((i + thread) % 5);
      const Charge charge{&policy, name, 1};
      const Call call = call_of(std::span(&charge, 1), i * 100);
      const auto answer = ask(store, call);
      if (i % 3 == 0) store.refund(call, answer.columns.receipt, {});
      if (i % 50 == 7) store.lock(call, For(100), {});
      if (thread == 0 && i % 40 == 0) store.reset_all(policy.identity(), {});
      hit(store, other, {"counted"}, 0);
    }
  });
  EXPECT_EQ(left(store, other, "counted", 0), 1'000'000 - 6 * 400);
}

TEST(Threads, SeeAllThatTheyChargedInOneCallForgottenAtOnce) {
  MemoryStore store;
  const CompiledPolicy policy("p", {fixed_window(1'000'000, kMinute)});
  std::atomic<int> unequal = 0;
  in_threads(4, [&](std::ptrdiff_t thread) {
    for (int i = 0; i < 2'000; ++i) {
      if (thread == 0) {
        store.clear();
        continue;
      }
      const auto left = hit(store, policy, {"a", "b", "c", "d"}, 0).columns.remaining;
      unequal += std::ranges::count_if(left, [&](std::int64_t each) { return each != left[0]; }) > 0 ? 1 : 0;
    }
  });
  EXPECT_EQ(unequal, 0);
  store.clear();
  EXPECT_EQ(store.size(), 0U);
}

TEST(Threads, OfOnePlanFollowItsCalendarTogether) {
  MemoryStore store;
  const auto calendar =
      std::make_shared<const Calendar>(Calendar{"hundred", [](Instant now) {
                                                  const Instant start = now - now.since_epoch() % For(100);
                                                  return Bounds{start, start + 100, start + 200};
                                                }});
  const CompiledPolicy policy("p", {calendar_window(5, calendar)});
  std::atomic<int> admitted = 0;
  in_threads(6, [&](std::ptrdiff_t) {
    for (Micros now = 0; now < 10'000; now += 10) {
      const std::string name = std::to_string(now / 100);
      const Charge charge{&policy, name, 1};
      admitted += ask(store, {std::span(&charge, 1), Mode::consume, At(now)}).allowed() ? 1 : 0;
    }
  });
  EXPECT_EQ(admitted, 5 * 100);
}

}  // namespace
}  // namespace overlimit
