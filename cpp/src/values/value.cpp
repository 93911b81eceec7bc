#include "values/value.hpp"

#include <cstring>

namespace overlimit::values {
namespace {

// The state of a record that cannot hold one.
constexpr Header kNone{-1, -1, -1};

static_assert(std::endian::native == std::endian::little, "records are read as they lie in memory");

bool is_exact(std::int64_t number) { return number >= 0 && number < kExact; }

std::vector<Cell> cells_in(std::string_view bytes) {
  std::vector<Cell> cells(bytes.size() / sizeof(Cell));
  if (!cells.empty()) std::memcpy(cells.data(), bytes.data(), cells.size() * sizeof(Cell));
  return cells;
}

}  // namespace

std::int64_t int64_at(std::string_view bytes, std::size_t offset) {
  std::int64_t number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

std::uint32_t uint32_at(std::string_view bytes, std::size_t offset) {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

Header header_at(std::string_view bytes, std::size_t offset) {
  return {int64_at(bytes, offset), int64_at(bytes, offset + 8), int64_at(bytes, offset + 16)};
}

std::optional<RecordAt> record_at(std::string_view bytes, std::size_t offset) {
  if (offset + RecordAt::kHead > bytes.size()) return std::nullopt;
  return RecordAt{static_cast<Tag>(int64_at(bytes, offset)), uint32_at(bytes, offset + 8),
                  Instant(int64_at(bytes, offset + 12)), offset + RecordAt::kHead};
}

bool is_value(std::string_view bytes) {
  std::size_t end = RecordAt::kBegin;
  while (const std::optional<RecordAt> record = record_at(bytes, end)) end = record->end();
  return end == bytes.size();
}

Value::Value(std::string_view bytes) {
  if (!is_value(bytes)) return;
  created_at_ = Instant(int64_at(bytes, 0));
  std::size_t end = RecordAt::kBegin;
  while (const std::optional<RecordAt> record = record_at(bytes, end)) {
    end = record->end();
    records_.push_back({record->tag, record->expires_at, kNone, {}});
    if (record->size < sizeof(Header) || (record->size - sizeof(Header)) % sizeof(Cell) != 0) continue;
    records_.back().header = header_at(bytes, record->state);
    records_.back().cells = cells_in(bytes.substr(0, end).substr(record->state + sizeof(Header)));
  }
}

std::size_t Value::size() const {
  std::size_t bytes = RecordAt::kBegin;
  for (const Record& record : records_) {
    bytes += RecordAt::kHead + sizeof(Header) + record.cells.size() * sizeof(Cell);
  }
  return bytes;
}

// Records of other limits are left out: nobody asks for them before a reply has reported them again.
std::optional<Value> Value::after_charge(const Charge& charge, Instant now,
                                         std::span<const Receipt> receipts) const {
  Value charged;
  charged.created_at_ = receipts.front().created_at;
  if (!records_.empty() && charged.created_at_ != created_at_) return std::nullopt;
  for (std::size_t i = 0; i < charge.policy->size(); ++i) {
    const CompiledLimit& each = charge.policy->limits()[i];
    const std::optional<FoundRecord> found = find(each.tag);
    const FoundRecord* const record = found ? &*found : nullptr;
    const ExaminedPair pair = examine(each.limit, record, now, cost_of(charge));
    const ChargedPair written = overlimit::charge(each.limit, pair, cost_of(charge));
    if (pair.verdict.status != Status::ok || written.state != receipts[i].after) return std::nullopt;
    std::vector<Cell> cells = cells_after_charge(each.limit, record, pair, written);
    const Instant expires_at = expiry_with(cells, each.limit, written);
    charged.records_.push_back({each.tag, expires_at, written.state, std::move(cells)});
  }
  return charged;
}

Value Value::without_expired(Instant created_at, Instant now) const {
  Value kept(created_at);
  for (const Record& each : records_) {
    if (each.expires_at > now && is_exact(each.expires_at.micros())) kept.records_.push_back(each);
  }
  return kept;
}

Value Value::with_lock(Instant created_at, const Lock& lock) const {
  Value locked(created_at);
  for (const Record& each : records_) {
    if (each.tag != kLockTag && is_exact(each.expires_at.micros())) locked.records_.push_back(each);
  }
  locked.records_.push_back({kLockTag, lock.expires_at, header_of(lock), {}});
  return locked;
}

void Value::put(Record record) {
  const auto same = std::ranges::find(records_, record.tag, &Record::tag);
  if (same != records_.end()) {
    *same = std::move(record);
  } else {
    const bool is_locked = !records_.empty() && records_.back().tag == kLockTag;
    records_.insert(records_.end() - (is_locked ? 1 : 0), std::move(record));
  }
}

bool Value::refund(const Charge& charge, std::span<const Receipt> receipts, Instant now) {
  bool is_any = false;
  for (const Receipt& receipt : receipts) {
    const CompiledLimit& limit = charge.policy->limits()[std::size_t(&receipt - receipts.data())];
    const auto record = std::ranges::find(records_, limit.tag, &Record::tag);
    const auto found = record == records_.end() ? std::nullopt : found_in(*record);
    if (!found) continue;
    const auto left = overlimit::refund(limit.limit, *found, receipt.after, now, cost_of(charge));
    if (!left) continue;
    is_any = true;
    apply(*left, *record);
  }
  return is_any;
}

void Value::apply(const RefundedRecord<Header>& left, Record& record) {
  record.header = left.state;
  if (left.note) {
    record.cells = {*left.note};
  } else if (left.cell < record.cells.size()) {
    const auto cell = record.cells.begin() + std::ptrdiff_t(left.cell);
    cell->count = left.cell_count;
    if (left.cell_count == 0) record.cells.erase(cell);
  }
}

Instant Value::last_expiry() const {
  return records_.empty() ? Instant(0) : std::ranges::max(records_, {}, &Record::expires_at).expires_at;
}

void Value::append_to(std::string& bytes) const {
  const auto append = [&](const auto& number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  append(created_at_.micros());
  for (const Record& each : records_) {
    append(each.tag);
    append(static_cast<std::uint32_t>(sizeof(Header) + each.cells.size() * sizeof(Cell)));
    append(each.expires_at.micros());
    append(each.header);
    bytes.append(reinterpret_cast<const char*>(each.cells.data()), each.cells.size() * sizeof(Cell));
  }
}

std::optional<Lock> Value::lock_at(Instant now) const {
  const std::optional<FoundRecord> found = lock();
  return found ? remembered_lock(found->expires_at, found->header, now) : std::nullopt;
}

std::optional<FoundRecord> Value::lock() const {
  if (records_.empty() || records_.back().tag != kLockTag || !records_.back().cells.empty())
    return std::nullopt;
  const auto end = lock_from(records_.back().header, {}).end;
  return end <= records_.back().expires_at ? found_in(records_.back()) : std::nullopt;
}

std::optional<FoundRecord> Value::find(Tag tag) const {
  const auto record = std::ranges::find(records_, tag, &Record::tag);
  return record == records_.end() ? std::nullopt : found_in(*record);
}

std::optional<FoundRecord> Value::found_in(const Record& record) {
  if (!is_exact(record.expires_at.micros()) || !std::ranges::all_of(record.header, is_exact))
    return std::nullopt;
  return FoundRecord{record.expires_at, record.header, Cells(record.cells.data(), record.cells.size())};
}

}  // namespace overlimit::values
