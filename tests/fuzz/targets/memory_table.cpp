// The table in memory, small enough to be full most of the time: no sequence of calls admits more than its
// limit, and none leaves a record that another call trips over.
#include <array>
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

constexpr Cost kWindow = 5;
constexpr Micros kStart = 1'700'000'000'000'000;

/// One window for all: its count is what was admitted since it began.
class Life {
 public:
  explicit Life(Bytes& bytes) : store_(1 + bytes.number_up_to(7), MemoryStore::kMinBytes) {
    store_.prepare(plan_);
    store_.prepare(other_);
  }

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
        lock(identifier, static_cast<Micros>(bytes.number_up_to(255)) * kSecond);
        break;
      default:
        hit(identifier, static_cast<Cost>(bytes.number_up_to(6)));
    }
    check(store_.size() <= store_.max_keys(), "no more keys than allowed are tracked");
  }

 private:
  void hit(const std::string& identifier, Cost cost) {
    const std::vector<Charge> charges{{&plan_, identifier, cost}};
    const Answer answer = ask(store_, {charges, Mode::consume, now_, false});
    check(answer.decision.remaining >= 0 && answer.decision.remaining <= kWindow, "what remains");
    (void)ask(store_, {testing::charges_of(other_, {identifier}, cost), Mode::consume, now_, false});
    if (!answer.allowed() || cost == 0) return;
    Spent& spent = spent_[identifier];
    if (now_ >= spent.until) spent = {now_ + kMinute, 0};
    spent.count += cost;
    check(spent.count <= kWindow, "nobody is admitted more than the limit in one window");
    last_ = identifier;
    last_cost_ = cost;
    receipt_ = answer.columns.receipt;
  }

  void lock(const std::string& identifier, Micros duration) {
    try {
      store_.lock({testing::charges_of(other_, {identifier}, 0), Mode::consume, now_, false}, duration, {});
    } catch (const std::bad_alloc&) {
      check(store_.size() == store_.max_keys(), "only a store that is full has no room for a lock");
    }
  }

  void refund_last() {
    if (last_.empty()) return;
    const std::vector<Charge> charges{{&plan_, last_, last_cost_}};
    store_.refund({charges, Mode::consume, now_, false}, receipt_, {});
    // It may have given back nothing: the model gives back all, which is the more that may follow.
    spent_[last_].count = std::max<Cost>(0, spent_[last_].count - last_cost_);
    last_.clear();
  }

  void forget(const std::string& identifier) {
    const std::string_view whom = identifier;
    store_.reset(plan_, {&whom, 1}, {});
    spent_.erase(identifier);
    if (last_ == identifier) last_.clear();
  }

  struct Spent {
    Micros until = 0;
    Cost count = 0;
  };

  Plan plan_{"p", {testing::fixed_window(kWindow, kMinute)}};
  Plan other_{
      "q",
      {testing::sliding_window(9, kMinute), testing::sliding_log(4, kSecond), testing::token_bucket(6, 2)},
      Penalty{{kSecond}, true, std::nullopt}};
  MemoryStore store_;
  Micros now_ = kStart;
  std::map<std::string, Spent> spent_;
  std::string last_;
  Cost last_cost_ = 0;
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
