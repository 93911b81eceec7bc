#include "redis/refusals/cached_values.hpp"

#include <algorithm>
#include <mutex>

namespace overlimit::redis {

bool CachedValue::take(std::atomic<std::int64_t>& next_of_all, Duration now, Duration pause) {
  std::int64_t next = next_of_all.load(std::memory_order_relaxed);
  return next <= now.micros() && next_of_all.compare_exchange_strong(next, (now + pause).micros());
}

// For stores that trust nothing of it.
std::unique_ptr<Observation> CachedValues::observe_attempt(const Exchange& exchange, Extras& /*extras*/) {
  const DecideExchange* const deciding = exchange.deciding();
  return deciding == nullptr ? nullptr : std::make_unique<Reporting>(*this, *deciding, Duration{});
}

// What is known of the keys, or being reported, is forgotten. No keys: all.
std::unique_ptr<Observation> CachedValues::observe_change(const Change& change) {
  return std::make_unique<AtBothEnds>([this, keys = std::vector(change.keys.begin(), change.keys.end())] {
    if (keys.empty()) change_all();
    for (const std::string& key : keys) this->change(key);
  });
}

void CachedValues::changes_unheard(std::span<const std::string> keys, Duration within) {
  const Duration changed_at = boot_time() + within;
  for (const std::string& key : keys) change_unheard(key, changed_at);
}

std::shared_ptr<const CachedValue> CachedValues::find(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto* const known = values_.find(key);
  return known == nullptr ? nullptr : *known;
}

void CachedValues::keep(std::string_view key, Value value, const ServerReading& reading,
                        Duration forgotten_at, std::uint32_t changes) {
  const std::size_t size = value.size();
  if (size > kMostBytesOfKey) return change(key);
  auto fresh = std::make_shared<const CachedValue>(std::move(value), reading, forgotten_at);
  const std::lock_guard lock(mutex_);
  const Slot& slot = slot_of(key);
  if (slot.changes.load() != changes || reading.asked_at.micros() < slot.changed_at.load()) return;
  const auto* const known = values_.find(key);
  if (known != nullptr && (*known)->reading.asked_at > reading.asked_at) return;
  values_.put(key, std::move(fresh), size);
}

void CachedValues::change(std::string_view key) {
  const std::lock_guard lock(mutex_);
  slot_of(key).changes.fetch_add(1);
  values_.erase(key);
}

void CachedValues::change_before_report(std::string_view key, std::uint32_t& changes) {
  const std::lock_guard lock(mutex_);
  if (slot_of(key).changes.fetch_add(1) == changes) ++changes;
  values_.erase(key);
}

void CachedValues::change_unheard(std::string_view key, Duration changed_at) {
  Slot& slot = slot_of(key);
  std::int64_t before = slot.changed_at.load();
  while (before < changed_at.micros() &&
         !slot.changed_at.compare_exchange_weak(before, changed_at.micros())) {
  }
  change(key);
}

void CachedValues::change_all() {
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) slot.changes.fetch_add(1);
  values_.clear();
}

Reporting::Reporting(CachedValues& values, const DecideExchange& deciding, Duration max_stale)
    : values_(values), deciding_(deciding), max_stale_(max_stale), asked_at_(boot_time()) {
  for (const std::string& key : deciding_.keys()) changes_.push_back(values_.changes(key));
}

void Reporting::comes_after(const std::vector<std::string>& keys) {
  const std::vector<std::string>& own = deciding_.keys();
  for (const std::string& key : keys) {
    const auto found = std::ranges::find(own, key);
    if (found == own.end()) {
      values_.change(key);
    } else {
      values_.change_before_report(key, changes_[std::size_t(found - own.begin())]);
    }
  }
}

void Reporting::decided(const Call& call, const ScriptReply& /*reply*/, const Answer& answer,
                        const Rows& rows) {
  const Duration answered_at = boot_time();
  const bool is_found = !answer.found.empty() && !answer.is_written && !call.now;
  const auto is_ok = [](Status each) { return each == Status::ok; };
  const bool refuses = !std::all_of(rows.status, rows.status + pairs_of(call.charges), is_ok);
  if (is_found && (deciding_.is_part() || refuses)) {
    report_found(answer, answered_at);
  } else if (answer.found.empty() && !call.now) {
    report_charged(call, answer, rows, answered_at);
  } else {
    for (const std::string& key : deciding_.keys()) values_.change(key);
  }
}

void Reporting::report_found(const Answer& answer, Duration answered_at) {
  for (std::size_t k = 0; k < deciding_.keys().size(); ++k) {
    keep(k, answer.found[k], answer.now, answered_at, changes_[k]);
  }
}

// A key of which nothing is known has refused nobody, so nothing need be known of it.
void Reporting::report_charged(const Call& call, const Answer& answer, const Rows& rows,
                               Duration answered_at) {
  std::size_t row = 0;
  for (std::size_t k = 0; k < deciding_.keys().size(); ++k) {
    const Charge& charge = call.charges[k];
    const std::span receipts(rows.receipt + row, charge.policy->size());
    row += receipts.size();
    const auto known = values_.find(deciding_.keys()[k]);
    std::optional<Value> charged;
    if (known != nullptr) charged = known->value.after_charge(charge, answer.now, receipts);
    values_.change(deciding_.keys()[k]);
    if (charged) keep(k, *std::move(charged), answer.now, answered_at, values_.changes(deciding_.keys()[k]));
  }
}

void Reporting::keep(std::size_t k, Value value, Instant shown, Duration answered_at, std::uint32_t changes) {
  if (max_stale_ == Duration{}) return;
  values_.keep(deciding_.keys()[k], std::move(value), {shown, asked_at_, answered_at}, asked_at_ + max_stale_,
               changes);
}

}  // namespace overlimit::redis
