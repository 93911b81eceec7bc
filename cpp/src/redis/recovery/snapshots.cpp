#include "redis/recovery/snapshots.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "overlimit/call.hpp"
#include "values/value.hpp"

namespace overlimit::redis {

using values::is_value;
using values::record_at;
using values::RecordAt;
namespace {

/// Of more keys that were lost no reply is under way.
constexpr std::size_t kMostLost = 32;

/// Whether what was reported at one boot time is older than something else.
bool is_older(const Snapshot& one, const Snapshot& other) {
  return one.reported_at < other.reported_at && one.asked_at < other.answered_at;
}

/// Whether both are one value, which may have been suspected since.
bool are_alike(const Snapshot& one, const Snapshot& other) {
  return one.created_at == other.created_at && one.reported_at == other.reported_at;
}

void note_lost(std::vector<LostKey>& lost, const LostKey& key) {
  const auto known = std::ranges::find(lost, key.created_at, &LostKey::created_at);
  if (known != lost.end()) {
    known->restored_as_of = max(known->restored_as_of, key.restored_as_of);
    return;
  }
  if (lost.size() == kMostLost) lost.erase(lost.begin());
  lost.push_back(key);
}

}  // namespace

Instant last_expiry(std::string_view value) {
  if (!is_value(value)) return {};
  Instant last{};
  std::size_t end = RecordAt::kBegin;
  while (const std::optional<RecordAt> record = record_at(value, end)) {
    if (record->expires_at.micros() < kExact) last = max(last, record->expires_at);
    end = record->end();
  }
  return last;
}

// For stores that do not remember: one that does has its own way.
std::unique_ptr<Observation> Snapshots::observe_change(const Change& change) {
  if (change.kind != Change::Kind::reset) return nullptr;
  return std::make_unique<AtBothEnds>([this, keys = std::vector(change.keys.begin(), change.keys.end()),
                                       starts = std::vector(change.starts.begin(), change.starts.end())] {
    for (const std::string& key : keys) forget(key);
    for (const std::string& key : keys_of(starts)) forget(key);
  });
}

Snapshots::Pointer Snapshots::find(std::string_view key, Duration now) {
  const std::lock_guard lock(mutex_);
  const Pointer* const known = values_.find(key);
  if (known == nullptr) return nullptr;
  if ((*known)->forgotten_at > now) return *known;
  values_.erase(key);
  return nullptr;
}

std::optional<Trust> Snapshots::trust_in(const Report& report, const Pointer& known) {
  const auto is_elsewhere = [&](const Pointer& value) {
    return value != nullptr && value->is_from_elsewhere(report.fresh.server, report.connection);
  };
  if (is_elsewhere(known) || is_elsewhere(report.sent)) return Trust::suspect;
  if (known == nullptr || known->created_at == report.fresh.created_at) return Trust::trusted;
  const auto lost = std::ranges::find(known->lost, report.fresh.created_at, &LostKey::created_at);
  if (lost == known->lost.end()) return Trust::suspect;
  if (report.fresh.reported_at < lost->restored_as_of) return std::nullopt;
  return Trust::lost;
}

// Judged and kept in one step: what is trusted is restored with the key from then on.
Trust Snapshots::judge(std::span<Report> reports, bool is_of_others) {
  const std::lock_guard lock(mutex_);
  std::vector<std::optional<Trust>> trusts;
  for (Report& each : reports) {
    Pointer* const known = values_.find(each.key);
    const bool is_known = known != nullptr && (*known)->forgotten_at > each.fresh.answered_at;
    trusts.push_back(trust_in(each, is_known ? *known : nullptr));
    if (is_known && trusts.back() == Trust::suspect) suspect(*known);
  }
  if (is_of_others) return Trust::suspect;
  const auto are = [&](Trust trust) { return std::ranges::count(trusts, std::optional(trust)); };
  if (are(Trust::lost) == std::ssize(reports) && !reports.empty()) return Trust::lost;
  if (are(Trust::lost) + are(Trust::suspect) > 0) return Trust::suspect;
  for (std::size_t k = 0; k < reports.size(); ++k) {
    if (!trusts[k]) continue;
    if (reports[k].has_value) {
      replace(values_.find(reports[k].key), reports[k].key, std::move(reports[k].fresh));
    } else {
      values_.erase(reports[k].key);
    }
  }
  return Trust::trusted;
}

void Snapshots::keep(const std::string& key, Snapshot fresh) {
  const std::lock_guard lock(mutex_);
  Pointer* const known = values_.find(key);
  if (known != nullptr && (*known)->created_at != fresh.created_at) return suspect(*known);
  replace(known, key, std::move(fresh));
}

void Snapshots::keep_restored(const std::string& key, Snapshot fresh, const Pointer& restored) {
  const std::lock_guard lock(mutex_);
  Pointer* const known = values_.find(key);
  const bool is_same_key = known != nullptr && (*known)->created_at == fresh.created_at;
  if (known != nullptr && !is_same_key && !are_alike(**known, *restored)) return suspect(*known);
  std::vector<LostKey> lost = is_same_key ? (*known)->lost : restored->lost;
  if (fresh.created_at != restored->created_at)
    note_lost(lost, {restored->created_at, restored->reported_at});
  replace(known, key, std::move(fresh), std::move(lost));
}

void Snapshots::keep_reset(const std::string& key, Snapshot fresh) {
  const std::lock_guard lock(mutex_);
  replace(values_.find(key), key, std::move(fresh), {});
}

// What was in suspicion after this was asked for is still.
void Snapshots::replace(const Pointer* known, const std::string& key, Snapshot fresh) {
  std::vector<LostKey> lost;
  if (known != nullptr) lost = (*known)->lost;
  replace(known, key, std::move(fresh), std::move(lost));
}

void Snapshots::replace(const Pointer* known, const std::string& key, Snapshot fresh,
                        std::vector<LostKey> lost) {
  fresh.lost = std::move(lost);
  if (known != nullptr) {
    if (is_older(fresh, **known)) return;
    fresh.suspected = (*known)->suspected > fresh.sequence ? (*known)->suspected : fresh.suspected;
  }
  const std::size_t size = fresh.bytes.size();
  if (size > kMostBytesOfKey || fresh.forgotten_at <= fresh.answered_at) return values_.erase(key);
  values_.put(key, std::make_shared<const Snapshot>(std::move(fresh)), size);
}

void Snapshots::suspect(Pointer& known) {
  auto suspected = std::make_shared<Snapshot>(*known);
  suspected->suspected = next_sequence();
  known = std::move(suspected);
}

void Snapshots::forget(std::string_view key) {
  const std::lock_guard lock(mutex_);
  values_.erase(key);
}

std::vector<std::string> Snapshots::keys_of(std::span<const std::string> starts) {
  std::vector<std::string> keys;
  const std::lock_guard lock(mutex_);
  values_.for_each([&](const std::string& key, const Pointer& /*value*/) {
    const auto begins = [&](const std::string& start) { return key.starts_with(start); };
    if (std::ranges::any_of(starts, begins)) keys.push_back(key);
  });
  return keys;
}

}  // namespace overlimit::redis
