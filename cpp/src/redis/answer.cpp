#include "redis/answer.hpp"

#include <vector>

#include "overlimit/errors.hpp"
#include "overlimit/pair.hpp"
#include "redis/script_call.hpp"
#include "redis/value.hpp"

namespace overlimit::redis {
namespace {

constexpr std::size_t kWord = sizeof(std::int64_t);

[[noreturn]] void not_ours() {
  throw ScriptError("the script answered what it never should: is the server changing replies?", true);
}

// Everything was charged: now, then per charge its key's birth and the states as charged.
Micros read_charged(const Call& call, std::string_view reply, const Rows& rows) {
  const std::size_t expected =
      kWord * (1 + call.charges.size()) + sizeof(Header) * pairs_of(call.charges);
  if (reply.size() != expected) not_ours();
  const Micros now = int64_at(reply, 0);
  std::size_t at = kWord;
  std::size_t row = 0;
  for (const Charge& charge : call.charges) {
    const Micros birth = int64_at(reply, at);
    at += kWord;
    for (const PlannedLimit& planned : charge.plan->limits()) {
      const Header header{int64_at(reply, at), int64_at(reply, at + kWord), int64_at(reply, at + 2 * kWord)};
      show_charged(planned.limit, header, now, birth, rows, row++);
      at += sizeof(Header);
    }
  }
  return now;
}

// The values as found, and whether they were charged after that.
class FoundAnswer {
 public:
  FoundAnswer(const Call& call, std::span<const protocol::Reply> reply) : call_(call) {
    if (reply.size() != call.charges.size() + 1 || !reply[0].is_string()) not_ours();
    head_ = reply[0].as_text();
    if (head_.size() < 2 * kWord) not_ours();
    if (was_charged() && head_.size() != kWord * (2 + call.charges.size())) not_ours();
    for (const protocol::Reply& value : reply.subspan(1)) {
      values_.emplace_back(value.is_string() ? value.as_text() : std::string_view{});
    }
    examine_all();
  }

  [[nodiscard]] Micros now() const { return int64_at(head_, 0); }

  void show(const Rows& rows) const {
    if (was_charged() && !admitted_) not_ours();
    if (!was_charged() && admitted_ && may_charge(call_)) not_ours();
    std::size_t row = 0;
    for (std::size_t k = 0; k < call_.charges.size(); ++k) {
      const Charge& charge = call_.charges[k];
      for (const PlannedLimit& planned : charge.plan->limits()) {
        if (admitted_ && charge.cost > 0) {
          const Written written = charged(planned.limit, pairs_[row], charge.cost);
          show_charged(planned.limit, written.header, now(), birth(k), rows, row);
        } else {
          show_standing(planned.limit, pairs_[row], rows, row);
        }
        ++row;
      }
    }
  }

 private:
  [[nodiscard]] bool was_charged() const { return int64_at(head_, kWord) == 1; }
  [[nodiscard]] Micros birth(std::size_t k) const {
    return was_charged() ? int64_at(head_, kWord * (2 + k)) : 0;
  }

  void examine_all() {
    for (std::size_t k = 0; k < call_.charges.size(); ++k) {
      for (const PlannedLimit& planned : call_.charges[k].plan->limits()) {
        const std::optional<Found> found = values_[k].find(planned.tag);
        pairs_.push_back(examine(planned.limit, found ? &*found : nullptr, now(), call_.charges[k].cost));
        admitted_ = admitted_ && pairs_.back().verdict.status == Status::ok;
      }
    }
  }

  const Call& call_;
  std::string_view head_;
  std::vector<Value> values_;
  std::vector<Examined> pairs_;
  bool admitted_ = true;
};

}  // namespace

Micros read_answer(const Call& call, const protocol::Reply& reply, const Rows& rows) {
  if (reply.is_string()) return read_charged(call, reply.as_text(), rows);
  if (!reply.is_array()) not_ours();
  const FoundAnswer answer(call, reply.as_array());
  answer.show(rows);
  return answer.now();
}

}  // namespace overlimit::redis
