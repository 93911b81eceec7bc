#include "redis/refusals/cached_refusals.hpp"

#include <algorithm>
#include <array>

#include "overlimit/uninitialised_array.hpp"
#include "redis/wire/keys.hpp"
#include "values/call_on_values.hpp"

namespace overlimit::redis {

using values::CallOnValues;
using values::FoundKey;
namespace {

/// Of this part of the time for which it is trusted, nobody asks anew.
constexpr std::int64_t kFreshQuarters = 3;

using Keys = std::pmr::vector<FoundKey>;

/// The instants of the keys of one server are those of its clock, of which every key says something.
void agree(Keys& earliest, Keys& latest) {
  const Instant from = std::ranges::max(earliest, {}, &FoundKey::now).now;
  const Instant to = std::ranges::min(latest, {}, &FoundKey::now).now;
  for (FoundKey& key : earliest) key.now = from;
  for (FoundKey& key : latest) key.now = to;
}

/// A call at instants that its keys' servers may be showing.
class CallAt {
 public:
  CallAt(const Call& call, const Keys& keys)
      : call_(call),
        time_(std::ranges::max(keys, {}, &FoundKey::now).now),
        dated_(call, time_),
        keys_(keys),
        found_(*dated_, keys, keys.get_allocator().resource()) {}

  [[nodiscard]] Instant time() const { return time_; }
  /// Whether it is refused, and nothing is written.
  [[nodiscard]] bool is_refused() const {
    if (found_.passes() || !holds(keys_) || found_.writes()) return false;
    return !locks_ || found_.are_all_locked();
  }
  /// The same at later instants, of what is refused now. Where a refusal may write, it is judged anew.
  [[nodiscard]] bool is_refused_until(const Keys& later) const {
    if (locks_ || has(Role::on_refusal)) return CallAt(call_, later).is_refused();
    return holds(later) && found_.still_refuses(later);
  }
  void show(const Rows& rows) const { found_.show({}, rows); }
  void show_refused(const Rows& rows) const { found_.show_refused(rows); }

 private:
  /// Whether the policies are as they are at the instant of each key.
  [[nodiscard]] bool holds(const Keys& keys) const {
    for (std::size_t k = 0; k < keys.size(); ++k) {
      if (!(*dated_).charges[k].policy->holds_at(keys[k].now)) return false;
    }
    return true;
  }
  [[nodiscard]] bool has(Role role) const {
    return std::ranges::any_of((*dated_).charges, [role](const Charge& each) { return each.role == role; });
  }
  [[nodiscard]] bool may_lock() const {
    return (*dated_).mode == Mode::consume && std::ranges::any_of((*dated_).charges, [](const Charge& each) {
             return each.policy->penalty() != nullptr;
           });
  }

  const Call& call_;
  Instant time_;
  DatedCall dated_;
  const Keys& keys_;
  CallOnValues found_;
  bool locks_ = may_lock();
};

/// Room on the stack for calls with few identifiers and limits.
constexpr std::size_t kUsualRoom = 4096;

/// How often those who wait for what is reported to another caller look for it.
constexpr std::chrono::milliseconds kPauseForNews{1};

/// So many calls are not asked for one by one, if there is enough for them.
constexpr Cost kMany = 8;

/// More limits are not judged as those of a plain call.
constexpr std::size_t kMostPlain = 8;

/// Whether a call is what most are: of one identifier, under limits that are enforced and write nothing when
/// they refuse.
bool is_plain(const Call& call) {
  const Charge& charge = call.charges.front();
  return call.charges.size() == 1 && charge.role == Role::enforce && charge.policy->penalty() == nullptr &&
         charge.policy->size() <= kMostPlain && !charge.policy->has_calendar();
}

}  // namespace

CachedRefusals::CachedRefusals(StoreClient& store, Calls& below, Duration max_stale)
    : Layer(below),
      store_(store),
      max_stale_(max_stale),
      is_cluster_(std::holds_alternative<ClusterLocation>(store.servers().location())) {
  (void)values();
}

std::unique_ptr<Observation> CachedRefusals::observe_attempt(const Exchange& exchange, Extras& /*extras*/) {
  const DecideExchange* const deciding = exchange.deciding();
  return deciding == nullptr ? nullptr : std::make_unique<Reporting>(values(), *deciding, max_stale_);
}

bool CachedRefusals::decide_here(const Call& call, Duration next_ask_at, const Rows& rows, Instant& time,
                                 Basis& basis) {
  if (!goes_by_server(call)) return below().decide_here(call, next_ask_at, rows, time, basis);
  const bool is_refused = (is_plain(call) ? refuse_plain(call, next_ask_at, rows, time)
                                          : refuse_any(call, next_ask_at, rows, time)) ||
                          refuse_until(call, next_ask_at, rows, time);
  if (!is_refused) return below().decide_here(call, next_ask_at, rows, time, basis);
  basis.source = Source::refusal;
  return true;
}

// Of those who were refused and may not be by now one asks, so that each unit that becomes free costs as many
// commands in a crowd as for one caller. Who has waited for a part of the time that there is asks, too.
Instant CachedRefusals::decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) {
  const Wait part = wait.share(4);
  while (is_being_asked(call) && !part.deadline.passed()) {
    transport::pause(kPauseForNews, wait.interrupted);
    if (Instant time{}; store_.top().decide_here(call, {}, rows, time, basis)) return time;
  }
  return below().decide(call, rows, basis, wait);
}

/// A call of one charge at the instants that its server may be showing, by a value that has no lock.
class CachedRefusals::CallOnValue {
 public:
  CallOnValue(const Call& call, const CachedValue& known, Duration now)
      : limits_(call.charges.front().policy->limits()),
        earliest_(known.reading.earliest(now)),
        latest_(known.reading.latest(now)) {
    for (std::size_t row = 0; row < limits_.size(); ++row) {
      const std::optional<FoundRecord> found = known.value.find(limits_[row].tag);
      const ExaminedPair& pair =
          pairs_.emplace(row, examine(limits_[row].limit, found ? &*found : nullptr, earliest_,
                                      call.charges.front().cost, call.patience));
      worst_ = std::max(worst_, pair.verdict.status);
      is_refused_ |= pair.refuses_at(latest_);
    }
    if (earliest_ > latest_) is_refused_ = false;  // somebody has set the clock
  }

  /// Whether it is refused at all of them.
  [[nodiscard]] bool is_refused() const { return is_refused_; }
  [[nodiscard]] Instant time() const { return earliest_; }
  void show(const Rows& rows) const {
    for (std::size_t row = 0; row < limits_.size(); ++row)
      fill_refused(limits_[row].limit, pairs_[row], worst_, {}, earliest_, rows, row);
  }

 private:
  std::span<const CompiledLimit> limits_;
  Instant earliest_;
  Instant latest_;
  UninitialisedArray<ExaminedPair, kMostPlain> pairs_;
  Status worst_ = Status::ok;
  bool is_refused_ = false;
};

// As refuse_any() would, but for a lock that somebody has set by hand, which that shows.
bool CachedRefusals::refuse_plain(const Call& call, Duration next_ask_at, const Rows& rows, Instant& time) {
  const Duration now = boot_time();
  const std::shared_ptr<const CachedValue> known = find(call.charges.front(), now);
  if (known == nullptr) return false;
  if (known->value.lock()) return refuse_any(call, next_ask_at, rows, time);
  const CallOnValue judged(call, *known, now);
  if (!judged.is_refused() || (now >= next_ask_at && asks_anew(*known, now))) return false;
  judged.show(rows);
  time = judged.time();
  return true;
}

bool CachedRefusals::is_being_asked(const Call& call) {
  if (!goes_by_server(call) || !is_plain(call)) return false;
  const Duration now = boot_time();
  Charge charge = call.charges.front();
  const std::shared_ptr<const CachedValue> known = find(charge, now);
  if (known == nullptr || known->value.lock()) return false;
  charge.cost = product(kMany, charge.cost);
  Call many = call;
  many.charges = {&charge, 1};
  const bool is_for_few = CallOnValue(many, *known, now).is_refused();
  const bool may_be_admitted = !CallOnValue(call, *known, now).is_refused();
  return is_for_few && may_be_admitted && !known->take_ask(now, store_.servers().timeout());
}

bool CachedRefusals::refuse_any(const Call& call, Duration next_ask_at, const Rows& rows, Instant& time) {
  std::array<std::byte, kUsualRoom> room;
  std::pmr::monotonic_buffer_resource memory(room.data(), room.size());
  const Duration now = boot_time();
  Known known(&memory);
  if (!find_all(call, now, known)) return false;
  const auto is_asked_anew = [&](const auto& each) { return asks_anew(*each, now); };
  if (now >= next_ask_at && std::ranges::any_of(known, is_asked_anew)) return false;
  Keys earliest(known.size(), &memory);
  Keys latest(known.size(), &memory);
  for (std::size_t k = 0; k < known.size(); ++k) {
    earliest[k] = {&known[k]->value, known[k]->reading.earliest(now)};
    latest[k] = {&known[k]->value, known[k]->reading.latest(now)};
  }
  if (!is_cluster_) agree(earliest, latest);
  if (earliest.front().now > latest.front().now) return false;  // somebody has set the clock
  const CallAt at_earliest(call, earliest);
  if (!at_earliest.is_refused() || !at_earliest.is_refused_until(latest)) return false;
  at_earliest.show(rows);
  time = at_earliest.time();
  return true;
}

bool CachedRefusals::refuse_until(const Call& call, Duration next_ask_at, const Rows& rows, Instant& time) {
  if (next_ask_at == Duration{}) return false;
  const Duration now = boot_time();
  if (now >= next_ask_at) return false;
  Known known;
  if (!find_all(call, now, known)) return false;
  Keys keys;
  for (const auto& each : known) keys.push_back({&each->value, each->reading.earliest(now)});
  const CallAt at_earliest(call, keys);
  at_earliest.show_refused(rows);
  rows.status[0] = std::max(rows.status[0], Status::over);
  rows.remaining[0] = 0;
  rows.retry_after[0] = max(rows.retry_after[0], next_ask_at - now);
  time = at_earliest.time();
  return true;
}

bool CachedRefusals::find_all(const Call& call, Duration now, Known& known) {
  known.reserve(call.charges.size());
  for (const Charge& charge : call.charges) {
    auto found = find(charge, now);
    if (found == nullptr) return false;
    known.push_back(std::move(found));
  }
  return true;
}

std::shared_ptr<const CachedValue> CachedRefusals::find(const Charge& charge, Duration now) {
  auto found = values().find(KeyText(store_.naming(), charge.policy->name(), charge.identifier));
  return found != nullptr && now - found->reading.asked_at < max_stale_ ? found : nullptr;
}

bool CachedRefusals::asks_anew(const CachedValue& known, Duration now) const {
  const bool is_fresh = 4 * (now - known.reading.asked_at) < kFreshQuarters * max_stale_;
  return !is_fresh && known.take_refresh(now, store_.servers().timeout());
}

}  // namespace overlimit::redis
