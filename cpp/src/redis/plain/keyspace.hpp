// What a process knows belongs to a keyspace: an address, and the names of the keys there, whichever stores
// use them.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "overlimit/forks.hpp"
#include "overlimit/redis_keys.hpp"
#include "overlimit/redis_location.hpp"
#include "redis/plain/layer.hpp"

namespace overlimit::redis {

/// Of this process, shared by all its stores of that keyspace. Who observes it does so until it is gone.
/// Thread-safe.
class Keyspace : NonCopyable {
 public:
  static std::shared_ptr<Keyspace> of(const Location& location, const KeyNaming& keys);

  /// The observer of a kind, or nullptr. Most keyspaces have none.
  [[nodiscard]] Observer* observer(Observer::Keeps what) const {
    return observers_[std::size_t(what)].load(std::memory_order_acquire);
  }
  [[nodiscard]] bool is_observed() const { return is_observed_.load(std::memory_order_acquire); }
  /// The one of this kind, which is made if there is none.
  template <class Kept>
  Kept& observed_by(Observer::Keeps what) {
    if (Observer* const known = observer(what)) return static_cast<Kept&>(*known);
    return static_cast<Kept&>(observer_made_by(what, [] { return std::make_unique<Kept>(); }));
  }

 private:
  Observer& observer_made_by(Observer::Keeps what, const std::function<std::unique_ptr<Observer>()>& make);

  std::atomic<bool> is_observed_{false};
  std::array<std::atomic<Observer*>, Observer::kKinds> observers_{};
  ForkSafeMutex mutex_;
  std::array<std::unique_ptr<Observer>, Observer::kKinds> owned_;  // guarded by mutex_
};

/// The name of a keyspace for those who share it with other processes.
std::string name_of_keyspace(const Location& location, const KeyNaming& keys);

}  // namespace overlimit::redis
