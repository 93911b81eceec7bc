// A map with a bound that a flood of keys neither fills nor empties (docs/semantics.md: which keys are
// known).
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "overlimit/non_copyable.hpp"

namespace overlimit::redis {

/// Values by key, as many as there is room for: a segmented list of those used least recently. A new key is a
/// newcomer; one that is used again becomes a regular. Newcomers make room for each other, and never take
/// more than a quarter of it from the regulars. Not thread-safe.
template <class Value>
class ValuesInUse : NonCopyable {
 public:
  ValuesInUse(std::size_t most_keys, std::size_t most_bytes)
      : most_keys_(most_keys), most_bytes_(most_bytes) {}

  /// The value of a key, which is used by that; or nullptr.
  [[nodiscard]] Value* find(std::string_view key) {
    const auto known = entries_.find(key);
    if (known == entries_.end()) return nullptr;
    use(known->second);
    return &known->second->value;
  }
  /// Puts a value, of so many bytes, in place of the one before.
  void put(std::string_view key, Value value, std::size_t bytes) {
    const auto known = entries_.find(key);
    if (known == entries_.end()) {
      newcomers_.list.push_front({std::string(key), std::move(value), bytes, false});
      newcomers_.bytes += bytes;
      entries_.emplace(newcomers_.list.front().key, newcomers_.list.begin());
    } else {
      Entry& entry = *known->second;
      list_of(entry).bytes += bytes - entry.bytes;
      entry.value = std::move(value);
      entry.bytes = bytes;
      use(known->second);
    }
    make_room();
  }
  void erase(std::string_view key) {
    if (const auto known = entries_.find(key); known != entries_.end()) erase(known->second);
  }
  void clear() {
    entries_.clear();
    newcomers_ = regulars_ = {};
  }
  /// Calls visit(key, value) for each.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const List* const each : {&regulars_, &newcomers_})
      for (const Entry& entry : each->list) visit(entry.key, entry.value);
  }

 private:
  struct Entry {
    std::string key;
    Value value;
    std::size_t bytes;
    bool is_regular;
  };
  struct List {
    std::list<Entry> list{};  // the one used last first
    std::size_t bytes = 0;
  };
  using Place = typename std::list<Entry>::iterator;

  [[nodiscard]] List& list_of(const Entry& entry) { return entry.is_regular ? regulars_ : newcomers_; }
  void move(Place entry, bool is_regular) {
    List& from = list_of(*entry);
    entry->is_regular = is_regular;
    List& to = list_of(*entry);
    to.list.splice(to.list.begin(), from.list, entry);
    from.bytes -= entry->bytes;
    to.bytes += entry->bytes;
  }
  // Who was a regular for longest without being used begins anew.
  void use(Place entry) {
    move(entry, true);
    while (regulars_.list.size() > 1 &&
           (regulars_.list.size() > part(most_keys_) || regulars_.bytes > part(most_bytes_)))
      move(std::prev(regulars_.list.end()), false);
  }
  void make_room() {
    while (entries_.size() > most_keys_ || newcomers_.bytes + regulars_.bytes > most_bytes_) {
      List& from = newcomers_.list.empty() ? regulars_ : newcomers_;
      erase(std::prev(from.list.end()));
    }
  }
  void erase(Place entry) {
    entries_.erase(entry->key);
    List& from = list_of(*entry);
    from.bytes -= entry->bytes;
    from.list.erase(entry);
  }
  static std::size_t part(std::size_t room) { return std::max<std::size_t>(1, room / 4 * 3); }

  const std::size_t most_keys_;
  const std::size_t most_bytes_;
  List newcomers_;
  List regulars_;
  std::unordered_map<std::string_view, Place> entries_;  // whose keys are in the lists
};

}  // namespace overlimit::redis
