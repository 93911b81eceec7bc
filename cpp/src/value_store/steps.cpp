#include "value_store/steps.hpp"

#include <algorithm>
#include <array>
#include <memory_resource>
#include <numeric>

#include "overlimit/pair.hpp"
#include "value_store/stored_value.hpp"

namespace overlimit::values {
namespace {

// How long a value outlives its records: by the store's clock, by another one of real time, and by any.
constexpr Duration kStoreSlack{1'000'000};
constexpr Duration kSystemSlack{60'000'000};
constexpr Duration kInjectedSlack{3'600'000'000};

std::size_t pairs_of_calls(std::span<const Call> calls) {
  return std::accumulate(calls.begin(), calls.end(), std::size_t{0},
                         [](std::size_t sum, const Call& call) { return sum + pairs_of(call.charges); });
}

// Which numbers a calendar gives is known once the time is.
bool may_write(const Call& call) {
  if (have_calendar(call.charges)) return call.mode == Mode::consume && spends(call.charges);
  return may_charge(call);
}

}  // namespace

KeyedStep::KeyedStep(std::vector<std::string> keys, bool reads_only)
    : keys_(std::move(keys)), places_(keys_.size()), reads_only_(reads_only) {
  if (keys_.size() == 1) return;
  const std::vector<std::string> of_charges = keys_;
  std::ranges::sort(keys_);
  keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
  for (std::size_t i = 0; i < places_.size(); ++i) {
    places_[i] = std::size_t(std::ranges::lower_bound(keys_, of_charges[i]) - keys_.begin());
  }
}

ValueStep::Writes KeyedStep::run(Values values, std::optional<Instant> now) {
  is_of_store_ = now.has_value();
  now_ = now ? checked_instant(*now) : system_now();
  held_.clear();
  for (const auto& bytes : values) held_.push_back({read_stored(bytes.value_or(std::string_view())), {}});
  act();
  Writes writes;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (!held_[i].expires_in) continue;
    writes.resize(held_.size());
    writes[i] = {stored(held_[i].value), *held_[i].expires_in};
  }
  return writes;
}

Instant KeyedStep::creation(std::size_t charge, Instant now) const {
  const Instant created_at = value(charge).created_at();
  return created_at == Instant{} ? max(now, Instant(kMicrosecond)) : created_at;
}

void KeyedStep::put(std::size_t charge, Value value, Instant now, Duration slack) {
  Held& held = held_[places_[charge]];
  held.value = std::move(value);
  held.expires_in = max(Duration{}, held.value.last_expiry() - now) + slack;
}

Duration KeyedStep::slack_of(const Call& call) const {
  if (call.now && !call.system_clock) return kInjectedSlack;
  return call.now || !is_of_store_ ? kSystemSlack : kStoreSlack;
}

KeptCall::KeptCall(const Call& call) : charges_(call.charges.begin(), call.charges.end()), call_(call) {
  call_.charges = charges_;
  call_.now = call.reading();
  call_.clock = nullptr;
}

DecideStep::DecideStep(std::span<const Call> calls, std::vector<std::string> keys)
    : KeyedStep(std::move(keys), std::ranges::none_of(calls, may_write)),
      times_(calls.size()),
      pairs_(pairs_of_calls(calls)),
      block_(uninitialised_block(pairs_ * kRowBytes)) {
  calls_.reserve(calls.size());
  for (const Call& call : calls) calls_.emplace_back(call);
}

void DecideStep::act() {
  const Rows rows = rows_at(block_.get(), pairs_);
  std::size_t charge = 0;
  std::size_t row = 0;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    const Call& call = *calls_[i];
    const std::size_t pairs = pairs_of(call.charges);
    times_[i] = instant_of(call);
    const DatedCall dated(call, times_[i]);
    decide(*dated, charge, rows_of(rows, row, pairs), times_[i]);
    charge += call.charges.size();
    row += pairs;
  }
}

void DecideStep::decide(const Call& call, std::size_t first_charge, const Rows& rows, Instant now) {
  std::array<std::byte, 1024> room;
  std::pmr::monotonic_buffer_resource memory(room.data(), room.size());
  std::pmr::vector<FoundKey> keys(&memory);
  std::pmr::vector<Instant> creations(&memory);
  for (std::size_t k = 0; k < call.charges.size(); ++k) {
    keys.push_back({&value(first_charge + k), now});
    creations.push_back(creation(first_charge + k, now));
  }
  const CallOnValues found(call, keys, &memory);
  if (!found.writes()) return found.show({}, rows);
  found.show(creations, rows);
  std::pmr::vector<std::optional<Value>> written(&memory);
  for (std::size_t k = 0; k < keys.size(); ++k) written.push_back(found.written(k, creations[k]));
  for (std::size_t k = 0; k < keys.size(); ++k) {
    if (written[k]) put(first_charge + k, *std::move(written[k]), now, slack_of(call));
  }
}

void DecideStep::tell(const Rows& rows, std::span<Instant> times) const {
  copy_rows(rows_at(block_.get(), pairs_), rows);
  std::ranges::copy(times_, times.begin());
}

RefundStep::RefundStep(const Call& call, std::span<const Receipt> receipts, const Present* present,
                       std::vector<std::string> keys)
    : KeyedStep(std::move(keys), false), call_(call), receipts_(receipts.begin(), receipts.end()) {
  if (present == nullptr) return;
  shown_.emplace(Call{.charges = present->charges, .mode = Mode::peek});
  pairs_ = pairs_of(present->charges);
  block_ = uninitialised_block(pairs_ * kRowBytes);
}

void RefundStep::act() {
  time_ = instant_of(*call_);
  const DatedCall dated(*call_, time_);
  std::size_t row = 0;
  for (std::size_t k = 0; k < (*dated).charges.size(); ++k) {
    const Charge& charge = (*dated).charges[k];
    const auto receipts = std::span<const Receipt>(receipts_).subspan(row, charge.policy->size());
    row += receipts.size();
    const Instant created_at = receipts.front().created_at;
    if (created_at == Instant{} || created_at != value(k).created_at()) continue;
    Value left = value(k);
    if (left.refund(charge, receipts, time_)) put(k, std::move(left), time_, slack_of(*call_));
  }
  if (shown_) show(time_);
}

void RefundStep::show(Instant now) {
  const DatedCall dated(**shown_, now);
  std::vector<FoundKey> keys;
  for (std::size_t k = 0; k < (*dated).charges.size(); ++k) keys.push_back({&value(k), now});
  CallOnValues(*dated, keys).show({}, rows_at(block_.get(), pairs_));
}

void RefundStep::tell(Present& present) const {
  copy_rows(rows_at(block_.get(), pairs_), present.rows);
  present.time = time_;
}

LockStep::LockStep(const Call& call, Duration duration, std::vector<std::string> keys)
    : KeyedStep(std::move(keys), false), call_(call), duration_(duration) {}

void LockStep::act() {
  const Instant now = instant_of(*call_);
  for (std::size_t k = 0; k < (*call_).charges.size(); ++k) {
    const std::optional<Lock> lock = value(k).lock_at(now);
    if (!lock && duration_ == Duration{}) continue;
    put(k, value(k).with_lock(creation(k, now), locked_by_hand(lock, now, duration_)), now, slack_of(*call_));
  }
}

ResetStep::ResetStep(std::vector<std::string> keys) : KeyedStep(std::move(keys), false) {}

void ResetStep::act() {
  for (std::size_t k = 0; k < charges(); ++k) {
    const Instant created_at = value(k).created_at();
    if (created_at == Instant{} || value(k).last_expiry() == Instant{}) continue;
    const bool is_later = created_at >= now() && created_at < kMaxTime;
    put(k, Value(is_later ? later(created_at, kMicrosecond) : now()), now(), kInjectedSlack);
  }
}

}  // namespace overlimit::values
