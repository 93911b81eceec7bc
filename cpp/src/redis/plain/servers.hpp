// The servers of one store, and what is asked of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/errors.hpp"
#include "overlimit/redis_location.hpp"
#include "overlimit/store.hpp"
#include "redis/protocol/cluster_slots.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/transport/first_error.hpp"
#include "redis/transport/per_process.hpp"
#include "redis/transport/topology.hpp"
#include "redis/transport/waiting.hpp"
#include "redis/wire/script_call.hpp"

namespace overlimit::redis {

using transport::FirstError;

/// The error that says how long the timeout is.
[[nodiscard]] StoreTimeout naming(Duration timeout, const StoreTimeout& error);

/// Does something, and says in a StoreTimeout how long the timeout is.
void naming_timeout(Duration timeout, const auto& action) {
  try {
    action();
  } catch (const StoreTimeout& error) {
    throw naming(timeout, error);
  }
}

/// Whether no other server, and not the same one again, has another answer.
bool is_final(const protocol::Reply& reply);

/// Thread-safe. Throws as Topology::call does, and the errors that a reply means.
class Servers {
 public:
  using Slot = protocol::Slot;
  using Wait = transport::Wait;

  Servers(Location location, Duration timeout);

  [[nodiscard]] const Location& location() const { return *location_; }
  /// Those that all threads of this process use, or those of the event loop whose fiber runs in this thread.
  [[nodiscard]] transport::Topology& topology();
  [[nodiscard]] Duration timeout() const { return timeout_; }
  [[nodiscard]] transport::Deadline deadline() const;
  /// Of a call with this key; none when keys have no slots.
  [[nodiscard]] std::optional<Slot> slot_of(std::string_view key);

  /// What the next command for a key goes through.
  [[nodiscard]] transport::Link link_of(std::string_view key) { return topology().link(slot_of(key)); }

  /// The same, through a connection that is open: one is made if there is none. Nothing is charged by that.
  transport::Link open_link_of(std::string_view key, const Wait& wait);

  /// Runs a script, whose text is sent along if the server turns out not to have it.
  protocol::Reply run(const ScriptCall& script, const Wait& wait);
  protocol::Reply run(const ScriptCall& script, const Interrupted& interrupted);
  /// Sends a command for whose reply nobody waits, before any that is sent from now on.
  void send(const std::string& command, std::string_view key, const Wait& wait);
  /// Throws what a reply says that is an error.
  [[nodiscard]] protocol::Reply checked(protocol::Reply reply) const;
  /// How many replies were none.
  [[nodiscard]] std::uint64_t answers() const { return answers_.load(std::memory_order_relaxed); }

  /// Removes keys.
  void reset(const std::vector<std::string>& keys, const Interrupted& interrupted);
  /// Calls action(keys) with all keys like one of these patterns, up to some thousand at a time.
  using Action = std::function<void(const std::vector<std::string>&)>;
  void for_each_page(std::span<const std::string> patterns, const Action& action,
                     const Interrupted& interrupted);
  /// Removes keys without waiting for their memory.
  void unlink(const std::vector<std::string>& keys, const Interrupted& interrupted);
  /// How long an answer takes: of a write to this key that changes nothing, and of every server of a cluster.
  Duration ping(const std::string& key, const Wait& wait);

 private:
  void remove(std::string_view command, const std::vector<std::string>& keys, const Wait& wait);
  void scan(const transport::Topology::Server& server, const std::string& pattern, const Action& action,
            const Interrupted& interrupted);
  Duration write_nothing(const std::string& key, const Wait& wait);
  Duration ping_each_server(const Wait& wait);

  const std::shared_ptr<const Location> location_;
  const Duration timeout_;
  mutable std::atomic<std::uint64_t> answers_{0};
  transport::PerProcess<std::shared_ptr<transport::Topology>> topology_;
};

}  // namespace overlimit::redis
