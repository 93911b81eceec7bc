// A map with a bound that a flood of keys neither fills nor empties (docs/semantics.md: which keys are
// known).
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <list>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "overlimit/non_copyable.hpp"

namespace overlimit::redis {

/// Values by key, as many as there is room for. A new key is a newcomer; one that is used again becomes a
/// regular, of which those go that were not used for longest. Newcomers never take more than a quarter of the
/// room from regulars, and make room for each other, any of them with the same chance: who comes back before
/// all others have come finds some of them, too. Not thread-safe.
template <class Value>
class ValuesInUse : NonCopyable {
 public:
  ValuesInUse(std::size_t most_keys, std::size_t most_bytes)
      : most_keys_(most_keys), most_bytes_(most_bytes) {}

  /// The value of a key, which is used by that; or nullptr.
  [[nodiscard]] Value* find(std::string_view key) {
    const auto known = entries_.find(key);
    if (known == entries_.end()) return nullptr;
    use(*known);
    return &known->second.value;
  }
  /// Puts a value, of so many bytes, instead of the one before.
  void put(std::string_view key, Value value, std::size_t bytes) {
    auto known = entries_.find(key);
    if (known == entries_.end()) {
      known = entries_.emplace(std::string(key), Entry{.value = std::move(value), .bytes = bytes}).first;
      bytes_ += bytes;
      add_newcomer(*known);
    } else {
      Entry& entry = known->second;
      bytes_ += bytes - entry.bytes;
      if (entry.is_regular) regular_bytes_ += bytes - entry.bytes;
      entry.value = std::move(value);
      entry.bytes = bytes;
      use(*known);
    }
    while (entries_.size() > most_keys_ || bytes_ > most_bytes_) evict();
  }
  void erase(std::string_view key) {
    if (const auto known = entries_.find(key); known != entries_.end()) erase(known);
  }
  void clear() {
    newcomers_.clear();
    regulars_.clear();
    entries_.clear();
    bytes_ = regular_bytes_ = 0;
  }
  /// Calls visit(key, value) for each.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [key, entry] : entries_) visit(key, entry.value);
  }

 private:
  struct Entry;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };
  using Entries = std::unordered_map<std::string, Entry, Hash, std::equal_to<>>;
  using Known = std::pair<const std::string, Entry>;
  struct Entry {
    Value value;
    std::size_t bytes;
    bool is_regular = false;
    std::size_t index = 0;                           // among newcomers
    typename std::list<Known*>::iterator regular{};  // among regulars
  };

  void add_newcomer(Known& known) {
    known.second.is_regular = false;
    known.second.index = newcomers_.size();
    newcomers_.push_back(&known);
  }
  void use(Known& known) {
    Entry& entry = known.second;
    if (entry.is_regular) return regulars_.splice(regulars_.begin(), regulars_, entry.regular);
    leave(entry);
    entry.is_regular = true;
    entry.regular = regulars_.insert(regulars_.begin(), &known);
    regular_bytes_ += entry.bytes;
    while (regulars_.size() > 1 &&
           (regulars_.size() > part(most_keys_) || regular_bytes_ > part(most_bytes_))) {
      Known& oldest = *regulars_.back();
      leave(oldest.second);
      add_newcomer(oldest);
    }
  }
  void leave(const Entry& entry) {
    if (entry.is_regular) {
      regulars_.erase(entry.regular);
      regular_bytes_ -= entry.bytes;
      return;
    }
    newcomers_[entry.index] = newcomers_.back();
    newcomers_[entry.index]->second.index = entry.index;
    newcomers_.pop_back();
  }
  // The newest is not the one that goes, unless it is alone.
  void evict() {
    const std::size_t older = std::max<std::size_t>(1, newcomers_.size() - 1);
    const Known& gone = newcomers_.empty() ? *regulars_.back() : *newcomers_[random_() % older];
    erase(entries_.find(gone.first));
  }
  void erase(typename Entries::iterator known) {
    leave(known->second);
    bytes_ -= known->second.bytes;
    entries_.erase(known);
  }
  static std::size_t part(std::size_t room) { return std::max<std::size_t>(1, room / 4 * 3); }

  const std::size_t most_keys_;
  const std::size_t most_bytes_;
  Entries entries_;
  std::vector<Known*> newcomers_;
  std::list<Known*> regulars_;  // the one used last first
  std::size_t bytes_ = 0;
  std::size_t regular_bytes_ = 0;
  std::minstd_rand random_;  // NOLINT(cert-msc51-cpp): nobody is to be surprised
};

}  // namespace overlimit::redis
