// The file in which the processes of a host lease as one, if there is to be one: closed until a lease is
// asked for.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <optional>
#include <string>

#include "overlimit/forks.hpp"
#include "overlimit/redis_leases.hpp"
#include "overlimit/redis_location.hpp"
#include "redis/leases/host_leases.hpp"

namespace overlimit::shared_memory {
class Attachment;
}

namespace overlimit::redis {

/// Of one keyspace. Thread-safe.
class LeaseFile : NonCopyable {
 public:
  LeaseFile() = default;
  ~LeaseFile();

  /// Has leases be those of a file, if none was named before. False: another one was.
  bool name(const LeaseIn& file, const Location& location, std::string keyspace);
  /// Opens what was named, or creates it, unless it is open. Warns, once, if it cannot be had: then leases
  /// are of this process.
  void open() {
    if (state_.load(std::memory_order_relaxed) == State::named) open_it();
  }
  /// The same, and opens its descriptor again if somebody has closed that: to be called now and then.
  void keep_open();
  /// nullptr: there is none that is open.
  [[nodiscard]] HostLeases* leases();
  [[nodiscard]] const std::string& keyspace() const { return keyspace_; }
  /// Has this process no longer count as one that leases, until it asks for a lease again. Returns whether
  /// no other leases from the same keyspace.
  bool leave();

 private:
  enum class State : std::uint8_t { none, named, open, failed };

  void open_it();
  void warn(const StoreConfigError& error);
  void keep(shared_memory::Attachment& opened);

  std::atomic<State> state_{State::none};
  std::atomic<shared_memory::Attachment*> attachment_{nullptr};
  ForkSafeMutex naming_;  // guards what follows, which does not change once it is named
  LeaseIn file_;
  std::optional<Location> location_;
  std::string keyspace_;
};

}  // namespace overlimit::redis
