// Leases on a real server: what the scripts write is what the functions in C++ say, number by number.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "../../columns.hpp"
#include "../../examples.hpp"
#include "../../limits.hpp"
#include "../live_server.hpp"
#include "../packing.hpp"
#include "overlimit/pair.hpp"
#include "redis/wire/answer.hpp"
#include "redis/wire/keys.hpp"
#include "redis/wire/script_call.hpp"
#include "values/value.hpp"

namespace overlimit::redis {
namespace {

using protocol::Reply;
using testing::bucket_of;
using testing::Columns;
using testing::examples;
using testing::kMinute;
using testing::packed;

/// A record that owns its cells.
struct Kept {
  Instant expires_at{};
  Header header{};
  std::vector<Cell> cells;
  bool operator==(const Kept&) const = default;
};

std::vector<Cell> copied(const Cells& cells) {
  std::vector<Cell> copy;
  for (std::size_t i = 0; i < cells.size(); ++i) copy.push_back(cells[i]);
  return copy;
}

// Holds so many units more until then, in cells that begin with a note.
std::vector<Cell> with_hold(std::vector<Cell> cells, const Cell& note, Micros until, std::int64_t units) {
  if (cells.empty()) cells.push_back(note);
  auto place = cells.end();
  while (place > cells.begin() + 1 && (place - 1)->at >= until) --place;
  if (place != cells.end() && place->at == until) {
    place->count = sum(place->count, units);
  } else {
    cells.insert(place, {until, units});
  }
  if (cells.size() > 1 + kMostHolds) {
    cells[2].count = sum(cells[2].count, cells[1].count);
    cells.erase(cells.begin() + 1);
  }
  return cells;
}

struct Charged {
  const CompiledPolicy* policy;
  std::int64_t created_at;
  Header after;
  Cost cost;
};

class LeaseScript : public ::testing::Test {
 protected:
  std::size_t below(std::size_t bound) { return random() % bound; }

  [[nodiscard]] Reply run(const ScriptCall& call) {
    return live.admin().call(call.eval(), {transport::Deadline(transport::kAmple), {}});
  }
  [[nodiscard]] std::string bytes() {
    const Reply reply = transport::call(live.admin(), {"GET", kKey});
    return reply.is_string() ? std::string(reply.as_text()) : "";
  }

  [[nodiscard]] std::optional<Kept> kept(const CompiledPolicy& policy) {
    const Value value(bytes());
    const auto found = value.find(policy.limits()[0].tag);
    if (!found) return std::nullopt;
    return Kept{found->expires_at, found->header, copied(found->cells)};
  }

  // The policy's record as charged, by the functions in C++; nothing if it refuses.
  std::optional<Kept> charged(const CompiledPolicy& policy, const std::optional<Kept>& before, Cost needed,
                              Cost cost, Duration patience = kNever) const {
    const Limit& limit = policy.limits()[0].limit;
    std::optional<FoundRecord> found;
    if (before) {
      found = {before->expires_at, before->header, Cells(before->cells.data(), before->cells.size())};
    }
    const FoundRecord* const record = found ? &*found : nullptr;
    if (examine(limit, record, At(now), needed, patience).verdict.status != Status::ok) return std::nullopt;
    const ExaminedPair pair = examine(limit, record, At(now), cost);
    const ChargedPair written = overlimit::charge(limit, pair, cost);
    const std::vector<Cell> cells = cells_after_charge(limit, record, pair, written);
    return Kept{expiry_with(cells, limit, written), written.state, cells};
  }

  void hit(const CompiledPolicy& policy, Cost cost) {
    const auto before = kept(policy);
    const auto expected = charged(policy, before, cost, cost);
    const Charge charge{&policy, "a", cost};
    DatedCall call(Call{std::span(&charge, 1), Mode::consume, At(now)}, At(now));
    Columns columns(1);
    const ScriptReply reply(run(script_call(*call, keys_of(keys, *call), scripts)), 1);
    EXPECT_FALSE(reply.granted());
    read_answer(call, reply, columns.rows());
    ASSERT_EQ(columns.status[0] == Status::ok, expected.has_value());
    if (expected) expect_written(policy, *expected, columns, cost);
  }

  void lease(const CompiledPolicy& policy, Cost cost, Cost extra, Micros term) {
    const auto before = kept(policy);
    auto expected = charged(policy, before, cost, cost);
    if (!expected) extra = 0;
    const Cost wanted = extra;
    while (extra > 0 && !charged(policy, before, cost + 4 * extra, cost + extra, For(0))) extra /= 2;
    if (extra > 0) {
      const std::int64_t units = policy.limits()[0].limit.packed()[2];
      expected = charged(policy, before, cost + extra, cost + extra);
      const std::int64_t last = expected->header[1];
      const Micros half = (term + 1) / 2;
      const Micros until = (last + term + half - 1) / half * half;
      expected->cells = with_hold(expected->cells, {0, -units}, until, extra * units);
      const ChargedPair written{{expected->header, 0, {}}, expected->expires_at};
      expected->expires_at = expiry_with(expected->cells, policy.limits()[0].limit, written);
    }
    const Charge charge{&policy, "a", cost};
    DatedCall call(Call{std::span(&charge, 1), Mode::consume, At(now)}, At(now));
    Columns columns(1);
    const ScriptReply reply(run(lease_call(*call, keys_of(keys, *call), wanted, For(term), scripts)), 1);
    ASSERT_EQ(reply.granted().has_value(), expected.has_value());
    read_answer(call, reply, columns.rows());
    if (!expected) return;
    EXPECT_EQ(*reply.granted(), extra);
    expect_written(policy, *expected, columns, cost + extra);
    leased += extra > 0;
  }

  void expect_written(const CompiledPolicy& policy, const Kept& expected, const Columns& columns, Cost cost) {
    const auto after = kept(policy);
    ASSERT_TRUE(after);
    EXPECT_EQ(after->header, expected.header);
    EXPECT_EQ(after->cells, expected.cells);
    EXPECT_EQ(after->expires_at, expected.expires_at);
    EXPECT_EQ(columns.receipt[0].after, expected.header);
    if (expected.cells.size() > 1) {
      const Micros own = std::max<Micros>(now, expected.header[1]);
      EXPECT_EQ(columns.reset_after[0], expected.expires_at - At(own));
    }
    spent.push_back({&policy, columns.receipt[0].created_at.micros(), columns.receipt[0].after, cost});
  }

  void give_units_back() {
    if (spent.empty()) return;
    const Charged one = spent[below(spent.size())];
    const Cost cost = 1 + Cost(below(std::size_t(one.cost)));
    const Limit& limit = one.policy->limits()[0].limit;
    auto expected = kept(*one.policy);
    const bool same_key = Value(bytes()).created_at() == Instant(one.created_at);
    if (expected && same_key) {
      const FoundRecord found{expected->expires_at, expected->header,
                              Cells(expected->cells.data(), expected->cells.size())};
      if (const auto left = refund(limit, found, one.after, At(now), cost)) {
        if (left->note) expected->cells = {*left->note};
        expected->header = left->state;
      }
    }
    const Charge charge{one.policy, "a", cost};
    const Call call{std::span(&charge, 1), Mode::consume, At(now)};
    const Receipt receipt{Instant(one.created_at), one.after};
    (void)run(refund_call(call, keys_of(keys, call), std::span(&receipt, 1), false, scripts));
    EXPECT_EQ(kept(*one.policy), expected);
  }

  // Damages one number of the record's state or cells.
  void damage() {
    std::string value = bytes();
    constexpr std::size_t kState = 8 + 20;
    if (value.size() <= kState) return;
    const std::size_t words = (value.size() - kState) / 8;
    const std::size_t place = kState + 8 * below(words);
    std::int64_t number = values::int64_at(value, place);
    constexpr std::array<std::int64_t, 8> kHostile{INT64_MIN, INT64_MAX, -1, 0, 1, kExact - 1, kExact, 500};
    number = below(2) == 0 ? kHostile[below(kHostile.size())] : number ^ (std::int64_t{1} << below(63));
    value.replace(place, 8, reinterpret_cast<const char*>(&number), 8);
    (void)transport::call(live.admin(), {"SET", kKey, value, "KEEPTTL"});
  }

  void live_for(int steps, bool is_hostile) {
    const CompiledPolicy* const all[] = {&policies[0], &policies[1], &policies[2]};
    for (int step = 0; step < steps && !HasFailure(); ++step) {
      const CompiledPolicy& policy = *all[below(8) == 0 ? below(3) : 0];
      if (below(3) == 0) now += Micros(below(below(8) == 0 ? 9'000 : 400));
      if (below(40) == 0) now -= Micros(below(300));
      const std::size_t kind = below(10);
      if (kind < 4) {
        lease(policy, Cost(1 + below(3)), Cost(below(12)), Micros(1 + below(below(2) == 0 ? 3 : 2'000)));
      } else if (kind < 7) {
        hit(policy, Cost(1 + below(6)));
      } else if (kind < 9) {
        give_units_back();
      } else if (is_hostile && below(3) == 0) {
        damage();
      }
      if (spent.size() > 8) spent.erase(spent.begin());
      if (below(100) == 0) (void)transport::call(live.admin(), {"DEL", kKey});
      ASSERT_FALSE(HasFailure()) << "step " << step << " at " << now;
    }
  }

  static constexpr const char* kKey = "ol1:p:a";
  LiveServer live;
  const KeyNaming keys{"ol"};
  const Scripts scripts;
  const CompiledPolicy policies[3]{
      {"p", {bucket_of(60, 100, 3)}}, {"p", {bucket_of(40, 30, 1)}}, {"p", {bucket_of(90, 700, 20)}}};
  std::mt19937 random{20'260'001};
  std::vector<Charged> spent;
  Micros now = 5'000'000;
  int leased = 0;
};

TEST_F(LeaseScript, AreWrittenAsTheFunctionsSay) {
  live_for(examples(4'000), false);
  EXPECT_GT(leased, examples(4'000) / 20);
}

TEST_F(LeaseScript, AreWrittenAsTheFunctionsSayWhateverWasThere) { live_for(examples(4'000), true); }

// As do all scripts that are told which key their caller remembers.
TEST_F(LeaseScript, DoNothingOnAKeyThatIsNotTheOneRemembered) {
  hit(policies[0], 1);
  const std::int64_t created_at = Value(bytes()).created_at().micros();
  const Charge charge{&policies[0], "a", 1};
  const Call call{std::span(&charge, 1), Mode::consume, At(now)};
  const KeysOfCall names = keys_of(keys, call);
  const Receipt receipt{Instant(created_at), kept(policies[0])->header};
  for (ScriptCall asked :
       {script_call(call, names, scripts), lease_call(call, names, 5, For(kMinute), scripts),
        refund_call(call, names, std::span(&receipt, 1), false, scripts),
        lock_call(call, names, For(kMinute), scripts)}) {
    const std::string before = bytes();
    asked.incarnations = packed({created_at + 1});
    const ScriptReply of_another(run(asked), 1);
    EXPECT_TRUE(of_another.has(ReplyFlags::kOtherKeys));
    EXPECT_EQ(of_another.creations(), std::vector{created_at});
    EXPECT_EQ(bytes(), before);
    asked.incarnations = packed({created_at});
    const ScriptReply of_the_same(run(asked), 1);
    EXPECT_FALSE(of_the_same.has(ReplyFlags::kOtherKeys));
    EXPECT_NE(bytes(), before);
  }
}

}  // namespace
}  // namespace overlimit::redis
