#include "overlimit/replay.hpp"

#include <numeric>

#include "overlimit/decision.hpp"
#include "overlimit/pair.hpp"
#include "simulation/dense_records.hpp"
#include "simulation/status_loop.hpp"

namespace overlimit {
inline namespace simulation {

struct Target {
  std::size_t identifier;
  std::size_t column;
  Status verdict;
  std::optional<Lock> lock;  ///< before the event
  bool violates = false;     ///< the event sets a lock
};

bool wants_more_than_status(const ReplayedAnswers& answers) {
  const std::array<const void*, 6> columns = {answers.remaining, answers.retry_after, answers.reset_after,
                                              answers.delay,     answers.limit,       answers.identifier};
  return std::ranges::any_of(columns, [](const void* column) { return column != nullptr; });
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
  // All of them, as a processor looks at several at once where no row decides whether to go on.
  bool fit = true;
  for (const Number value : rows) fit &= bool(int(least <= value) & int(value < bound));
  if (fit) return;
  throw std::invalid_argument(name + " must be from " + std::to_string(number_of(least)) + " to below " +
                              std::to_string(number_of(bound)));
}

bool is_sorted(std::span<const Instant> times) {
  bool sorted = true;
  for (std::size_t i = 1; i < times.size(); ++i) sorted &= times[i - 1] <= times[i];
  return sorted;
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
  if (!is_sorted(times)) throw std::invalid_argument("times must not go back");
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
    if (!wants_rows_ && decide_statuses(*policy_, records_, events, first, last, answers)) return;
    for (std::size_t event = first; event < last; ++event) {
      if (event + 2 * kAhead < last) {
        for_each_identifier(events, event + 2 * kAhead, [&](std::size_t id) { records_.prefetch(id); });
        for_each_identifier(events, event + kAhead,
                            [&](std::size_t id) { records_.prefetch_cells(id, policy_->size()); });
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
    const Resolution resolution = resolve(call, [&](std::size_t i) { return targets_[i].verdict; });
    const bool charges = cost > 0 && resolution.passes;
    row = 0;
    for (std::size_t i = 0; i < count; ++i) {
      row = charges ? charge(targets_[i], cost, row) : refuse(targets_[i], charges_[i], resolution, row);
    }
    if (!tallies_.empty()) tally(count, resolution);
    if (!wants_rows_) return answer_status(answers, event, resolution.status);
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
      const DenseRecord& lock = records_.at(target.identifier, current_->size());
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

  std::size_t refuse(Target& target, const Charge& charge, const Resolution& resolution, std::size_t row) {
    const auto set = lock_after_refusal(resolution, charge, target.verdict, target.lock, now_);
    const std::optional<Lock>& lock = set ? set : target.lock;
    for (std::size_t i = 0; wants_rows_ && i < current_->size(); ++i, ++row) {
      fill_refused(current_->limits()[i].limit, examined_[row], target.verdict, lock, now_, rows_, row);
    }
    target.violates = set.has_value();
    if (set) {
      DenseRecord& record = records_.at(target.identifier, current_->size());
      record.header = header_of(*set);
      record.expires_at = set->expires_at;
    }
    return row;
  }

  void tally(std::size_t count, const Resolution& resolution) {
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
      if (locked && !resolution.passes) count_refusal(current_->size(), target.lock->time_left(now_));
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
