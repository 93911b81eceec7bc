#include "table/entry.hpp"

namespace overlimit::table {
namespace {

constexpr std::uint32_t kFirstCapacity = 2;

Cell& cell_at(const Arena& arena, const Record& record, std::uint32_t index) {
  const Ring& ring = record.ring;
  return arena.at<Cell>(ring.cells, ring.capacity * sizeof(Cell))[(ring.head + index) & (ring.capacity - 1)];
}

bool grow(Arena& arena, Record& record) {
  if (record.ring.capacity == 0) record.ring = {};
  const std::uint32_t capacity = record.ring.capacity == 0 ? kFirstCapacity : record.ring.capacity * 2;
  const Offset offset = arena.allocate(capacity * sizeof(Cell), Arena::Purpose::ordinary);
  if (offset == 0) return false;
  Cell* cells = arena.at<Cell>(offset, capacity * sizeof(Cell));
  for (std::uint32_t i = 0; i < record.ring.length; ++i) cells[i] = cell_at(arena, record, i);
  const std::uint32_t length = record.ring.length;
  drop_cells(arena, record);
  record.ring = {offset, capacity, 0, length};
  return true;
}

void overwrite(UndoLog& log, Cell& cell, const Cell& with) {
  log.save(&cell, sizeof cell);
  cell = with;
}

void keep_note(Arena& arena, Record& record, const Cell& note) {
  drop_cells(arena, record);
  record.note = note;
}

void merge_oldest(const Arena& arena, UndoLog& log, Record& record) {
  const std::int64_t oldest = cell_at(arena, record, 0).count;
  Cell& next = cell_at(arena, record, 1);
  overwrite(log, next, {next.at, next.count + oldest});
  record.ring.head = (record.ring.head + 1) & (record.ring.capacity - 1);
  --record.ring.length;
}

void push(Arena& arena, UndoLog& log, Record& record, const Cell& cell) {
  if (record.ring.length >= kMostCells) merge_oldest(arena, log, record);
  if (record.ring.length < record.ring.capacity || grow(arena, record)) {
    overwrite(log, cell_at(arena, record, record.ring.length++), cell);
  } else if (record.ring.length > 0) {
    Cell& newest = cell_at(arena, record, record.ring.length - 1);
    overwrite(log, newest, {cell.at, newest.count + cell.count});
  } else {
    record.header[1] += cell.count;
  }
}

}  // namespace

void drop_cells(Arena& arena, Record& record) {
  if (record.ring.capacity > 0) arena.release(record.ring.cells, record.ring.capacity * sizeof(Cell));
  record.ring = {};
}

void commit_cells(Arena& arena, UndoLog& log, Record& record, std::size_t dropped,
                  const std::optional<Cell>& pushed) {
  if (Ring& ring = record.ring; ring.capacity > 0) {
    const auto gone = static_cast<std::uint32_t>(std::min<std::size_t>(dropped, ring.length));
    ring.head = (ring.head + gone) & (ring.capacity - 1);
    ring.length -= gone;
  } else if (dropped > 0) {
    record.ring = {};
  }
  if (!pushed) return;
  if (pushed->count < 0) return keep_note(arena, record, *pushed);
  push(arena, log, record, *pushed);
}

namespace {

/// Saves the cells from this one on. False if there is no room for them in the log.
bool try_save_from(const Arena& arena, UndoLog& log, const Record& record, std::uint32_t first) {
  const std::uint32_t begin = (record.ring.head + first) & (record.ring.capacity - 1);
  const std::uint32_t count = record.ring.length - first;
  const std::uint32_t until_end = std::min(count, record.ring.capacity - begin);
  const Cell* const ring = &cell_at(arena, record, first) - begin;
  return log.try_save(ring + begin, until_end * sizeof(Cell)) &&
         (until_end == count || log.try_save(ring, (count - until_end) * sizeof(Cell)));
}

}  // namespace

void commit(Arena& arena, UndoLog& log, Record& record, const RefundedRecord<Header>& refunded) {
  record.header = refunded.state;
  if (refunded.note) keep_note(arena, record, *refunded.note);
  if (refunded.cell >= record.ring.length) return;
  const auto changed = static_cast<std::uint32_t>(refunded.cell);
  Cell& cell = cell_at(arena, record, changed);
  overwrite(log, cell, {cell.at, refunded.cell_count});
  if (refunded.cell_count > 0 || !try_save_from(arena, log, record, changed)) return;
  for (std::uint32_t i = changed; i + 1 < record.ring.length; ++i) {
    cell_at(arena, record, i) = cell_at(arena, record, i + 1);
  }
  --record.ring.length;
}

}  // namespace overlimit::table
