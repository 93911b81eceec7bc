// A replay answers every event as the memory store does, whatever the limits.
#include "overlimit/replay.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "../calls.hpp"
#include "../examples.hpp"
#include "../limits.hpp"
#include "../vectors/natural_periods.hpp"
#include "overlimit/memory_store.hpp"

namespace overlimit::testing {
namespace {

constexpr std::size_t kEvents = 400;
constexpr std::int32_t kIdentifiers = 3;
constexpr Micros kStart = 1'700'000'000 * kSecond;

std::vector<Limit> limits_of_every_kind() {
  return {fixed_window(3, 10 * kSecond),
          epoch_window(4, 10 * kSecond),
          calendar_window(9, natural_periods("minute", 0)),
          sliding_window(3, 10 * kSecond),
          sliding_window(7, kMinute, 20 * kSecond),
          sliding_log(5, 7 * kSecond),
          sliding_window_counter(6, 5 * kSecond),
          token_bucket(4, 1),
          bucket_of(3, 1'000'003, 2, 5),
          interval_bucket(3, 2, 5 * kSecond),
          interval_bucket(3, 2, 5 * kSecond, true, 4),
          leaky_bucket(1, kSecond, 4),
          paced_bucket(3, kSecond, 2, 2)};
}

/// The columns of random events, and of the answers to them.
struct Trace {
  explicit Trace(std::mt19937& random, std::size_t column_count) : codes(column_count) {
    for (auto& column : codes) column.resize(kEvents);
    Micros now = kStart;
    for (std::size_t event = 0; event < kEvents; ++event) {
      const std::array<Micros, 5> steps = {0, 1, Micros(random() % kSecond),
                                           Micros(random() % (10 * kSecond)), random() % 20 == 0 ? kHour : 0};
      times.push_back(At(now += steps[random() % steps.size()]));
      costs.push_back(std::array{1, 1, 1, 0, 2, 9}[random() % 6]);
      for (auto& column : codes) column[event] = std::int32_t(random() % (kIdentifiers + 1)) - 1;
      codes[0][event] = std::max(codes[0][event], 0);
    }
  }

  [[nodiscard]] ReplayedEvents events() const {
    ReplayedEvents events{times, {}, costs.data()};
    for (const auto& column : codes) events.columns.push_back(column.data());
    return events;
  }

  std::vector<Instant> times;
  std::vector<Cost> costs;
  std::vector<std::vector<std::int32_t>> codes;
};

struct AnswerColumns {
  ReplayedAnswers pointers() {
    return {nullptr,          allowed.data(),     status.data(),
            remaining.data(), retry_after.data(), reset_after.data(),
            delay.data(),     limit.data(),       identifier.data()};
  }

  std::vector<std::uint8_t> allowed = std::vector<std::uint8_t>(kEvents);
  std::vector<std::uint8_t> status = std::vector<std::uint8_t>(kEvents);
  std::vector<std::int64_t> remaining = std::vector<std::int64_t>(kEvents);
  std::vector<double> retry_after = std::vector<double>(kEvents);
  std::vector<double> reset_after = std::vector<double>(kEvents);
  std::vector<double> delay = std::vector<double>(kEvents);
  std::vector<std::int16_t> limit = std::vector<std::int16_t>(kEvents);
  std::vector<std::int16_t> identifier = std::vector<std::int16_t>(kEvents);
};

double in_seconds(Micros duration) { return duration == kNever ? HUGE_VAL : double(duration) / 1e6; }

void expect_as_in_memory(const CompiledPolicy& policy, const Trace& trace, const AnswerColumns& answers) {
  MemoryStore store;
  for (std::size_t event = 0; event < kEvents; ++event) {
    std::vector<std::string> names;
    std::vector<std::int16_t> columns;
    for (std::size_t column = 0; column < trace.codes.size(); ++column) {
      if (trace.codes[column][event] < 0) continue;
      names.push_back(std::to_string(column) + ':' + std::to_string(trace.codes[column][event]));
      columns.push_back(std::int16_t(column));
    }
    std::vector<Charge> charges;
    for (const std::string& name : names) charges.push_back({&policy, name, trace.costs[event]});
    const Decision expected = ask(store, call_of(charges, trace.times[event])).decision;
    ASSERT_EQ(answers.status[event], std::uint8_t(expected.status)) << event;
    ASSERT_EQ(answers.allowed[event], expected.status == Status::ok);
    ASSERT_EQ(answers.remaining[event], expected.remaining) << event;
    ASSERT_EQ(answers.retry_after[event], in_seconds(expected.retry_after.micros())) << event;
    ASSERT_EQ(answers.reset_after[event], in_seconds(expected.reset_after.micros())) << event;
    ASSERT_EQ(answers.delay[event], in_seconds(expected.delay.micros())) << event;
    ASSERT_EQ(answers.limit[event],
              std::int16_t(policy.limits()[expected.binding_row % policy.size()].place));
    ASSERT_EQ(answers.identifier[event], columns[expected.binding_row / policy.size()]) << event;
  }
}

TEST(Replay, AnswersAsTheMemoryStore) {
  const std::vector<std::optional<Penalty>> penalties = {std::nullopt, penalty({kMinute}),
                                                         penalty({kSecond, 5 * kSecond}, true),
                                                         penalty({kSecond}, false, kHour)};
  std::mt19937 random(7);
  for (int round = 0; round < examples(200); ++round) {
    std::vector<Limit> limits = limits_of_every_kind();
    std::ranges::shuffle(limits, random);
    limits.resize(1 + random() % 4, limits[0]);
    const CompiledPolicy policy("p", limits, penalties[random() % penalties.size()]);
    const Trace trace(random, 1 + random() % 3);
    AnswerColumns answers;
    Replay replay(policy, std::vector<std::int32_t>(trace.codes.size(), kIdentifiers));
    const std::size_t half = random() % kEvents;
    replay.run(trace.events(), 0, half, answers.pointers());
    replay.run(trace.events(), half, kEvents, answers.pointers());
    ASSERT_NO_FATAL_FAILURE(expect_as_in_memory(policy, trace, answers)) << "round " << round;
  }
}

TEST(Replay, AnswersTheSameWhereOnlyTheStatusIsWanted) {
  std::mt19937 random(8);
  for (const Limit& limit : limits_of_every_kind()) {
    const CompiledPolicy policy("p", {limit}, penalty({kSecond, kMinute}));
    const Trace trace(random, 2);
    AnswerColumns all;
    AnswerColumns some;
    const std::vector<std::int32_t> distinct(2, kIdentifiers);
    Replay(policy, distinct).run(trace.events(), 0, kEvents, all.pointers());
    ReplayedAnswers pointers;
    pointers.status = some.status.data();
    Replay(policy, distinct).run(trace.events(), 0, kEvents, pointers);
    EXPECT_EQ(some.status, all.status);
  }
}

std::vector<Limit> limits_like(const Limit& limit, std::size_t count, std::mt19937& random) {
  std::vector<Limit> limits = limits_of_every_kind();
  std::erase_if(limits, [&](const Limit& other) { return other.algorithm_name() != limit.algorithm_name(); });
  std::ranges::shuffle(limits, random);
  limits.resize(count, limit);
  return limits;
}

// Of one algorithm, or of any; the first half for their statuses alone, and the second for all columns, so
// that what the first has written is read.
TEST(Replay, AnswersTheSameOnOneColumnWhereOnlyTheStatusIsWanted) {
  std::mt19937 random(9);
  for (int round = 0; round < examples(20); ++round) {
    for (const Limit& limit : limits_of_every_kind()) {
      std::vector<Limit> limits = limits_like(limit, 1 + random() % 5, random);
      if (random() % 8 == 0) limits.push_back(limits_of_every_kind()[random() % 12]);
      const CompiledPolicy policy("p", limits);
      const Trace trace(random, 1);
      ReplayedEvents events = trace.events();
      if (random() % 4 == 0) events.costs = nullptr;
      AnswerColumns all;
      AnswerColumns some;
      Replay(policy, std::array{kIdentifiers}).run(events, 0, kEvents, all.pointers());
      ReplayedAnswers statuses;
      statuses.status = some.status.data();
      statuses.allowed = some.allowed.data();
      Replay replay(policy, std::array{kIdentifiers});
      replay.run(events, 0, kEvents / 2, statuses);
      replay.run(events, kEvents / 2, kEvents, some.pointers());
      ASSERT_EQ(some.status, all.status) << limit.algorithm_name() << " in round " << round;
      ASSERT_EQ(some.allowed, all.allowed);
      const auto second_half = [](const auto& column) { return std::span(column).subspan(kEvents / 2); };
      ASSERT_TRUE(std::ranges::equal(second_half(some.remaining), second_half(all.remaining)));
      ASSERT_TRUE(std::ranges::equal(second_half(some.reset_after), second_half(all.reset_after)));
    }
  }
}

TEST(Replay, KeepsAsManyEntriesAsALogCanHave) {
  constexpr std::int64_t kMost = 10'000;
  const CompiledPolicy policy("p", {sliding_log(kMost, kHour)});
  std::vector<Instant> times;
  for (std::int64_t i = 0; i <= kMost; ++i) times.push_back(At(kStart + i));
  times.push_back(At(kStart + kHour));
  times.push_back(At(kStart + kHour));
  const std::vector<std::int32_t> codes(times.size(), 0);
  std::vector<std::uint8_t> allowed(times.size());
  ReplayedAnswers answers;
  answers.allowed = allowed.data();
  Replay(policy, std::array{1}).run({times, {codes.data()}}, 0, times.size(), answers);
  std::vector<std::uint8_t> expected(times.size(), 1);
  expected[kMost] = expected.back() = 0;
  EXPECT_EQ(allowed, expected);
}

TEST(Replay, WritesEachAnswerWhereItsEventWasGiven) {
  const CompiledPolicy policy("p", {fixed_window(1, kSecond)});
  const std::vector<Instant> times = instants({0, 1, 2});
  const std::vector<std::int32_t> codes = {0, 0, 1};
  const std::vector<std::int64_t> places = {2, 0, 1};
  std::vector<std::uint8_t> allowed(3);
  ReplayedAnswers answers;
  answers.places = places.data();
  answers.allowed = allowed.data();
  Replay(policy, std::array{2}).run({times, {codes.data()}}, 0, 3, answers);
  EXPECT_EQ(allowed, (std::vector<std::uint8_t>{0, 1, 1}));
}

TEST(Replay, TalliesWhatEachLimitRefuses) {
  const CompiledPolicy policy("p", {fixed_window(2, kSecond), fixed_window(3, kHour)},
                              penalty({2 * kSecond}));
  const std::vector<Instant> times = instants({0, 0, 0, kSecond, 2 * kSecond, 3 * kSecond});
  const std::vector<std::int32_t> codes(times.size(), 0);
  Replay replay(policy, std::array{1});
  replay.start_tallies();
  replay.run({times, {codes.data()}}, 0, times.size(), {});
  const std::vector<LimitTally> tallies = replay.tallies();
  ASSERT_EQ(tallies.size(), 3);
  EXPECT_EQ(tallies[0].refused, 1) << "the third of the first second";
  EXPECT_EQ(tallies[0].refused_alone, 1);
  EXPECT_EQ(tallies[0].longest_retry_after, kSecond);
  EXPECT_EQ(tallies[1].refused, 1) << "that at three seconds, as the lock was over at two";
  EXPECT_EQ(tallies[1].least_left, 0);
  EXPECT_EQ(tallies[1].most, 3);
  EXPECT_EQ(tallies[2].refused, 1) << "that at one second, by the lock";
  EXPECT_EQ(tallies[2].longest_retry_after, kSecond);
}

}  // namespace
}  // namespace overlimit::testing
