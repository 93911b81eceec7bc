#include "memory/entry.hpp"

namespace overlimit::memory {
namespace {

constexpr std::uint32_t kFirstCapacity = 2;

Cell& cell_at(const Arena& arena, const Record& record, std::uint32_t index) {
  return arena.at<Cell>(record.ring)[(record.head + index) & (record.capacity - 1)];
}

bool grow(Arena& arena, Record& record) {
  const std::uint32_t capacity = record.capacity == 0 ? kFirstCapacity : record.capacity * 2;
  const Offset ring = arena.allocate(capacity * sizeof(Cell), Arena::Purpose::ordinary);
  if (ring == 0) return false;
  Cell* cells = arena.at<Cell>(ring);
  for (std::uint32_t i = 0; i < record.length; ++i) cells[i] = cell_at(arena, record, i);
  const std::uint32_t length = record.length;
  drop_cells(arena, record);
  record.ring = ring;
  record.capacity = capacity;
  record.length = length;
  return true;
}

void push(Arena& arena, Record& record, const Cell& cell) {
  if (record.length < record.capacity || grow(arena, record)) {
    cell_at(arena, record, record.length++) = cell;
  } else if (record.length > 0) {
    Cell& newest = cell_at(arena, record, record.length - 1);
    newest = {cell.at, newest.count + cell.count};
  } else {
    record.header[1] += cell.count;
  }
}

}  // namespace

void drop_cells(Arena& arena, Record& record) {
  if (record.capacity > 0) arena.release(record.ring, record.capacity * sizeof(Cell));
  record.ring = record.capacity = record.head = record.length = 0;
}

void commit(Arena& arena, Record& record, const ChargedPair& written) {
  const auto dropped = static_cast<std::uint32_t>(std::min<std::size_t>(written.dropped, record.length));
  record.head = record.capacity == 0 ? 0 : (record.head + dropped) & (record.capacity - 1);
  record.length -= dropped;
  record.expires_at = written.expires_at;
  record.header = written.state;
  if (written.pushed) push(arena, record, *written.pushed);
}

void commit(const Arena& arena, Record& record, const RefundedRecord<Header>& refunded) {
  record.header = refunded.state;
  if (refunded.cell >= record.length) return;
  const auto changed = static_cast<std::uint32_t>(refunded.cell);
  cell_at(arena, record, changed).count = refunded.cell_count;
  if (refunded.cell_count > 0) return;
  for (std::uint32_t i = changed; i + 1 < record.length; ++i) {
    cell_at(arena, record, i) = cell_at(arena, record, i + 1);
  }
  --record.length;
}

}  // namespace overlimit::memory
