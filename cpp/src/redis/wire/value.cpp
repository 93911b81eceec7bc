#include "redis/wire/value.hpp"

#include <cstring>

namespace overlimit::redis {
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

}  // namespace overlimit::redis
