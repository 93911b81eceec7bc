// A call reads its clock when it holds the locks of all its shards, so that what waits for another call is
// decided at an instant that is not before it.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "../calls.hpp"
#include "../limits.hpp"
#include "memory/region.hpp"
#include "table/table.hpp"

namespace overlimit::table {
namespace {

using testing::calendar_window;
using testing::charges_of;
using testing::Columns;
using testing::fixed_window;
using testing::instants;
using testing::kHour;
using testing::kMinute;

constexpr std::size_t kShards = 4;
constexpr std::size_t kShardBytes = std::size_t{1} << 20;

class TableClock : public ::testing::Test, public Clock {
 protected:
  TableClock() {
    state.totals.max_keys = 1000;
    std::vector<std::unique_ptr<Shard>> made;
    for (unsigned i = 0; i < kShards; ++i) {
      made.push_back(std::make_unique<Shard>(
          Shard::Place{.state = states[i],
                       .totals = state.totals,
                       .memory = std::span(region.data() + i * kShardBytes, kShardBytes),
                       .most_buckets = 1024,
                       .ordinal = i}));
      made.back()->format();
    }
    table = std::make_unique<Table>(state, std::move(made));
  }

  /// The shards that somebody has locked, a bit each.
  std::uint64_t locked() const {
    std::uint64_t found = 0;
    std::thread([&] {
      for (std::size_t i = 0; i < kShards; ++i) {
        ShardMutex& mutex = table->shards()[i]->mutex;
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
    return std::uint64_t{1} << (state.hash(policy.digest(), identifier).low % kShards);
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
    table->decide(calls, columns.rows(), times, bases, wait);
    receipts = columns.receipt;
    return times;
  }

  const CompiledPolicy policy{"p", {fixed_window(1000, kHour)}};
  memory::Region region{kShards * kShardBytes};
  TableState state{};
  std::unique_ptr<ShardState[]> states = std::make_unique<ShardState[]>(kShards);
  std::unique_ptr<Table> table;
  const Interrupted never;
  MutexWait wait{kNever, never};
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
  table->lock(call, For(kMinute), wait);
  table->unlock(call, wait);
  table->refund(call, receipts, nullptr, wait);
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
