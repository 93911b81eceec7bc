#include "memory/shard.hpp"

#include <new>

namespace overlimit::memory {
bool Census::admit() {
  std::size_t count = tracked.load(std::memory_order_relaxed);
  while (count < max_keys) {
    if (tracked.compare_exchange_weak(count, count + 1, std::memory_order_relaxed)) return true;
  }
  return false;
}

Shard::Shard(std::span<std::byte> memory, std::size_t places, Census& census)
    : census_(census),
      places_(reinterpret_cast<Place*>(memory.data())),
      mask_(places - 1),
      arena_(memory.data() + places * sizeof(Place), memory.size() - places * sizeof(Place)) {}

std::size_t Shard::place_of(const KeyHash& key) const {
  std::size_t place = home(key);
  for (; places_[place].entry != 0; place = (place + 1) & mask_) {
    if (places_[place].fingerprint == fingerprint(key) &&
        arena_.at<Entry>(places_[place].entry)->key == key) {
      break;
    }
  }
  return place;
}

Entry* Shard::find(const KeyHash& key) {
  const Place& place = places_[place_of(key)];
  return place.entry == 0 ? nullptr : arena_.at<Entry>(place.entry);
}

Entry* Shard::make_entry(const KeyHash& key, std::uint64_t policy, std::span<const Tag> tags,
                         std::size_t extra, Arena::Purpose purpose) {
  const std::size_t records = tags.size() + extra;
  const Offset offset = arena_.allocate(Entry::size_for(records), purpose);
  if (offset == 0) return nullptr;
  auto* entry =
      new (arena_.at<Entry>(offset)) Entry{key, policy, 0, 0, static_cast<std::uint32_t>(records), false};
  Record* record = entry->begin();
  for (const Tag tag : tags) *record++ = Record{tag, 0, {}, 0, 0, 0, 0};
  return entry;
}

Entry* Shard::insert(const KeyHash& key, std::uint64_t policy, std::span<const Tag> tags,
                     Arena::Purpose purpose) {
  const bool ordinary = purpose == Arena::Purpose::ordinary;
  if (used_ >= most_used(purpose) || (ordinary && !census_.admit())) return nullptr;
  Entry* entry = make_entry(key, policy, tags, 0, purpose);
  if (ordinary) starved_ = entry == nullptr;
  if (entry == nullptr) {
    if (ordinary) census_.leave();
    return nullptr;
  }
  entry->overflow = !ordinary;
  places_[place_of(key)] = {fingerprint(key), arena_.offset_of(entry)};
  ++used_;
  cells_ += entry->overflow ? 1 : 0;
  return entry;
}

Entry* Shard::conform(Entry* entry, std::span<const Tag> tags, Micros now) {
  const auto is_foreign = [&](const Record& record) {
    return record.expires_at > now && std::ranges::find(tags, record.tag) == tags.end();
  };
  const auto extra = static_cast<std::size_t>(std::count_if(entry->begin(), entry->end(), is_foreign));
  Entry* grown = make_entry(entry->key, entry->policy, tags, extra, Arena::Purpose::grown_entry);
  if (grown == nullptr) throw std::bad_alloc();
  grown->birth = entry->birth;
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
  places_[place_of(entry->key)].entry = arena_.offset_of(grown);
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
        commit(arena_, target,
               {.header = target.header, .dropped = 0, .pushed = cells[i], .expires_at = source.expires_at});
      }
    }
  }
  to.sweep_at = from.sweep_at;
}

void Shard::free_entry(Offset offset, Entry& entry) {
  for (Record& record : entry) drop_cells(arena_, record);
  if (entry.overflow) {
    --cells_;
  } else {
    census_.leave();
  }
  --used_;
  arena_.release(offset, entry.size());
  if (used_ == 0) arena_.clear();
}

// Linear probing without tombstones: entries behind the gap move up as far as their home allows.
void Shard::vacate(std::size_t place) {
  std::size_t gap = place;
  for (std::size_t next = (gap + 1) & mask_; places_[next].entry != 0; next = (next + 1) & mask_) {
    const std::size_t wanted = home(arena_.at<Entry>(places_[next].entry)->key);
    if (((next - wanted) & mask_) < ((next - gap) & mask_)) continue;
    places_[gap] = places_[next];
    gap = next;
  }
  places_[gap] = {};
}

void Shard::erase(Entry* entry) {
  const std::size_t place = place_of(entry->key);
  const Offset offset = places_[place].entry;
  vacate(place);
  free_entry(offset, *entry);
}

// What moves up into a vacated place is looked at next.
void Shard::erase_all(std::uint64_t policy) {
  if (used_ == 0) return;
  for (std::size_t place = 0; place <= mask_;) {
    const Offset offset = places_[place].entry;
    if (offset != 0 && arena_.at<Entry>(offset)->policy == policy) {
      erase(arena_.at<Entry>(offset));
    } else {
      ++place;
    }
  }
}

void Shard::sweep(Micros real_now, std::size_t places) {
  for (; places > 0; --places) {
    const Offset offset = places_[cursor_].entry;
    if (offset != 0 && arena_.at<Entry>(offset)->is_over(real_now)) {
      erase(arena_.at<Entry>(offset));
    } else {
      cursor_ = (cursor_ + 1) & mask_;
    }
  }
}

}  // namespace overlimit::memory
