// What a process has one of per key, as long as somebody uses it.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "redis/transport/per_process.hpp"

namespace overlimit::redis::transport {

/// Thread-safe.
template <class Key, class Thing>
class Registry {
 public:
  /// The thing of a key, made by make() for the first who asks.
  template <class Make>
  [[nodiscard]] std::shared_ptr<Thing> of(const Key& key, const Make& make) {
    const std::lock_guard lock(mutex_);
    std::erase_if(things_, [](const auto& each) { return each.second.expired(); });
    for (const auto& [known, held] : things_) {
      if (auto thing = held.lock(); thing && known == key) return thing;
    }
    std::shared_ptr<Thing> thing = make();
    things_.emplace_back(key, thing);
    return thing;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<Key, std::weak_ptr<Thing>>> things_;  // guarded by mutex_
};

template <class Key, class Thing>
inline constinit ProcessSlot<Registry<Key, Thing>> registry_slot;

/// The registry of this process. Never destroyed: stores may be used while the process ends.
template <class Key, class Thing>
[[nodiscard]] Registry<Key, Thing>& registry_of_process() {
  return registry_slot<Key, Thing>.get([] { return std::make_unique<Registry<Key, Thing>>(); });
}

}  // namespace overlimit::redis::transport
