// The table in memory, small enough to be full most of the time: no sequence of calls admits more than its
// limit, and none leaves a record that another call trips over.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <new>

#include "calls.hpp"
#include "limits.hpp"
#include "overlimit/memory_store.hpp"
#include "target.hpp"

namespace overlimit::fuzz {
namespace {

using testing::Answer;
using testing::ask;
using testing::kMinute;
using testing::kSecond;

constexpr Cost kPerMinute = 5;
constexpr Micros kStart = 1'700'000'000'000'000;

/// One log for each identifier: what was admitted in the last minute counts. Identifiers may share a record,
/// whose own time may be that of another one's call; so only what is in the same minute by any of these times
/// counts.
class Life {
 public:
  explicit Life(Bytes& bytes) : store_(1 + bytes.number_up_to(7), MemoryStore::kMinBytes) {}

  void step(Bytes& bytes) {
    const std::size_t what = bytes.number_up_to(9);
    const std::string identifier = "id:" + std::to_string(bytes.number_up_to(11));
    switch (what) {
      case 0:
        now_ += static_cast<Micros>(bytes.number_up_to(255)) * kSecond / 4;
        break;
      case 1:
        now_ -= static_cast<Micros>(bytes.number_up_to(255)) * 1'000;
        break;
      case 2:
        forget(identifier);
        break;
      case 3:
        refund_last();
        break;
      case 4:
        lock(identifier, For(static_cast<Micros>(bytes.number_up_to(255)) * kSecond));
        break;
      default:
        hit(identifier, static_cast<Cost>(bytes.number_up_to(6)));
    }
    latest_ = std::max(latest_, now_);
    furthest_back_ = std::max(furthest_back_, latest_ - now_);
    check(store_.size() <= store_.max_keys(), "no more keys than allowed are tracked");
  }

 private:
  void hit(const std::string& identifier, Cost cost) {
    const std::vector<Charge> charges{{&plan_, identifier, cost}};
    const Answer answer = ask(store_, {charges, Mode::consume, At(now_), false});
    check(answer.decision.remaining >= 0 && answer.decision.remaining <= kPerMinute, "what remains");
    (void)ask(store_, {testing::charges_of(other_, {identifier}, cost), Mode::consume, At(now_), false});
    if (!answer.allowed() || cost == 0) return;
    std::deque<Spent>& spent = spent_[identifier];
    while (!spent.empty() && latest_ - spent.front().at + furthest_back_ >= kMinute) spent.pop_front();
    spent.push_back({latest_, cost});
    Cost sum = 0;
    for (const Spent& each : spent) sum += each.cost;
    check(sum <= kPerMinute, "nobody is admitted more than the limit within a minute");
    last_ = identifier;
    receipt_ = answer.columns.receipt;
  }

  void lock(const std::string& identifier, Duration duration) {
    try {
      store_.lock({testing::charges_of(other_, {identifier}, 0), Mode::consume, At(now_), false}, duration,
                  {});
    } catch (const std::bad_alloc&) {
      check(store_.size() == store_.max_keys(), "only a store that is full has no room for a lock");
    }
  }

  void refund_last() {
    if (last_.empty()) return;
    std::deque<Spent>& spent = spent_[last_];
    const std::vector<Charge> charges{{&plan_, last_, spent.back().cost}};
    store_.refund({charges, Mode::consume, At(now_), false}, receipt_, {});
    // It may have given back nothing: the model gives back all, which is the more that may follow.
    spent.pop_back();
    last_.clear();
  }

  void forget(const std::string& identifier) {
    const std::string_view whom = identifier;
    store_.reset(plan_.identity(), {&whom, 1}, {});
    spent_.erase(identifier);
    if (last_ == identifier) last_.clear();
  }

  struct Spent {
    Micros at;
    Cost cost;
  };

  CompiledPolicy plan_{"p", {testing::sliding_log(kPerMinute, kMinute)}};
  CompiledPolicy other_{
      "q",
      {testing::sliding_window(9, kMinute), testing::fixed_window(4, kSecond), testing::token_bucket(6, 2)},
      testing::penalty({kSecond}, true, std::nullopt)};
  MemoryStore store_;
  Micros now_ = kStart;
  Micros latest_ = kStart;
  Micros furthest_back_ = 0;  // of the latest time, that the clock ever was
  std::map<std::string, std::deque<Spent>> spent_;
  std::string last_;  // whose admission was the last, and is to be refunded
  std::vector<Receipt> receipt_;
};

void live(std::string_view input) {
  Bytes bytes(input);
  Life life(bytes);
  for (int steps = 0; steps < 400 && !bytes.is_empty(); ++steps) life.step(bytes);
}

std::vector<std::string> lives() {
  std::string hits(1, '\1');
  for (char i = 0; i < 40; ++i) hits += {'\x9', static_cast<char>(i % 12), static_cast<char>(i % 3)};
  std::string all(1, '\3');
  for (char i = 0; i < 60; ++i) all += {static_cast<char>(i % 10), static_cast<char>(i % 5), '\1'};
  return {hits, all};
}

const Registration kMemoryTable("memory_table", {live, lives});

}  // namespace
}  // namespace overlimit::fuzz
