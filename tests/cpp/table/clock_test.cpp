// A call reads its clock when it holds the locks of all its shards, so that what waits for another call is
// decided at an instant that is not before it.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "../calls.hpp"
#include "../limits.hpp"
#include "overlimit/table_store.hpp"
#include "platform/virtual_memory.hpp"
#include "table/table.hpp"

namespace overlimit::table {
namespace {

using namespace testing;

constexpr std::size_t kShards = 4;
constexpr std::size_t kShardBytes = std::size_t{1} << 20;

class FourShards final : public TableStore {
 public:
  FourShards() : TableStore(kNever) {
    state.totals.max_keys = 1000;
    std::vector<std::unique_ptr<Shard>> made;
    for (unsigned i = 0; i < kShards; ++i) {
      made.push_back(std::make_unique<Shard>(
          Shard::Place{.state = states_[i],
                       .totals = state.totals,
                       .memory = std::span(region_.get() + i * kShardBytes, kShardBytes),
                       .most_buckets = 1024,
                       .ordinal = i}));
      made.back()->format();
    }
    table_ = std::make_unique<Table>(state, std::move(made));
  }
  [[nodiscard]] bool is_shared() const override { return false; }
  [[nodiscard]] bool waits() const override { return false; }
  Table& table() override { return *table_; }

  TableState state{};

 private:
  platform::Pages region_ = platform::reserve_pages(kShards * kShardBytes);
  std::unique_ptr<ShardState[]> states_ = std::make_unique<ShardState[]>(kShards);
  std::unique_ptr<Table> table_;
};

class TableClock : public ::testing::Test, public Clock {
 protected:
  /// The shards that somebody has locked, a bit each.
  std::uint64_t locked() {
    std::uint64_t found = 0;
    std::thread([&] {
      for (std::size_t i = 0; i < kShards; ++i) {
        ShardMutex& mutex = store.table().shards()[i]->mutex;
        if (mutex.try_lock()) {
          mutex.unlock();
        } else {
          found |= std::uint64_t{1} << i;
        }
      }
    }).join();
    return found;
  }
  std::uint64_t shard_of(std::string_view identifier) const {
    return std::uint64_t{1} << (store.state.hash(policy.digest(), identifier).low % kShards);
  }

  Instant now() override {
    locked_when_read.push_back(locked());
    now_ += step;
    return At(now_);
  }
  std::vector<Instant> decide(std::span<const Call> calls) {
    std::size_t pairs = 0;
    for (const Call& call : calls) pairs += pairs_of(call.charges);
    Columns columns(pairs);
    std::vector<Instant> times(calls.size());
    std::vector<Basis> bases(calls.size());
    store.decide(calls, columns.rows(), times, bases, {});
    receipts = columns.receipt;
    return times;
  }

  const CompiledPolicy policy{"p", {fixed_window(1000, kHour)}};
  FourShards store;
  std::vector<std::uint64_t> locked_when_read;
  std::vector<Receipt> receipts;
  Micros step = 1;

 private:
  Micros now_ = 100 * kHour;
};

TEST_F(TableClock, IsReadOnceByEachCallWhenAllItsShardsAreLocked) {
  const auto charges = charges_of(policy, {"a", "b", "c"}, 1);
  const std::uint64_t own = shard_of("a") | shard_of("b") | shard_of("c");
  const Call call{.charges = charges, .clock = this};
  EXPECT_EQ(decide({&call, 1}), instants({100 * kHour + 1}));
  const Call peek{.charges = charges, .mode = Mode::peek, .clock = this};
  EXPECT_EQ(decide({&peek, 1}), instants({100 * kHour + 2}));
  store.lock(call, For(kMinute), {});
  store.unlock(call, {});
  store.refund(call, receipts, {});
  EXPECT_EQ(locked_when_read, std::vector(5, own));
  EXPECT_EQ(locked(), 0U);
}

TEST_F(TableClock, IsReadOnceForAllCallsThatAreLockedTogether) {
  const auto charges = charges_of(policy, {"a"}, 1);
  const std::vector<Call> calls(300, Call{.charges = charges, .clock = this});
  const std::vector<Instant> times = decide(calls);
  EXPECT_EQ(locked_when_read, std::vector(3, shard_of("a")));
  EXPECT_TRUE(std::ranges::is_sorted(times));
  EXPECT_EQ(times.front(), 100 * kHour + 1);
  EXPECT_EQ(times.back(), 100 * kHour + 3);
}

// The last reading before the locks are taken is in one hour, and that under them in the next but one.
TEST_F(TableClock, IsFollowedByACalendarThatIsAskedWithoutLocks) {
  step = 2 * kHour;
  std::vector<Instant> asked;
  const auto calendar =
      std::make_shared<const Calendar>(Calendar{"hours", [&](Instant instant) {
                                                  EXPECT_EQ(locked(), 0U);
                                                  asked.push_back(instant);
                                                  step = asked.size() < 3 ? 2 * kHour : 0;
                                                  const Instant hour =
                                                      instant - instant.since_epoch() % For(kHour);
                                                  return Bounds{hour, hour + kHour, hour + 2 * kHour};
                                                }});
  const CompiledPolicy hourly("hourly", {calendar_window(10, calendar)});
  const auto charges = charges_of(hourly, {"a"}, 1);
  const Call call{.charges = charges, .clock = this};
  EXPECT_EQ(decide({&call, 1}), instants({106 * kHour}));
  EXPECT_EQ(asked, instants({102 * kHour, 104 * kHour, 106 * kHour}));
}

}  // namespace
}  // namespace overlimit::table
