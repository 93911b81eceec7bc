// Finds entries by their keys: a hash table whose size follows what it holds, one bucket at a time (linear
// hashing, W. Litwin, 1980), so that no call pays for moving everything.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "memory/arena.hpp"
#include "memory/entry.hpp"

namespace overlimit::memory {

/// Chains of entries, linked by offsets through `Entry::next`, which belongs to the index. Between two and
/// three buckets per entry, as far as there is room. Not thread-safe: a shard's lock guards it.
class Index {
 public:
  /// `heads` is zeroed and has room for `capacity` buckets, at least kFewest; both outlive the index.
  Index(Offset* heads, std::size_t capacity, const Arena& arena)
      : heads_(heads), capacity_(capacity), arena_(arena) {}

  static constexpr std::size_t kFewest = 4;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t buckets() const { return buckets_; }

  /// The key's entry, or nullptr.
  [[nodiscard]] Entry* find(const KeyHash& key) const {
    for (Offset offset = heads_[bucket_of(key)]; offset != 0;) {
      auto* const entry = arena_.at<Entry>(offset);
      if (entry->key == key) return entry;
      offset = entry->next;
    }
    return nullptr;
  }

  /// Adds an entry whose key the index doesn't hold.
  void insert(Offset offset) {
    auto* const entry = arena_.at<Entry>(offset);
    Offset& head = heads_[bucket_of(entry->key)];
    entry->next = head;
    head = offset;
    ++size_;
    while (buckets_ < std::min(capacity_, 2 * size_)) split();
  }

  /// Takes out an entry that the index holds.
  void erase(const Entry& entry) {
    link_to(entry) = entry.next;
    --size_;
    while (buckets_ > std::max(kFewest, 3 * size_)) merge();
  }

  /// Puts an entry of the same key in the place of one that the index holds.
  void replace(const Entry& entry, Offset with) {
    link_to(entry) = with;
    arena_.at<Entry>(with)->next = entry.next;
  }

  /// Calls action(entry) for those of a bucket; the action may erase that entry, and no other. While buckets
  /// are visited from the last to the first, what a merge moves is still to come.
  template <class Action>
  void visit(std::size_t bucket, const Action& action) {
    for (Offset offset = heads_[bucket]; offset != 0;) {
      auto* const entry = arena_.at<Entry>(offset);
      offset = entry->next;
      action(entry);
    }
  }

  /// Asks the processor to load the first entries of the buckets before this one. Where there is none it
  /// loads what lies at offset 0, which costs less than to find out.
  void prefetch(std::size_t before, std::size_t count) const {
    for (std::size_t bucket = before - std::min(before, count); bucket < before; ++bucket) {
      __builtin_prefetch(arena_.at<Entry>(heads_[bucket]));
    }
  }

  /// The same for the place where a key is looked up, and once that is there, for its entry.
  void prefetch_bucket(const KeyHash& key) const { __builtin_prefetch(&heads_[bucket_of(key)]); }
  void prefetch_entry(const KeyHash& key) const {
    const auto* const first = arena_.at<const char>(heads_[bucket_of(key)]);
    __builtin_prefetch(first);
    __builtin_prefetch(first + sizeof(Entry) + sizeof(Record) - 1);
  }

 private:
  // The lower bits of a hash choose the shard.
  [[nodiscard]] std::size_t bucket_of(const KeyHash& key) const {
    const std::size_t bucket = key.low >> 8 & mask_;
    return bucket < buckets_ ? bucket : bucket & mask_ >> 1;
  }

  Offset& link_to(const Entry& entry) {
    const Offset offset = arena_.offset_of(&entry);
    Offset* link = &heads_[bucket_of(entry.key)];
    while (*link != offset) link = &arena_.at<Entry>(*link)->next;
    return *link;
  }

  // The bucket that one more bucket takes entries from, and that the last one gives them back to.
  [[nodiscard]] static std::size_t sibling_of(std::size_t bucket) { return bucket - std::bit_floor(bucket); }

  void split() {
    Offset* from = &heads_[sibling_of(buckets_)];
    Offset* to = &heads_[buckets_];
    const std::size_t added = buckets_;
    ++buckets_;
    mask_ = std::bit_ceil(buckets_) - 1;
    while (*from != 0) {
      auto* const entry = arena_.at<Entry>(*from);
      if (bucket_of(entry->key) != added) {
        from = &entry->next;
        continue;
      }
      *to = *from;
      *from = entry->next;
      to = &entry->next;
    }
    *to = 0;
  }

  void merge() {
    --buckets_;
    mask_ = std::bit_ceil(buckets_) - 1;
    Offset* end = &heads_[sibling_of(buckets_)];
    while (*end != 0) end = &arena_.at<Entry>(*end)->next;
    *end = heads_[buckets_];
    heads_[buckets_] = 0;
  }

  Offset* heads_;
  std::size_t capacity_;
  const Arena& arena_;
  std::size_t size_ = 0;
  std::size_t buckets_ = kFewest;
  std::size_t mask_ = kFewest - 1;
};

}  // namespace overlimit::memory
