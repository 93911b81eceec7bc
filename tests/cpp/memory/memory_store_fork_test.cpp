// Forks while other threads decide, and hold the locks of the table: the child finds them free.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../calls.hpp"
#include "../limits.hpp"
#include "overlimit/memory_store.hpp"

namespace overlimit {
namespace {

using testing::fixed_window;
using testing::hit;
using testing::kMinute;
using testing::peek;

constexpr unsigned kSecondsForAChild = 10;
constexpr int kForks = 60;

/// Does something again and again in a thread of its own, as long as this lives.
class Repeating {
 public:
  explicit Repeating(const std::function<void(int)>& deed)
      : thread_([this, deed] {
          for (int round = 0; !over_.load(); ++round) deed(round);
        }) {}
  Repeating(const Repeating&) = delete;
  Repeating& operator=(const Repeating&) = delete;
  ~Repeating() {
    over_.store(true);
    thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

/// Whether `body` returned true, in time, in a child.
bool is_true_in_child(const std::function<bool()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(kSecondsForAChild);
    ::_exit(body() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class ForkedTables : public ::testing::Test {
 protected:
  static constexpr std::size_t kShards = 8;

  void use_all(int round) {
    hit(store, ample, {"a", "b", std::to_string(round % 500)}, 0);
    hit(store, swept, {std::to_string(round % 300)}, 0);
  }
  std::int64_t used() { return 1'000'000 - peek(store, counted, {"one"}, 0, 0).decision.remaining; }

  MemoryStore store{kShards * 1024, std::size_t{4} << 20U};
  const Plan ample{"ample", {fixed_window(1'000'000'000, kMinute)}};
  const Plan swept{"swept", {fixed_window(1'000'000'000, kMinute)}};
  const Plan counted{"counted", {fixed_window(1'000'000, kMinute)}};
};

TEST_F(ForkedTables, AnswerAtOnceWhateverTheThreadsOfTheParentDid) {
  const Repeating one([this](int round) { use_all(round); });
  const Repeating other([this](int round) { use_all(round); });
  const Repeating sweeper([this](int) { store.reset_all(swept, {}); });
  for (int i = 0; i < kForks; ++i) {
    ASSERT_TRUE(is_true_in_child([this] {
      for (int round = 0; round < 500; ++round) use_all(round);
      store.reset_all(swept, {});
      return true;
    })) << i;
  }
}

TEST_F(ForkedTables, CountOnFromWhatTheParentHadCountedByThen) {
  std::atomic<std::int64_t> hits{0};
  const Repeating hitting([&](int) {
    hit(store, counted, {"one"}, 0);
    hits.fetch_add(1);
  });
  for (int i = 0; i < kForks; ++i) {
    ASSERT_TRUE(is_true_in_child([&] {
      const std::int64_t inherited = used();
      if (inherited < hits.load() || inherited > hits.load() + 1) return false;
      for (int round = 0; round < 10; ++round) hit(store, counted, {"one"}, 0);
      return used() == inherited + 10;
    })) << i;
  }
  EXPECT_GT(hits.load(), kForks);
}

TEST_F(ForkedTables, MayForkAgainAndFromSeveralThreadsAtOnce) {
  const Repeating hitting([this](int round) { use_all(round); });
  const auto forks_once_more = [this] {
    return is_true_in_child([this] {
      use_all(0);
      return true;
    });
  };
  std::atomic<int> good{0};
  std::vector<std::thread> forking;
  for (int thread = 0; thread < 3; ++thread) {
    forking.emplace_back([&] {
      for (int i = 0; i < kForks / 6; ++i) good += is_true_in_child(forks_once_more) ? 1 : 0;
    });
  }
  for (std::thread& thread : forking) thread.join();
  EXPECT_EQ(good.load(), 3 * (kForks / 6));
}

}  // namespace
}  // namespace overlimit
