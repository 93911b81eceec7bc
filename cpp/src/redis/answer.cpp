#include "redis/answer.hpp"

#include <algorithm>
#include <vector>

#include "overlimit/dated_call.hpp"
#include "overlimit/errors.hpp"
#include "overlimit/pair.hpp"
#include "overlimit/settlement.hpp"
#include "redis/script_call.hpp"
#include "redis/value.hpp"

namespace overlimit::redis {
namespace {

constexpr std::size_t kWord = sizeof(std::int64_t);

[[noreturn]] void not_ours() {
  throw ScriptError("the script answered what it never should: is the server changing replies?", true);
}

bool writes_every_charge(const Call& call) {
  return may_charge(call) &&
         std::ranges::all_of(call.charges, [](const Charge& charge) { return asked_by(charge) > 0; });
}

// Everything was charged: now, then per charge its key's birth and the states as charged.
Micros read_charged(const Call& call, std::string_view reply, const Rows& rows) {
  const std::size_t expected = kWord * (1 + call.charges.size()) + sizeof(Header) * pairs_of(call.charges);
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
  FoundAnswer(const Call& call, std::string_view head, std::span<const protocol::Reply> values)
      : call_(call), head_(head) {
    if (was_charged() && head_.size() != kWord * (2 + call.charges.size())) not_ours();
    for (const protocol::Reply& value : values) {
      values_.emplace_back(value.is_string() ? value.as_text() : std::string_view{});
    }
    examine_all();
  }

  [[nodiscard]] Micros now() const { return int64_at(head_, 0); }

  void show(const Rows& rows) const {
    const Settlement settlement = settle(call_, [&](std::size_t k) { return verdicts_[k]; });
    check(settlement);
    std::size_t row = 0;
    for (std::size_t k = 0; k < call_.charges.size(); ++k) {
      const std::optional<LockRecord> set = set_lock(k, settlement);
      for (const PlannedLimit& planned : call_.charges[k].plan->limits()) {
        if (charges(k, settlement)) {
          show_as_charged(planned, k, rows, row);
        } else {
          show_refused(planned.limit, pairs_[row], verdicts_[k], set ? set : locks_[k], now(), rows, row);
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

  // The script and the engine settle alike, or one of them is wrong.
  void check(const Settlement& settlement) const {
    bool expected = false;
    for (std::size_t k = 0; k < call_.charges.size(); ++k) {
      expected = expected || charges(k, settlement) || set_lock(k, settlement);
    }
    if (was_charged() != (expected && may_charge(call_))) not_ours();
  }

  [[nodiscard]] bool charges(std::size_t k, const Settlement& settlement) const {
    const Charge& charge = call_.charges[k];
    return asked_by(charge) > 0 && settlement.charges(charge.role, verdicts_[k]);
  }

  [[nodiscard]] std::optional<LockRecord> set_lock(std::size_t k, const Settlement& settlement) const {
    return sanction(settlement, call_.charges[k], verdicts_[k], locks_[k], now());
  }

  void show_as_charged(const PlannedLimit& planned, std::size_t k, const Rows& rows, std::size_t row) const {
    const Charge& charge = call_.charges[k];
    const Written written = charged(planned.limit, pairs_[row], asked_by(charge));
    show_charged(planned.limit, written.header, now(), birth(k), rows, row);
    if (charge.role != Role::on_refusal) return;
    const std::optional<Found> found = values_[k].find(planned.tag);
    rows.retry_after[row] =
        retry_after_charge(planned.limit, found ? &*found : nullptr, pairs_[row], written, asked_by(charge));
  }

  void examine_all() {
    for (std::size_t k = 0; k < call_.charges.size(); ++k) {
      locks_.push_back(lock_in(values_[k]));
      Status worst = locks_[k] && locks_[k]->holds(now()) ? Status::locked : Status::ok;
      for (const PlannedLimit& planned : call_.charges[k].plan->limits()) {
        const std::optional<Found> found = values_[k].find(planned.tag);
        pairs_.push_back(examine(planned.limit, found ? &*found : nullptr, now(), asked_by(call_.charges[k]),
                                 call_.patience));
        worst = std::max(worst, pairs_.back().verdict.status);
      }
      verdicts_.push_back(worst);
    }
  }

  [[nodiscard]] std::optional<LockRecord> lock_in(const Value& value) const {
    const std::optional<Found> found = value.lock();
    if (!found) return std::nullopt;
    return remembered(found->expires_at, found->header, now());
  }

  const Call& call_;
  std::string_view head_;
  std::vector<Value> values_;
  std::vector<Examined> pairs_;
  std::vector<std::optional<LockRecord>> locks_;  // per charge, as far as remembered
  std::vector<Status> verdicts_;                  // per charge
};

}  // namespace

std::optional<Micros> out_of_bounds(const protocol::Reply& reply) {
  if (!reply.is_string() || reply.as_text().size() != kWord) return std::nullopt;
  return int64_at(reply.as_text(), 0);
}

Micros read_answer(const Call& asked, const protocol::Reply& reply, const Rows& rows) {
  const bool is_charged = reply.is_string() && writes_every_charge(asked);
  if (!is_charged && (!reply.is_array() || reply.as_array().size() != asked.charges.size() + 1)) not_ours();
  const protocol::Reply& first = is_charged ? reply : reply.as_array()[0];
  if (!first.is_string() || first.as_text().size() < 2 * kWord) not_ours();
  const DatedCall dated(asked, int64_at(first.as_text(), 0));
  if (is_charged) return read_charged(*dated, first.as_text(), rows);
  const FoundAnswer answer(*dated, first.as_text(), reply.as_array().subspan(1));
  answer.show(rows);
  return answer.now();
}

}  // namespace overlimit::redis
