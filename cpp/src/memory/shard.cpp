#include "memory/shard.hpp"

#include <new>

namespace overlimit::memory {

bool KeyCount::try_add() {
  std::size_t count = tracked.load(std::memory_order_relaxed);
  while (count < max_keys) {
    if (tracked.compare_exchange_weak(count, count + 1, std::memory_order_relaxed)) return true;
  }
  return false;
}

Shard::Shard(std::span<std::byte> memory, std::size_t most_buckets, KeyCount& key_count, unsigned ordinal)
    : index_(reinterpret_cast<Offset*>(memory.data()), most_buckets, arena_),
      bit_(std::uint64_t{1} << ordinal),
      key_count_(key_count),
      arena_(memory.data() + most_buckets * sizeof(Offset), memory.size() - most_buckets * sizeof(Offset)) {}

Entry* Shard::make_entry(const KeyHash& key, std::uint64_t policy, std::span<const Tag> tags,
                         std::size_t extra, Arena::Purpose purpose) {
  const std::size_t records = tags.size() + extra;
  const Offset offset = arena_.allocate(Entry::size_for(records), purpose);
  if (offset == 0) return nullptr;
  auto* entry = new (arena_.at<Entry>(offset)) Entry{key, policy, 0, 0, 0, 0, 0};
  entry->records = static_cast<std::uint32_t>(records) & Entry::kMostRecords;
  Record* record = entry->begin();
  for (const Tag tag : tags) *record++ = Record{tag, 0, {}, 0, 0, 0, 0};
  return entry;
}

Entry* Shard::insert(const KeyHash& key, std::uint64_t policy, std::span<const Tag> tags,
                     Arena::Purpose purpose) {
  const bool ordinary = purpose == Arena::Purpose::ordinary;
  if (ordinary && !key_count_.try_add()) return nullptr;
  Entry* entry = make_entry(key, policy, tags, 0, purpose);
  if (ordinary) is_out_of_bytes_ = entry == nullptr;
  if (entry == nullptr) {
    if (ordinary) key_count_.remove();
    return nullptr;
  }
  entry->overflow = ordinary ? 0 : 1;
  index_.insert(arena_.offset_of(entry));
  overflow_entries_ += entry->overflow;
  mark_occupied();
  return entry;
}

// Only a sweep clears the mark, so that a key that comes and goes costs nothing.
void Shard::mark_occupied() {
  if (is_marked_) return;
  is_marked_ = true;
  key_count_.occupied.fetch_or(bit_, std::memory_order_relaxed);
}

Entry* Shard::with_records(Entry* entry, std::span<const Tag> tags, Micros now) {
  const auto is_foreign = [&](const Record& record) {
    return record.expires_at > now && std::ranges::find(tags, record.tag) == tags.end();
  };
  const auto extra = static_cast<std::size_t>(std::count_if(entry->begin(), entry->end(), is_foreign));
  Entry* grown = make_entry(entry->key, entry->policy, tags, extra, Arena::Purpose::grown_entry);
  if (grown == nullptr) throw std::bad_alloc();
  grown->created_at = entry->created_at;
  grown->sweep_at = entry->sweep_at;
  grown->overflow = entry->overflow;
  Record* next_foreign = grown->begin() + tags.size();
  for (Record& record : *entry) {
    Record* same = std::find_if(grown->begin(), grown->begin() + tags.size(),
                                [&](const Record& candidate) { return candidate.tag == record.tag; });
    if (same != grown->begin() + tags.size()) {
      *same = record;
    } else if (is_foreign(record)) {
      *next_foreign++ = record;
    } else {
      drop_cells(arena_, record);
    }
  }
  index_.replace(*entry, arena_.offset_of(grown));
  arena_.release(arena_.offset_of(entry), entry->size());
  return grown;
}

void Shard::copy_records(Entry& to, Entry& from) {
  for (Record& target : to) {
    for (const Record& source : from) {
      if (source.tag != target.tag) continue;
      const Cells cells = cells_of(arena_, source);
      target.expires_at = source.expires_at;
      target.header = source.header;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        commit(arena_, target, ChargedPair{{target.header, 0, cells[i]}, source.expires_at});
      }
    }
  }
  to.sweep_at = from.sweep_at;
}

void Shard::erase(Entry* entry) {
  index_.erase(*entry);
  for (Record& record : *entry) drop_cells(arena_, record);
  if (entry->overflow) {
    --overflow_entries_;
  } else {
    key_count_.remove();
  }
  arena_.release(arena_.offset_of(entry), entry->size());
  if (index_.size() == 0) arena_.clear();
}

void Shard::erase_policy(std::uint64_t policy) {
  for (std::size_t bucket = index_.buckets(); bucket-- > 0 && index_.size() > 0;) {
    index_.visit(bucket, [&](Entry* entry) {
      if (entry->policy == policy) erase(entry);
    });
  }
}

void Shard::sweep(Micros real_now, std::size_t buckets) {
  for (; buckets > 0; --buckets) {
    if (cursor_ == 0 || cursor_ > index_.buckets()) cursor_ = index_.buckets();
    index_.visit(--cursor_, [&](Entry* entry) {
      if (entry->is_expired(real_now)) erase(entry);
    });
  }
}

void Shard::sweep_in_turn(Micros real_now) {
  sweep(real_now, index_.buckets() <= kFewBuckets ? index_.buckets() : kBucketsPerSweep);
  index_.prefetch(cursor_, kBucketsPerSweep);
  if (index_.size() > 0 || !is_marked_) return;
  is_marked_ = false;
  key_count_.occupied.fetch_and(~bit_, std::memory_order_relaxed);
}

}  // namespace overlimit::memory
