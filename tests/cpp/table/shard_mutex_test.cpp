// The lock that processes share, for those who wait and for those who come back instead.
#include "table/shard_mutex.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <thread>

#include "../times.hpp"
#include "overlimit/errors.hpp"

namespace overlimit::table {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr std::uint32_t kOwn = 7;
constexpr std::uint32_t kOther = 8;

class KnownHolders final : public Holders {
 public:
  KnownHolders() { own_ = kOwn; }
  [[nodiscard]] bool has_ended(std::uint32_t holder) const override { return ended_.contains(holder); }
  void end(std::uint32_t holder) { ended_.insert(holder); }

 private:
  std::set<std::uint32_t> ended_;
};

class SharedShardMutex : public ::testing::Test {
 protected:
  void lock(const Interrupted& interrupted, Duration timeout = For(30'000'000)) {
    MutexWait wait(timeout, interrupted);
    mutex_.lock(wait);
  }
  static Interrupted come_back_until(Steady::time_point until) { return ComeBack{until}; }
  static Interrupted come_back() { return come_back_until(Steady::now() + 1h); }
  /// Whether it is held, by whomever.
  bool is_held() {
    if (!mutex_.try_lock()) return true;
    mutex_.unlock();
    return false;
  }

  std::atomic<std::uint32_t> word_ = 0;
  KnownHolders holders_;
  ShardMutex mutex_{word_, holders_};
};

TEST_F(SharedShardMutex, IsTakenAtOnceWhereItIsFree) {
  for (const Interrupted& caller :
       {Interrupted(DontWait{}), come_back(), come_back_until(Steady::now() - 1h)}) {
    lock(caller);
    EXPECT_TRUE(is_held());
    mutex_.unlock();
    EXPECT_FALSE(is_held());
  }
}

TEST_F(SharedShardMutex, IsNotWaitedForByThoseWhoComeBack) {
  word_ = kOther;
  for (int i = 0; i < 3; ++i) {
    const auto begin = Steady::now();
    EXPECT_THROW(lock(come_back()), WouldWait);
    EXPECT_LT(Steady::now() - begin, 10s) << "of an hour";
  }
  EXPECT_TRUE(is_held());
}

TEST_F(SharedShardMutex, IsTakenOverFromADeadProcessByThoseWhoComeBack) {
  word_ = kOther;
  EXPECT_THROW(lock(come_back()), WouldWait);
  holders_.end(kOther);
  EXPECT_THROW(lock(DontWait{}), WouldWait) << "who does not wait does not look whether somebody died";
  lock(come_back());
  EXPECT_TRUE(is_held());
  EXPECT_THROW(lock(come_back()), WouldWait) << "it is this process now that holds it";
  mutex_.unlock();
  EXPECT_FALSE(is_held());
}

TEST_F(SharedShardMutex, IsTakenByThoseWhoComeBackOnceItIsLeft) {
  lock(come_back());
  EXPECT_THROW(lock(come_back()), WouldWait);
  mutex_.unlock();
  lock(come_back());
  EXPECT_TRUE(is_held());
}

TEST_F(SharedShardMutex, IsGivenUpAfterTheLastReturn) {
  word_ = kOther;
  try {
    lock(come_back_until(Steady::now() - 1ms), For(250'000));
    ADD_FAILURE() << "no error";
  } catch (const StoreTimeout& error) {
    EXPECT_NE(std::string(error.what()).find("timeout=0.25"), std::string::npos) << error.what();
    EXPECT_FALSE(error.maybe_charged());
  }
  holders_.end(kOther);
  lock(come_back_until(Steady::now() - 1ms));
  EXPECT_TRUE(is_held()) << "rather late than never";
}

TEST_F(SharedShardMutex, ComesToThoseWhoComeBackAndToThoseWhoWait) {
  constexpr int kTurns = 500;
  int counted = 0;  // guarded by mutex_
  std::thread waiting([&] {
    for (int i = 0; i < kTurns; ++i) {
      lock({});
      ++counted;
      mutex_.unlock();
    }
  });
  for (int i = 0; i < kTurns;) {
    try {
      lock(come_back());
      ++counted;
      ++i;
      mutex_.unlock();
    } catch (const WouldWait&) {
      std::this_thread::yield();
    }
  }
  waiting.join();
  EXPECT_EQ(counted, 2 * kTurns);
  EXPECT_FALSE(is_held());
}

}  // namespace
}  // namespace overlimit::table
