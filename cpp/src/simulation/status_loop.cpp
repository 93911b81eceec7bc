#include "simulation/status_loop.hpp"

#include <variant>

#include "overlimit/uninitialised_array.hpp"

namespace overlimit {
inline namespace simulation {
namespace {

/// The limits of a policy that are all of one algorithm. Their number is known when it is compiled, or 0.
template <class Limited, std::size_t Count>
class StatusLoop {
  using Record = std::conditional_t<KeepingHistory<Limited>, DenseHistory, DenseRecord>;
  static constexpr std::size_t kMost = Count > 0 ? Count : CompiledPolicy::kMaxLimits;

 public:
  StatusLoop(const CompiledPolicy& policy, DenseRecords& records)
      : size_(policy.size()), records_(records.of<Record>(0)), room_(&records.room()) {
    std::size_t place = 0;
    for (const CompiledLimit& each : policy.limits()) {
      limits_.emplace(place++, std::get<Limited>(each.limit.algorithm()));
    }
  }

  // All is passed by value, as who writes bytes may write anything that has an address.
  [[gnu::flatten]] void decide(const Instant* times, const std::int32_t* codes, const Cost* costs,
                               std::size_t first, std::size_t last, const ReplayedAnswers answers) {
    for (std::size_t event = first; event < last; ++event) {
      if (event + 2 * kAhead < last) prefetch(codes[event + 2 * kAhead], codes[event + kAhead]);
      const Cost cost = costs == nullptr ? 1 : costs[event];
      answer_status(answers, event, decide_one(records_of(codes[event]), times[event], cost));
    }
  }

 private:
  [[nodiscard]] std::size_t size() const { return Count > 0 ? Count : size_; }
  [[nodiscard]] Record* records_of(std::int32_t code) const { return records_ + std::size_t(code) * size(); }

  [[gnu::always_inline]] void prefetch(std::int32_t record_code, std::int32_t cell_code) const {
    const Record* const records = records_of(record_code);
    for (std::size_t i = 0; i < size(); ++i) __builtin_prefetch(records + i, 1);
    if constexpr (KeepingHistory<Limited>) {
      for (std::size_t i = 0; i < size(); ++i) records_of(cell_code)[i].ring.prefetch();
    }
  }

  // All limits must admit the event, which is then charged to all of them, unless it costs nothing.
  [[gnu::always_inline]] Status decide_one(Record* records, Instant now, Cost cost) const {
    UninitialisedArray<ExaminedPair, kMost> examined;
    Status worst = Status::ok;
    for (std::size_t i = 0; i < size(); ++i) {
      const FoundRecord found = found_in(records[i]);
      detail::examine(limits_[i], &found, now, cost, kNever, examined[i]);
      worst = std::max(worst, examined[i].verdict.status);
    }
    if (worst != Status::ok || cost == 0) return worst;
    for (std::size_t i = 0; i < size(); ++i) charge(records[i], limits_[i], examined[i], cost);
    return worst;
  }

  [[gnu::always_inline]] void charge(Record& record, const Limited& limit, const ExaminedPair& examined,
                                     Cost cost) const {
    detail::charge(
        limit, examined,
        cost, [&](const auto& after, Instant expires_at, Instant) __attribute__((always_inline)) {
          record.header = header_from(after.state);
          record.expires_at = expires_at;
          record.change_cells(after.dropped, after.pushed, *room_);
        });
  }

  std::size_t size_;
  Record* records_;
  std::pmr::memory_resource* room_;
  UninitialisedArray<Limited, kMost> limits_;
};

template <class Limited, std::size_t Count = 1>
void decide_under(const CompiledPolicy& policy, DenseRecords& records, const ReplayedEvents& events,
                  std::size_t first, std::size_t last, const ReplayedAnswers& answers) {
  constexpr std::size_t kUnrolled = 3;
  if constexpr (Count > 0) {
    if (policy.size() != Count) {
      constexpr std::size_t kNext = Count < kUnrolled ? Count + 1 : 0;
      return decide_under<Limited, kNext>(policy, records, events, first, last, answers);
    }
  }
  StatusLoop<Limited, Count>(policy, records)
      .decide(events.times.data(), events.columns.front(), events.costs, first, last, answers);
}

}  // namespace

bool decide_statuses(const CompiledPolicy& policy, DenseRecords& records, const ReplayedEvents& events,
                     std::size_t first, std::size_t last, const ReplayedAnswers& answers) {
  if (policy.has_calendar() || policy.penalty() != nullptr || events.columns.size() != 1) return false;
  // By algorithm is how a policy orders its limits.
  const Limit& one = policy.limits().front().limit;
  if (one.algorithm().index() != policy.limits().back().limit.algorithm().index()) return false;
  return with_algorithm(one, [&]<class Limited>(const Limited&) {
    if (KeepingHistory<Limited> != records.have_histories()) return false;
    decide_under<Limited>(policy, records, events, first, last, answers);
    return true;
  });
}

}  // namespace simulation
}  // namespace overlimit
