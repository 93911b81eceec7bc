// The connections of one process to one Redis server: what the store talks through.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "overlimit/redis_endpoint.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/transport/deadline.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// One connection per thread that calls, opened by its first call and closed when the thread ends. A
/// connection that was lost is opened again by the next call. A child of fork() gets connections of its
/// own; the parent's are left undisturbed.
///
/// Thread-safe; only the destructor must not run during a call. Threads may outlive it.
class Connections {
 public:
  /// Connects to nothing.
  explicit Connections(Endpoint endpoint);
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;
  ~Connections();

  /// Sends one encoded request and waits for its reply, connecting first where needed, all before the
  /// deadline. An error reply is returned like any other; failures.hpp knows its meaning.
  ///
  /// Throws StoreTimeout, StoreUnavailable (cannot connect, or lost the connection), StoreConfigError
  /// (refused credentials or database), and WaitInterrupted or what interrupted() throws. maybe_charged is
  /// true exactly when bytes of the request may have left and no reply says that it was not executed. A
  /// request of which bytes left is never sent again.
  [[nodiscard]] protocol::Reply call(std::string_view request, const Deadline& deadline,
                                     const Interrupted& interrupted = {});

  /// Closes this process's connections, those with a call under way when that ends. A later call opens
  /// new ones.
  void close();

  [[nodiscard]] const Endpoint& endpoint() const noexcept { return endpoint_; }

 private:
  class Process;

  [[nodiscard]] Process& process();
  [[nodiscard]] Process& renew(Process* of_parent);

  const Endpoint endpoint_;
  std::atomic<Process*> process_;  // owned, unless it is of a parent process
};

}  // namespace overlimit::redis::transport
