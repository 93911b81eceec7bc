#include "overlimit/replay.hpp"

#include <cstdlib>
#include <new>
#include <numeric>

#include "overlimit/decision.hpp"
#include "overlimit/pair.hpp"

namespace overlimit {
// With a name, as these are the types of members of a class of the header, in whatever file they are
// compiled.
inline namespace simulation {

/// The cells of one record, oldest first, in a ring of a capacity that is a power of two.
class CellRing {
 public:
  [[nodiscard]] Cells view() const {
    if (length_ == 0) return {};
    const std::uint32_t until_end = std::min(length_, capacity_ - head_);
    return {cells_.get() + head_, until_end, cells_.get(), length_ - until_end};
  }
  /// Fetches from main memory the oldest cell, and the place of the next.
  void prefetch() const {
    if (capacity_ == 0) return;
    __builtin_prefetch(cells_.get() + head_);
    __builtin_prefetch(cells_.get() + ((head_ + length_) & (capacity_ - 1)));
  }
  void drop_oldest(std::size_t count) {
    const auto dropped = static_cast<std::uint32_t>(std::min<std::size_t>(count, length_));
    head_ = capacity_ == 0 ? 0 : (head_ + dropped) & (capacity_ - 1);
    length_ -= dropped;
  }
  void push(const Cell& cell) {
    if (length_ == capacity_) grow();
    cells_[(head_ + length_++) & (capacity_ - 1)] = cell;
  }

 private:
  void grow() {
    const std::uint32_t capacity = capacity_ == 0 ? 4 : capacity_ * 2;
    auto cells = std::make_unique_for_overwrite<Cell[]>(capacity);
    const Cells before = view();
    for (std::uint32_t i = 0; i < length_; ++i) cells[i] = before[i];
    cells_ = std::move(cells);
    capacity_ = capacity;
    head_ = 0;
  }

  std::unique_ptr<Cell[]> cells_;
  std::uint32_t capacity_ = 0;
  std::uint32_t head_ = 0;
  std::uint32_t length_ = 0;
};

/// One record: that of a limit, or of a lock. Expired at 0: nothing was charged yet.
struct DenseRecord {
  Header header;
  Instant expires_at;
};

/// The records of all identifiers are found by their numbers: in an array, with rings of cells beside it for
/// limits that keep a history. It grows only by cells.
class DenseRecords {
 public:
  DenseRecords(const CompiledPolicy& policy, std::size_t identifiers)
      : per_identifier_(policy.tags().size()),
        limits_(policy.size()),
        // Zeroed pages become real as they are touched.
        records_(static_cast<DenseRecord*>(
            std::calloc(std::max<std::size_t>(1, identifiers * per_identifier_), sizeof(DenseRecord)))) {
    if (records_ == nullptr) throw std::bad_alloc();
    if (policy.max_cells() > 0) rings_.resize(identifiers * limits_);
  }

  [[nodiscard]] DenseRecord* of(std::size_t identifier) const {
    return records_.get() + identifier * per_identifier_;
  }
  /// Fetches the records of an identifier from main memory, first by place, and later what they point to.
  void prefetch(std::size_t identifier) const {
    prefetch_all(of(identifier), per_identifier_ * sizeof(DenseRecord));
    if (!rings_.empty()) prefetch_all(&rings_[identifier * limits_], limits_ * sizeof(CellRing));
  }
  void prefetch_cells(std::size_t identifier) const {
    if (rings_.empty()) return;
    for (std::size_t i = 0; i < limits_; ++i) rings_[identifier * limits_ + i].prefetch();
  }
  [[nodiscard]] FoundRecord find(std::size_t identifier, std::size_t limit) const {
    const DenseRecord& record = of(identifier)[limit];
    return {record.expires_at, record.header,
            rings_.empty() ? Cells{} : rings_[identifier * limits_ + limit].view()};
  }
  void write(std::size_t identifier, std::size_t limit, const ChargedPair& written) {
    of(identifier)[limit] = {written.state, written.expires_at};
    if (rings_.empty()) return;
    CellRing& ring = rings_[identifier * limits_ + limit];
    ring.drop_oldest(written.dropped);
    if (written.pushed) ring.push(*written.pushed);
  }

 private:
  static void prefetch_all(const void* place, std::size_t bytes) {
    constexpr std::size_t kLine = 64;
    const char* const begin = static_cast<const char*>(place);
    for (std::size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(begin + i);
    __builtin_prefetch(begin + bytes - 1);
  }
  struct Free {
    void operator()(DenseRecord* records) const { std::free(records); }
  };

  std::size_t per_identifier_;
  std::size_t limits_;
  std::unique_ptr<DenseRecord[], Free> records_;
  std::vector<CellRing> rings_;
};

/// One identifier of an event.
struct Target {
  std::size_t identifier;
  std::size_t column;
  Status verdict;
  std::optional<Lock> lock;  ///< before the event
  bool violates = false;     ///< the event sets a lock
};

// How many events ahead the records are fetched from main memory.
constexpr std::size_t kAhead = 8;

std::size_t row_of(const ReplayedAnswers& answers, std::size_t event) {
  return answers.places == nullptr ? event : static_cast<std::size_t>(answers.places[event]);
}

bool wants_more_than_status(const ReplayedAnswers& answers) {
  const std::array<const void*, 6> columns = {answers.remaining, answers.retry_after, answers.reset_after,
                                              answers.delay,     answers.limit,       answers.identifier};
  return std::ranges::any_of(columns, [](const void* column) { return column != nullptr; });
}

void answer_status(const ReplayedAnswers& answers, std::size_t event, Status status) {
  const std::size_t row = row_of(answers, event);
  if (answers.allowed != nullptr) answers.allowed[row] = status == Status::ok;
  if (answers.status != nullptr) answers.status[row] = static_cast<std::uint8_t>(status);
}

void answer(const ReplayedAnswers& answers, std::size_t event, const Decision& decision, std::size_t limit,
            std::size_t column) {
  answer_status(answers, event, decision.status);
  const std::size_t row = row_of(answers, event);
  if (answers.remaining != nullptr) answers.remaining[row] = decision.remaining;
  if (answers.retry_after != nullptr) answers.retry_after[row] = decision.retry_after.seconds();
  if (answers.reset_after != nullptr) answers.reset_after[row] = decision.reset_after.seconds();
  if (answers.delay != nullptr) answers.delay[row] = decision.delay.seconds();
  if (answers.limit != nullptr) answers.limit[row] = static_cast<std::int16_t>(limit);
  if (answers.identifier != nullptr) answers.identifier[row] = static_cast<std::int16_t>(column);
}

/// Each of these must be at least `least` and below `bound`.
template <class Number>
void check_range(std::span<const Number> rows, Number least, Number bound, const std::string& name) {
  const auto fits = [&](Number value) { return least <= value && value < bound; };
  if (std::ranges::all_of(rows, fits)) return;
  throw std::invalid_argument(name + " must be from " + std::to_string(number_of(least)) + " to below " +
                              std::to_string(number_of(bound)));
}

void check_identifiers(const ReplayedEvents& events, std::size_t first, std::size_t last) {
  for (std::size_t event = first; event < last; ++event) {
    const auto is_missing = [&](const std::int32_t* codes) { return codes[event] < 0; };
    if (std::ranges::all_of(events.columns, is_missing)) {
      throw std::invalid_argument("each event must have an identifier");
    }
  }
}

}  // namespace simulation

void check(const ReplayedEvents& events, std::size_t first, std::size_t last, const ReplayedAnswers& answers,
           std::span<const std::int32_t> distinct) {
  if (first > last || last > events.times.size()) throw std::invalid_argument("there are no such events");
  if (events.columns.size() != distinct.size()) {
    throw std::invalid_argument("there must be " + std::to_string(distinct.size()) + " columns of codes");
  }
  const std::size_t count = last - first;
  const std::span<const Instant> times = events.times.subspan(first, count);
  check_range<Instant>(times, Instant{}, kMaxTime, "times");
  if (!std::ranges::is_sorted(times)) throw std::invalid_argument("times must not go back");
  if (events.costs != nullptr) check_range<Cost>({events.costs + first, count}, 0, kExact + 1, "costs");
  const auto rows = static_cast<std::int64_t>(events.times.size());
  if (answers.places != nullptr) check_range<std::int64_t>({answers.places + first, count}, 0, rows, "order");
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    check_range<std::int32_t>({events.columns[i] + first, count}, -1, distinct[i], "codes");
  }
  check_identifiers(events, first, last);
}

class Replay::Impl {
 public:
  Impl(const CompiledPolicy& policy, std::span<const std::int32_t> distinct)
      : policy_(&policy),
        current_(&policy),
        starts_(distinct.size()),
        records_(policy, std::accumulate(distinct.begin(), distinct.end(), std::size_t{0})),
        targets_(distinct.size()),
        charges_(distinct.size()),
        examined_(distinct.size() * policy.size()),
        row_bytes_(std::make_unique<std::byte[]>(examined_.size() * kRowBytes)),
        rows_(rows_at(row_bytes_.get(), examined_.size())) {
    std::exclusive_scan(distinct.begin(), distinct.end(), starts_.begin(), std::size_t{0});
  }

  void run(const ReplayedEvents& events, std::size_t first, std::size_t last,
           const ReplayedAnswers& answers) {
    wants_rows_ = !tallies_.empty() || wants_more_than_status(answers);
    for (std::size_t event = first; event < last; ++event) {
      if (event + 2 * kAhead < last) {
        for_each_identifier(events, event + 2 * kAhead, [&](std::size_t id) { records_.prefetch(id); });
        for_each_identifier(events, event + kAhead, [&](std::size_t id) { records_.prefetch_cells(id); });
      }
      decide(events, event, answers);
    }
  }

  void start_tallies() { tallies_.assign(policy_->size() + 1, {}); }

  [[nodiscard]] std::vector<LimitTally> tallies() const {
    std::vector<LimitTally> tallies = tallies_;
    for (const CompiledLimit& each : policy_->limits()) tallies[each.place].most = most(each.limit);
    return tallies;
  }

 private:
  template <class Visit>
  void for_each_identifier(const ReplayedEvents& events, std::size_t event, const Visit& visit) const {
    for (std::size_t column = 0; column < events.columns.size(); ++column) {
      const std::int32_t code = events.columns[column][event];
      if (code >= 0) visit(starts_[column] + static_cast<std::size_t>(code));
    }
  }

  void decide(const ReplayedEvents& events, std::size_t event, const ReplayedAnswers& answers) {
    now_ = events.times[event];
    follow_calendar();
    const Cost cost = events.costs == nullptr ? 1 : events.costs[event];
    const std::size_t count = find_targets(events, event, cost);
    const Call call{{charges_.data(), count}};
    std::size_t row = 0;
    for (std::size_t i = 0; i < count; ++i) row = examine_target(targets_[i], cost, row);
    const Settlement settlement = settle(call, [&](std::size_t i) { return targets_[i].verdict; });
    const bool charges = cost > 0 && settlement.passes;
    row = 0;
    for (std::size_t i = 0; i < count; ++i) {
      row = charges ? charge(targets_[i], cost, row) : refuse(targets_[i], charges_[i], settlement, row);
    }
    if (!tallies_.empty()) tally(count, settlement);
    if (!wants_rows_) return answer_status(answers, event, settlement.status);
    const Decision decision = fold(call.charges, rows_of(rows_, 0, row));
    const auto& binding = current_->limits()[decision.binding_row % current_->size()];
    answer(answers, event, decision, binding.place, targets_[decision.binding_row / current_->size()].column);
  }

  void follow_calendar() {
    if (!policy_->has_calendar() || (dated_ != nullptr && current_->holds_at(now_))) return;
    dated_ = policy_->dated(now_);
    current_ = dated_.get();
  }

  std::size_t find_targets(const ReplayedEvents& events, std::size_t event, Cost cost) {
    std::size_t count = 0;
    for (std::size_t column = 0; column < events.columns.size(); ++column) {
      const std::int32_t code = events.columns[column][event];
      if (code < 0) continue;
      Target& target = targets_[count];
      target.identifier = starts_[column] + static_cast<std::size_t>(code);
      target.column = column;
      target.verdict = Status::ok;
      target.lock.reset();
      target.violates = false;
      Charge& charge = charges_[count++];
      charge.policy = current_;
      charge.cost = cost;
    }
    return count;
  }

  std::size_t examine_target(Target& target, Cost cost, std::size_t row) {
    if (current_->penalty() != nullptr) {
      const DenseRecord& lock = records_.of(target.identifier)[current_->size()];
      target.lock = remembered_lock(lock.expires_at, lock.header, now_);
      if (target.lock && target.lock->holds(now_)) target.verdict = Status::locked;
    }
    for (std::size_t i = 0; i < current_->size(); ++i, ++row) {
      const FoundRecord found = records_.find(target.identifier, i);
      examined_[row] = examine(current_->limits()[i].limit, &found, now_, cost);
      target.verdict = std::max(target.verdict, examined_[row].verdict.status);
    }
    return row;
  }

  std::size_t charge(const Target& target, Cost cost, std::size_t row) {
    for (std::size_t i = 0; i < current_->size(); ++i, ++row) {
      const Limit& limit = current_->limits()[i].limit;
      const ChargedPair written = overlimit::charge(limit, examined_[row], cost);
      if (wants_rows_) fill_charged(limit, written.state, now_, {}, rows_, row);
      records_.write(target.identifier, i, written);
    }
    return row;
  }

  std::size_t refuse(Target& target, const Charge& charge, const Settlement& settlement, std::size_t row) {
    const auto set = lock_after_refusal(settlement, charge, target.verdict, target.lock, now_);
    const std::optional<Lock>& lock = set ? set : target.lock;
    for (std::size_t i = 0; wants_rows_ && i < current_->size(); ++i, ++row) {
      fill_refused(current_->limits()[i].limit, examined_[row], target.verdict, lock, now_, rows_, row);
    }
    target.violates = set.has_value();
    if (set) {
      records_.of(target.identifier)[current_->size()] = {header_of(*set), set->expires_at};
    }
    return row;
  }

  void tally(std::size_t count, const Settlement& settlement) {
    std::size_t refusing = 0;
    std::size_t last = 0;
    const auto count_refusal = [&](std::size_t place, Duration retry_after) {
      LimitTally& tally = tallies_[place];
      tally.longest_retry_after = std::max(tally.longest_retry_after, retry_after);
      if (refused_at_[place] == event_number_) return;
      refused_at_[place] = event_number_;
      ++tally.refused;
      ++refusing;
      last = place;
    };
    refused_at_.resize(tallies_.size());
    ++event_number_;
    std::size_t row = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Target& target = targets_[i];
      const bool locked = target.lock && target.lock->holds(now_);
      if (locked && !settlement.passes) count_refusal(current_->size(), target.lock->time_left(now_));
      for (const CompiledLimit& each : current_->limits()) {
        LimitTally& tally = tallies_[each.place];
        if (!locked && !target.violates) tally.least_left = std::min(tally.least_left, rows_.remaining[row]);
        const Verdict& verdict = examined_[row++].verdict;
        if (verdict.status != Status::ok) count_refusal(each.place, verdict.retry_after);
      }
    }
    if (refusing == 1) ++tallies_[last].refused_alone;
  }

  const CompiledPolicy* policy_;
  const CompiledPolicy* current_;
  std::shared_ptr<const CompiledPolicy> dated_;
  Instant now_{};
  bool wants_rows_ = true;
  std::vector<std::size_t> starts_;
  DenseRecords records_;
  std::vector<Target> targets_;
  std::vector<Charge> charges_;
  std::vector<ExaminedPair> examined_;
  std::unique_ptr<std::byte[]> row_bytes_;
  Rows rows_;
  std::vector<LimitTally> tallies_;
  std::vector<std::uint64_t> refused_at_;
  std::uint64_t event_number_ = 0;
};

Replay::Replay(const CompiledPolicy& policy, std::span<const std::int32_t> distinct)
    : impl_(std::make_unique<Impl>(policy, distinct)) {}

Replay::~Replay() = default;

void Replay::run(const ReplayedEvents& events, std::size_t first, std::size_t last,
                 const ReplayedAnswers& answers) {
  impl_->run(events, first, last, answers);
}

void Replay::start_tallies() { impl_->start_tallies(); }

std::vector<LimitTally> Replay::tallies() const { return impl_->tallies(); }

}  // namespace overlimit
