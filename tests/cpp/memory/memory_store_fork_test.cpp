// Forks while other threads decide, and hold the locks of the table: the child finds them free.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "../columns.hpp"
#include "../examples.hpp"
#include "../forks.hpp"
#include "../limits.hpp"
#include "overlimit/memory_store.hpp"

namespace overlimit {
namespace {

using namespace testing;

constexpr int kForks = examples(60);

/// Does something again and again in a thread of its own, as long as this lives.
class Repeating : NonCopyable {
 public:
  explicit Repeating(const std::function<void(int)>& deed)
      : thread_([this, deed] {
          for (int round = 0; !over_.load(); ++round) deed(round);
        }) {}
  ~Repeating() {
    over_.store(true);
    thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

/// Asks a store over and over, and allocates nothing: the allocator of a sanitizer is no more to be used in a
/// child than any other lock that a thread of the parent may have held.
class Asking {
 public:
  Asking(MemoryStore& store, const CompiledPolicy& policy) : store_(store), policy_(policy), columns_(2) {}

  /// Hits, or looks, and returns what remains for the first identifier.
  std::int64_t ask(std::string_view one, std::string_view other, Mode mode) {
    const std::array charges{Charge{&policy_, one}, Charge{&policy_, other}};
    const Call call{charges, mode, At(0), true};
    store_.decide(std::span(&call, 1), columns_.rows(), std::span(&time_, 1), std::span(&basis_, 1), {});
    return columns_.remaining[0];
  }
  void hit(int round) {
    constexpr std::array<std::string_view, 5> kNames{"a", "b", "c", "d", "e"};
    ask(kNames[std::size_t(round % 5)], "shared", Mode::consume);
  }

 private:
  MemoryStore& store_;
  const CompiledPolicy& policy_;
  Columns columns_;
  Instant time_ = At(0);
  Basis basis_;
};

class ForkedTables : public ::testing::Test {
 protected:
  static constexpr std::size_t kShards = 8;
  static constexpr std::int64_t kAmple = 1'000'000'000;

  MemoryStore store{kShards * 1024, std::size_t{4} << 20U};
  const CompiledPolicy policy{"p", {fixed_window(kAmple, kMinute)}};
};

TEST_F(ForkedTables, AnswerAtOnceWhateverTheThreadsOfTheParentDid) {
  std::array asking{Asking(store, policy), Asking(store, policy), Asking(store, policy)};
  const Repeating one([&](int round) { asking[0].hit(round); });
  const Repeating other([&](int round) { asking[1].hit(round); });
  const Repeating sweeper([this](int) { store.reset_all(policy.identity(), {}); });
  for (int i = 0; i < kForks; ++i) {
    ASSERT_TRUE(in_child([&] {
      for (int round = 0; round < 500; ++round) asking[2].hit(round);
      store.reset_all(policy.identity(), {});
      return true;
    })) << i;
  }
}

TEST_F(ForkedTables, CountOnFromWhatTheParentHadCountedByThen) {
  std::atomic<std::int64_t> hits{0};
  std::array asking{Asking(store, policy), Asking(store, policy)};
  const auto used = [&] { return kAmple - asking[1].ask("one", "other", Mode::peek) - 1; };
  const Repeating hitting([&](int) {
    asking[0].ask("one", "other", Mode::consume);
    hits.fetch_add(1);
  });
  for (int i = 0; i < kForks; ++i) {
    ASSERT_TRUE(in_child([&] {
      const std::int64_t inherited = used();
      if (inherited < hits.load() || inherited > hits.load() + 1) return false;
      for (int round = 0; round < 10; ++round) asking[1].ask("one", "other", Mode::consume);
      return used() == inherited + 10;
    })) << i;
  }
  EXPECT_GT(hits.load(), kForks);
}

TEST_F(ForkedTables, MayForkAgainAndFromSeveralThreadsAtOnce) {
  std::array asking{Asking(store, policy), Asking(store, policy), Asking(store, policy),
                    Asking(store, policy)};
  const Repeating hitting([&](int round) { asking[3].hit(round); });
  std::atomic<int> good{0};
  std::vector<std::thread> forking;
  for (std::size_t thread = 0; thread < 3; ++thread) {
    forking.emplace_back([&, thread] {
      const auto hits = [&] {
        asking[thread].hit(0);
        return true;
      };
      for (int i = 0; i < kForks / 6; ++i) good += in_child([&] { return in_child(hits); }) ? 1 : 0;
    });
  }
  for (std::thread& thread : forking) thread.join();
  EXPECT_EQ(good.load(), 3 * (kForks / 6));
}

}  // namespace
}  // namespace overlimit
