// Finds entries by their keys: a hash table whose size follows what it holds, one bucket at a time (linear
// hashing, W. Litwin, 1980), so that no call pays for moving everything.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "platform/processor.hpp"
#include "table/arena.hpp"
#include "table/entry.hpp"
#include "table/undo_log.hpp"

namespace overlimit::table {

/// Chains of entries, linked by `Entry::next()`: between two and three buckets per entry, as far as there is
/// room. Guarded by the shard's lock. What it overwrites is saved in the undo log. Where there is one, others
/// may write the memory too, so an entry is checked before it is written, and no chain is longer than there
/// are entries.
class Index {
 public:
  struct State {
    std::uint64_t size;
    std::uint64_t buckets;
    std::uint64_t mask;  ///< of the bits of a hash that choose among so many buckets
  };

  /// `heads` is zeroed and has room for `capacity` buckets, at least kFewest; all outlive the index.
  Index(State& state, Offset* heads, std::size_t capacity, const Arena& arena, UndoLog& log)
      : state_(state), heads_(heads), capacity_(capacity), arena_(arena), log_(log) {}

  static constexpr std::size_t kFewest = 4;

  /// Makes an index without entries of zeroed memory.
  void format() { state_ = {0, kFewest, mask_for(kFewest)}; }
  [[nodiscard]] std::size_t size() const { return state_.size; }
  [[nodiscard]] std::size_t buckets() const { return state_.buckets; }

  [[nodiscard]] Entry* find(const KeyHash& key) const {
    Chain chain = chain_of(bucket_of(key));
    while (Entry* const entry = next_of(chain)) {
      if (entry->is_of(key)) return entry;
    }
    return nullptr;
  }

  /// What is read to find a key: the head of its chain, and the entries of the chain.
  [[nodiscard]] std::vector<const void*> path_to(const KeyHash& key) const {
    std::vector<const void*> path{&heads_[bucket_of(key)]};
    Chain chain = chain_of(bucket_of(key));
    while (Entry* const entry = next_of(chain)) path.push_back(entry);
    return path;
  }

  /// Adds an entry whose key the index doesn't hold.
  void insert(Offset offset) {
    Entry* const entry = entry_at(offset);
    Offset& head = heads_[bucket_of(entry->key())];
    entry->next() = head;
    set(head, offset);
    set(state_.size, state_.size + 1);
    while (buckets() < std::min(capacity_, 2 * size())) split();
  }

  /// Takes out an entry that the index holds.
  void erase(const Entry& entry) {
    require(size() > 0);
    set(link_to(entry), entry.next());
    set(state_.size, state_.size - 1);
    while (buckets() > std::max(kFewest, 3 * size())) merge();
  }

  /// Puts an entry of the same key in the place of one that the index holds.
  void replace(const Entry& entry, Offset with) {
    entry_at(with)->next() = entry.next();
    set(link_to(entry), with);
  }

  /// Calls action(entry) for those of a bucket; the action may erase that entry, and no other. While buckets
  /// are visited from the last to the first, what a merge moves is still to come.
  template <class Action>
  void visit(std::size_t bucket, const Action& action) {
    Chain chain = chain_of(bucket);
    while (Entry* const entry = next_of(chain)) action(entry);
  }

  /// Asks the processor to load the first entries of the buckets before this one. Where there is none it
  /// loads what lies at offset 0, which costs less than to find out.
  void prefetch(std::size_t before, std::size_t count) const {
    for (std::size_t bucket = before - std::min(before, count); bucket < before; ++bucket) {
      const auto* const first = static_cast<const char*>(arena_.address_of(heads_[bucket]));
      __builtin_prefetch(first);
      __builtin_prefetch(first + sizeof(Entry) - 1);
    }
  }

  /// The same for the place where a key is looked up, and once that is there, for its entry. Those who don't
  /// hold the lock may ask for the entry too: at worst, something else is loaded.
  void prefetch_bucket(const KeyHash& key) const { __builtin_prefetch(&heads_[bucket_of(key)]); }
  void prefetch_entry(const KeyHash& key) const {
    const std::size_t bucket = bucket_of(key, read_unlocked(state_.buckets), read_unlocked(state_.mask));
    Offset& head = heads_[std::min(bucket, capacity_ - 1)];
    const auto* const first = static_cast<const char*>(arena_.address_of(read_unlocked(head)));
    platform::prefetch_for_writing(first);
    platform::prefetch_for_writing(first + sizeof(Entry) + sizeof(Record) - 1);
  }

  /// Throws Damaged for an entry that doesn't belong in the bucket.
  void check_place(const Entry& entry, std::size_t bucket) const {
    require(bucket_of(entry.key()) == bucket);
  }
  /// Throws Damaged for a size or a number of buckets that cannot be.
  void check() const { require(is_sound()); }
  [[nodiscard]] bool is_sound() const {
    // The mask is the least one that leaves no bucket out.
    const std::size_t mask = state_.mask;
    return buckets() >= kFewest && buckets() <= capacity_ && (mask & (mask + 1)) == 0 &&
           buckets() - 1 <= mask && buckets() - 1 > mask / 2;
  }

 private:
  /// What is left of a chain.
  struct Chain {
    Offset next;
    std::size_t most;
  };

  [[nodiscard]] Chain chain_of(std::size_t bucket) const { return {heads_[bucket], size()}; }
  Entry* next_of(Chain& chain) const {
    if (chain.next == 0) return nullptr;
    require(chain.most-- > 0);
    Entry* const entry = entry_at(chain.next);
    chain.next = entry->next();
    return entry;
  }
  [[nodiscard]] Entry* entry_at(Offset offset) const { return arena_.at<Entry>(offset); }

  // The lower bits of a hash choose the shard.
  [[nodiscard]] std::size_t bucket_of(const KeyHash& key) const {
    return bucket_of(key, state_.buckets, state_.mask);
  }
  [[nodiscard]] static std::size_t bucket_of(const KeyHash& key, std::size_t buckets, std::size_t mask) {
    const std::size_t bucket = key.low >> 8 & mask;
    return bucket < buckets ? bucket : bucket & mask >> 1;
  }

  static std::size_t mask_for(std::size_t buckets) { return std::bit_ceil(buckets) - 1; }
  void set_buckets(std::size_t buckets) {
    set(state_.buckets, buckets);
    set(state_.mask, mask_for(buckets));
  }

  template <class T>
  static T read_unlocked(T& word) {
    return std::atomic_ref(word).load(std::memory_order_relaxed);
  }
  template <class T>
  void set(T& word, std::type_identity_t<T> value) {
    log_.save(word);
    std::atomic_ref(word).store(value, std::memory_order_relaxed);
  }

  Offset& link_to(const Entry& entry) {
    const Offset offset = arena_.offset_of(&entry);
    Offset* link = &heads_[bucket_of(entry.key())];
    for (std::size_t most = size(); *link != offset; --most) {
      require(*link != 0 && most > 0);
      link = &entry_at(*link)->next();
    }
    return *link;
  }

  // The bucket that one more bucket takes entries from, and that the last one gives them back to.
  [[nodiscard]] static std::size_t sibling_of(std::size_t bucket) { return bucket - std::bit_floor(bucket); }

  void split() {
    const std::size_t added = buckets();
    Offset* from = &heads_[sibling_of(added)];
    Offset* to = &heads_[added];
    set_buckets(added + 1);
    for (std::size_t most = size(); *from != 0; --most) {
      require(most > 0);
      const Offset offset = *from;
      Entry* const entry = entry_at(offset);
      check_seal(arena_, log_, *entry);
      if (bucket_of(entry->key()) != added) {
        from = &entry->next();
        continue;
      }
      set(*to, offset);
      set(*from, entry->next());
      to = &entry->next();
    }
    set(*to, 0);
  }

  void merge() {
    const std::size_t last = buckets() - 1;
    set_buckets(last);
    Offset* end = &heads_[sibling_of(last)];
    for (std::size_t most = size(); *end != 0; --most) {
      require(most > 0);
      Entry* const entry = entry_at(*end);
      check_seal(arena_, log_, *entry);
      end = &entry->next();
    }
    set(*end, heads_[last]);
    set(heads_[last], 0);
  }

  State& state_;
  Offset* heads_;
  std::size_t capacity_;
  const Arena& arena_;
  UndoLog& log_;
};

}  // namespace overlimit::table
