#include "redis/answer.hpp"

#include <cstring>

#include "overlimit/pair.hpp"
#include "redis/script_call.hpp"
#include "redis/value.hpp"

namespace overlimit::redis {
namespace {

constexpr std::size_t kWord = sizeof(std::int64_t);
// Every answer begins with its kind and now.
constexpr std::size_t kKindAndNow = 1 + kWord;
// What a charged record has before its state: its tag, its size and when it expires.
constexpr std::size_t kRecordHead = kWord + sizeof(std::uint32_t) + kWord;
constexpr char kCharged = 'C';
constexpr char kLeased = 'L';
constexpr char kOutOfBounds = 'O';
constexpr char kFound = 'F';
constexpr char kFoundAndWritten = 'W';

[[noreturn]] void not_ours() {
  throw ScriptError(
      "the reply is not one that the script can give; check what stands between this process and the server",
      true);
}

bool writes_every_charge(const Call& call) {
  return may_charge(call) && std::ranges::all_of(call.charges, [](const Charge& charge) {
           return cost_of(charge) > 0 && charge.role != Role::always;
         });
}

Instant now_of(std::string_view answer) { return Instant(int64_at(answer, 1)); }

// A number that Lua can have packed.
std::int64_t exact_at(std::string_view bytes, std::size_t place) {
  const std::int64_t number = int64_at(bytes, place);
  if (number < 0 || number >= kExact) not_ours();
  return number;
}

// How many cells a charged record has, from its size.
std::size_t cells_of_record(std::string_view answer, std::size_t place) {
  std::uint32_t size = 0;
  std::memcpy(&size, answer.data() + place, sizeof size);
  return size < sizeof(Header) ? 0 : (size - sizeof(Header)) / sizeof(Cell);
}

// Reads a reply that says that everything was charged: from `at` on, per charge when its key was created, and
// its limits' records without their cells. A damaged value may have any time of creation, which is passed on
// unchanged.
void read_charged(const Call& call, std::string_view answer, std::size_t at, const Rows& rows) {
  const std::size_t records = (kRecordHead + sizeof(Header)) * pairs_of(call.charges);
  if (answer.size() != at + kWord * call.charges.size() + records) not_ours();
  std::size_t row = 0;
  for (const Charge& charge : call.charges) {
    const Instant created_at(int64_at(answer, at));
    at += kWord;
    for (const CompiledLimit& each : charge.policy->limits()) {
      if (static_cast<Tag>(int64_at(answer, at)) != each.tag) not_ours();
      const std::size_t cells = cells_of_record(answer, at + kWord);
      const std::size_t expiry = at + kRecordHead - kWord;
      at += kRecordHead;
      const Header header{exact_at(answer, at), exact_at(answer, at + kWord),
                          exact_at(answer, at + 2 * kWord)};
      fill_charged(each.limit, header, now_of(answer), created_at, rows, row);
      if (cells > 1) {
        const Instant expires_at(exact_at(answer, expiry));
        show_holds(each.limit, cells, expires_at, header, now_of(answer), rows, row);
      }
      // Nothing is charged on a record that has expired, or at a time that no clock can read.
      if (rows.reset_after[row] < Duration{} || rows.delay[row] < Duration{}) not_ours();
      ++row;
      at += sizeof(Header);
    }
  }
}

// Reads an answer of what was found from front to back. One that ends early was not written by a script.
class Parts {
 public:
  explicit Parts(std::string_view rest) : rest_(rest) {}

  std::string_view next(std::size_t size) {
    if (size > rest_.size()) not_ours();
    const std::string_view part = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return part;
  }
  std::string_view next_sized() {
    std::uint32_t size = 0;
    std::memcpy(&size, next(sizeof size).data(), sizeof size);
    return next(size);
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// The values as found, and whether they were charged after that.
class FoundAnswer {
 public:
  FoundAnswer(const Call& call, std::string_view answer)
      : call_(call), now_(now_of(answer)), was_charged_(answer[0] == kFoundAndWritten) {
    Parts parts(answer.substr(kKindAndNow));
    const std::size_t charges = call.charges.size();
    creations_ = parts.next(was_charged_ ? kWord * charges : 0);
    for (std::size_t k = 0; k + 1 < charges; ++k) values_.emplace_back(parts.next_sized());
    values_.emplace_back(parts.rest());
    examine_all();
  }

  void show(const Rows& rows) const {
    const Settlement settlement = settle(call_, [&](std::size_t k) { return verdicts_[k]; });
    check(settlement);
    std::size_t row = 0;
    for (std::size_t k = 0; k < call_.charges.size(); ++k) {
      const std::optional<Lock> set = set_lock(k, settlement);
      for (const CompiledLimit& each : call_.charges[k].policy->limits()) {
        if (charges(k, settlement)) {
          fill_as_charged(each, k, rows, row);
        } else {
          fill_refused(each.limit, pairs_[row], verdicts_[k], set ? set : locks_[k], now_, rows, row);
        }
        ++row;
      }
    }
  }

 private:
  [[nodiscard]] Instant created_at(std::size_t k) const {
    return was_charged_ ? Instant(int64_at(creations_, kWord * k)) : Instant{};
  }

  // The script and the engine have reached the same settlement, or one of them is wrong.
  void check(const Settlement& settlement) const {
    bool expected = false;
    for (std::size_t k = 0; k < call_.charges.size(); ++k) {
      expected = expected || charges(k, settlement) || set_lock(k, settlement);
    }
    if (was_charged_ != (expected && may_charge(call_))) not_ours();
  }

  [[nodiscard]] bool charges(std::size_t k, const Settlement& settlement) const {
    const Charge& charge = call_.charges[k];
    return cost_of(charge) > 0 && settlement.charges(charge.role, verdicts_[k]);
  }

  [[nodiscard]] std::optional<Lock> set_lock(std::size_t k, const Settlement& settlement) const {
    return lock_after_refusal(settlement, call_.charges[k], verdicts_[k], locks_[k], now_);
  }

  void fill_as_charged(const CompiledLimit& each, std::size_t k, const Rows& rows, std::size_t row) const {
    const Charge& charge = call_.charges[k];
    const std::optional<FoundRecord> found = values_[k].find(each.tag);
    const ChargedPair written = overlimit::charge(each.limit, pairs_[row], cost_of(charge));
    const std::vector<Cell> cells =
        cells_after_charge(each.limit, found ? &*found : nullptr, pairs_[row], written);
    fill_charged(each.limit, written.state, now_, created_at(k), rows, row);
    show_holds(each.limit, cells.size(), expiry_with(cells, each.limit, written), written.state, now_, rows,
               row);
    if (!charges_unadmitted(charge.role)) return;
    fill_unadmitted(call_, charge, each.limit, found ? &*found : nullptr, pairs_[row], written,
                    cost_of(charge), locks_[k], now_, rows, row);
  }

  void examine_all() {
    for (std::size_t k = 0; k < call_.charges.size(); ++k) {
      locks_.push_back(lock_in(values_[k]));
      Status worst = locks_[k] && locks_[k]->holds(now_) ? Status::locked : Status::ok;
      for (const CompiledLimit& each : call_.charges[k].policy->limits()) {
        const std::optional<FoundRecord> found = values_[k].find(each.tag);
        pairs_.push_back(
            examine(each.limit, found ? &*found : nullptr, now_, cost_of(call_.charges[k]), call_.patience));
        worst = std::max(worst, pairs_.back().verdict.status);
      }
      verdicts_.push_back(worst);
    }
  }

  [[nodiscard]] std::optional<Lock> lock_in(const Value& value) const {
    const std::optional<FoundRecord> found = value.lock();
    if (!found) return std::nullopt;
    return remembered_lock(found->expires_at, found->header, now_);
  }

  const Call& call_;
  Instant now_;
  bool was_charged_;
  std::string_view creations_;
  std::vector<Value> values_;
  std::vector<ExaminedPair> pairs_;
  std::vector<std::optional<Lock>> locks_;  // per charge, as far as remembered
  std::vector<Status> verdicts_;            // per charge
};

}  // namespace

std::optional<Instant> out_of_bounds(const protocol::Reply& reply) {
  if (!reply.is_string() || reply.as_text().size() != kKindAndNow || reply.as_text()[0] != kOutOfBounds) {
    return std::nullopt;
  }
  return now_of(reply.as_text());
}

std::optional<Cost> granted_extra(const protocol::Reply& reply) {
  if (!reply.is_string() || reply.as_text().size() < kKindAndNow + kWord) return std::nullopt;
  if (reply.as_text()[0] != kLeased) return std::nullopt;
  return exact_at(reply.as_text(), kKindAndNow);
}

Instant read_answer(DatedCall& call, const protocol::Reply& reply, const Rows& rows) {
  if (!reply.is_string() || reply.as_text().size() < kKindAndNow) not_ours();
  const std::string_view answer = reply.as_text();
  if (now_of(answer) < Instant{} || now_of(answer) >= kMaxTime) not_ours();
  call.move_to(now_of(answer));
  if (answer[0] == kCharged && writes_every_charge(*call)) {
    read_charged(*call, answer, kKindAndNow, rows);
  } else if (answer[0] == kLeased && writes_every_charge(*call) && granted_extra(reply)) {
    read_charged(*call, answer, kKindAndNow + kWord, rows);
  } else if (answer[0] == kFound || answer[0] == kFoundAndWritten) {
    FoundAnswer(*call, answer).show(rows);
  } else {
    not_ours();
  }
  return now_of(answer);
}

}  // namespace overlimit::redis
