#include "table/shard.hpp"

#include "overlimit/errors.hpp"

namespace overlimit::table {

bool Totals::try_add() {
  std::uint64_t count = tracked.load(std::memory_order_relaxed);
  while (count < max_keys) {
    if (tracked.compare_exchange_weak(count, count + 1, std::memory_order_relaxed)) return true;
  }
  return false;
}

// From the newest to the oldest, since a place may have been saved twice.
void UndoLog::undo() {
  if (state_ == nullptr) return;
  const std::size_t size = state_->size;
  require(size <= room_.size() && size % 8 == 0);
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < size;) {
    Saved saved{};
    require(size - at >= sizeof saved);
    std::memcpy(&saved, room_.data() + at, sizeof saved);
    require(saved.bytes % 8 == 0 && saved.bytes <= size - at - sizeof saved);
    require(saved.place <= memory_.size() && saved.bytes <= memory_.size() - saved.place);
    starts.push_back(at);
    at += sizeof saved + saved.bytes;
  }
  std::ranges::reverse(starts);
  for (const std::size_t start : starts) {
    Saved saved{};
    std::memcpy(&saved, room_.data() + start, sizeof saved);
    std::memcpy(memory_.data() + saved.place, room_.data() + start + sizeof saved, saved.bytes);
  }
  in_order();
}

Shard::Shard(const Place& place, const Holders* holders)
    : mutex(holders == nullptr ? ShardMutex() : ShardMutex(place.state.mutex_word, *holders)),
      state_(place.state),
      totals_(place.totals),
      index_(state_.index, reinterpret_cast<Offset*>(place.memory.data()), place.most_buckets, arena_, log_),
      arena_(state_.arena, place.memory.data() + place.most_buckets * sizeof(Offset),
             place.memory.size() - place.most_buckets * sizeof(Offset), holders != nullptr),
      log_(holders == nullptr ? UndoLog() : UndoLog(state_.log, place.logged, place.log)),
      bit_(std::uint64_t{1} << place.ordinal),
      ordinal_(place.ordinal) {}

void Shard::format() {
  index_.format();
  arena_.clear();
  arena_.end_call();
}

Entry* Shard::make_entry(const KeyHash& key, std::uint64_t policy, std::span<const Tag> tags,
                         std::size_t extra, Arena::Purpose purpose) {
  const std::size_t records = tags.size() + extra;
  if (records > Entry::kMostRecords) return nullptr;
  const std::size_t size = Entry::size_for(records);
  const Offset offset = arena_.allocate(size, purpose);
  if (offset == 0) return nullptr;
  auto* entry = new (arena_.at<Entry>(offset, size)) Entry(key, policy, records);
  Record* record = entry->begin();
  for (const Tag tag : tags) *record++ = Record{tag, {}, {}, {}};
  return entry;
}

Entry* Shard::insert(const KeyHash& key, std::uint64_t policy, std::span<const Tag> tags,
                     Arena::Purpose purpose) {
  const bool ordinary = purpose == Arena::Purpose::ordinary;
  if (ordinary && !begin_counting()) return nullptr;
  Entry* entry = make_entry(key, policy, tags, 0, purpose);
  if (ordinary) state_.is_out_of_bytes = entry == nullptr ? 1 : 0;
  if (entry == nullptr) {
    if (ordinary) totals_.remove();
    end_counting();
    return nullptr;
  }
  if (!ordinary) entry->make_overflow();
  set_seal(log_, *entry);
  add_to_index(*entry);
  return entry;
}

// While a shard counts, another process that finds it so knows that the totals may be wrong by one.
bool Shard::begin_counting() {
  state_.is_counting = 1;
  in_order();
  if (totals_.try_add()) return true;
  end_counting();
  return false;
}

void Shard::end_counting() {
  in_order();
  state_.is_counting = 0;
}

void Shard::add_to_index(Entry& entry) {
  mark_occupied();
  index_.insert(arena_.offset_of(&entry));
  std::uint64_t& count = entry.is_overflow() ? state_.overflow_entries : state_.tracked;
  log_.save(count);
  ++count;
  log_.complete();
  end_counting();
}

// Only a sweep clears the mark, so that a key that comes and goes costs nothing. Whoever dies in between
// leaves a bit too many, and never one too few.
void Shard::mark_occupied() {
  if (state_.is_marked != 0) return;
  totals_.occupied.fetch_or(bit_, std::memory_order_relaxed);
  in_order();
  state_.is_marked = 1;
}

Entry* Shard::with_records(Entry* entry, std::span<const Tag> tags, Instant now) {
  const auto is_foreign = [&](const Record& record) {
    return record.expires_at > now && std::ranges::find(tags, record.tag) == tags.end();
  };
  const auto extra = static_cast<std::size_t>(std::count_if(entry->begin(), entry->end(), is_foreign));
  Entry* grown = make_entry(entry->key(), entry->policy(), tags, extra, Arena::Purpose::grown_entry);
  if (grown == nullptr)
    throw OutOfMemory(
        "no room for further limits of a key: raise max_bytes, or use fewer limits, of which a key holds at "
        "most 1,023 at once");
  grown->set_created_at(entry->created_at());
  grown->keep_as_long_as(*entry);
  if (entry->is_overflow()) grown->make_overflow();
  Record* next_foreign = grown->begin() + tags.size();
  std::vector<Record> dropped;
  for (Record& record : *entry) {
    Record* same = std::find_if(grown->begin(), grown->begin() + tags.size(),
                                [&](const Record& candidate) { return candidate.tag == record.tag; });
    if (same != grown->begin() + tags.size()) {
      *same = record;
    } else if (is_foreign(record)) {
      *next_foreign++ = record;
    } else {
      dropped.push_back(record);
    }
  }
  set_seal(log_, *grown);
  index_.replace(*entry, arena_.offset_of(grown));
  log_.complete();
  for (Record& record : dropped) drop_cells(arena_, record);
  arena_.release(arena_.offset_of(entry), entry->size());
  arena_.free_released();
  return grown;
}

void Shard::copy_records(Entry& to, Entry& from) {
  save(to, to.records());
  for (Record& target : to) {
    for (const Record& source : from) {
      if (source.tag != target.tag) continue;
      const Cells cells = cells_of(arena_, source);
      target.expires_at = source.expires_at;
      target.header = source.header;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        commit(arena_, log_, target, ChargedRecord<Header>{target.header, 0, cells[i]}, source.expires_at);
      }
    }
  }
  to.keep_as_long_as(from);
  written(to);
  log_.complete();
  arena_.free_released();
}

void Shard::erase(Entry* entry) {
  check_seal(arena_, log_, *entry);
  state_.is_counting = entry->is_overflow() ? 0 : 1;
  in_order();
  take_from_index(*entry);
  if (!entry->is_overflow()) totals_.remove();
  end_counting();
  for (Record& record : *entry) {
    const Ring& ring = record.ring;
    if (ring.capacity > 0) arena_.release(ring.cells, ring.capacity * sizeof(Cell));
  }
  arena_.release(arena_.offset_of(entry), entry->size());
  arena_.free_released();
  if (index_.size() == 0) arena_.clear();
}

void Shard::take_from_index(Entry& entry) {
  index_.erase(entry);
  std::uint64_t& count = entry.is_overflow() ? state_.overflow_entries : state_.tracked;
  log_.save(count);
  --count;
  log_.complete();
}

template <class Predicate>
void Shard::erase_if(const Predicate& is_erased) {
  for (std::size_t bucket = index_.buckets(); bucket-- > 0 && index_.size() > 0;) {
    index_.visit(bucket, [&](Entry* entry) {
      if (is_erased(*entry)) erase(entry);
    });
  }
}

void Shard::erase_policy(std::uint64_t policy) {
  erase_if([&](const Entry& entry) { return entry.policy() == policy; });
}

void Shard::erase_all() {
  erase_if([](const Entry&) { return true; });
}

// Shared memory has only policies with a name, which never end.
bool Shard::is_expired(Entry& entry, Instant real_now) const {
  return entry.is_due(real_now) || (!log_.is_kept() && PolicyIdentity::has_ended(entry.policy()));
}

bool Shard::sweep(Instant real_now, std::size_t buckets) {
  const std::size_t before = index_.size();
  for (; buckets > 0; --buckets) {
    if (state_.cursor == 0 || state_.cursor > index_.buckets()) state_.cursor = index_.buckets();
    index_.visit(--state_.cursor, [&](Entry* entry) {
      if (is_expired(*entry, real_now)) erase(entry);
    });
  }
  return index_.size() < before;
}

bool Shard::sweep_in_turn(Instant real_now, std::size_t buckets) {
  const bool has_erased = sweep(real_now, index_.buckets() <= kFewBuckets ? index_.buckets() : buckets);
  arena_.end_call();
  index_.prefetch(state_.cursor, buckets);
  if (index_.size() > 0 || state_.is_marked == 0) return has_erased;
  state_.is_marked = 0;
  in_order();
  totals_.occupied.fetch_and(~bit_, std::memory_order_relaxed);
  return has_erased;
}

void Shard::recover(bool is_complete) {
  if (!is_complete) log_.undo();
  log_.clear();
  state_.log.leader = 0;
  state_.log.others = 0;
  in_order();
  if (state_.is_counting != 0) totals_.recount.store(1, std::memory_order_relaxed);
  if (state_.arena.is_changing != 0) rebuild();
  end_counting();
}

void Shard::rebuild() {
  index_.check();
  arena_.rebuild(blocks_in_use());
}

void Shard::abandon() noexcept {
  try {
    log_.undo();
    arena_.forget_released();
    rebuild();
  } catch (const std::exception&) {
    state_.is_damaged = 1;
  }
}

KeptKey kept_key(const Arena& arena, Entry& entry) {
  KeptKey kept{entry.key(), entry.policy(), entry.created_at(), entry.is_overflow(), {}};
  for (const Record& record : entry) {
    const Cells cells = cells_of(arena, record);
    kept.records.push_back({record.tag, record.expires_at, record.header, {}});
    for (std::size_t i = 0; i < cells.size(); ++i) kept.records.back().cells.push_back(cells[i]);
  }
  return kept;
}

std::size_t Shard::copy_keys(std::size_t below, std::size_t buckets, std::vector<KeptKey>& keys) {
  constexpr std::size_t kManyCells = 4096;
  std::size_t cells = 0;
  std::size_t bucket = std::min(below, index_.buckets());
  for (; bucket > 0 && buckets > 0 && cells < kManyCells; --buckets) {
    index_.visit(--bucket, [&](Entry* entry) {
      check_seal(arena_, log_, *entry);
      keys.push_back(kept_key(arena_, *entry));
      for (const KeptKey::Record& record : keys.back().records) cells += record.cells.size();
    });
  }
  return bucket;
}

void Shard::end_changes() noexcept {
  try {
    arena_.end_call();
  } catch (const std::exception&) {
    state_.is_damaged = 1;
  }
}

std::vector<Arena::Block> Shard::blocks_in_use() {
  std::vector<Arena::Block> blocks;
  std::size_t entries = 0;
  for (std::size_t bucket = 0; bucket < index_.buckets(); ++bucket) {
    index_.visit(bucket, [&](Entry* entry) {
      index_.check_place(*entry, bucket);
      check_seal(arena_, log_, *entry);
      ++entries;
      blocks.push_back(Arena::block_at(arena_.offset_of(entry), entry->size()));
      for (const Record& record : *entry) {
        const Ring& ring = record.ring;
        if (ring.capacity > 0) blocks.push_back(Arena::block_at(ring.cells, ring.capacity * sizeof(Cell)));
      }
    });
  }
  require(entries == index_.size());
  return blocks;
}

}  // namespace overlimit::table
