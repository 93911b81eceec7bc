// One server and the connections of this process to it.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "breaker/breaker.hpp"
#include "overlimit/redis_location.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/transport/connection.hpp"
#include "redis/transport/connector.hpp"
#include "redis/transport/link.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

/// All calls use one connection, and up to two more while few calls wait on the first. A lost connection is
/// replaced by the next call. While the breaker is open calls fail at once; they send the probes and check
/// for the answers, for half a millisecond at most. Thread-safe. Of one process: a forked child must neither
/// use nor destroy it.
class Node {
 public:
  /// Does not connect.
  explicit Node(const Endpoint& endpoint);

  /// Sends one encoded command and waits for its reply, connecting first where needed, all before the
  /// deadline. Error replies are returned like others; failures.hpp classifies them.
  ///
  /// Throws StoreTimeout; StoreUnavailable (cannot connect, lost the connection, breaker open, too many calls
  /// under way); StoreConfigError (refused credentials, database, certificate or version); WaitInterrupted or
  /// what interrupted() throws. maybe_charged is true exactly when bytes of the command may have been sent
  /// and no reply says that it was not executed. A command of which bytes were sent is never sent again.
  [[nodiscard]] protocol::Reply call(const Command& command, const Wait& wait);

  /// The same for several commands, which are all sent before it waits for a reply. In between it calls
  /// meanwhile(), if that is given, which may wait, for each connection that it tries. Replies are set as
  /// they come; it throws for the first one that does not.
  void call_many(std::span<const Command> commands, std::span<std::optional<protocol::Reply>> replies,
                 const Wait& wait, const std::function<void()>& meanwhile = {});

  /// Sends a command for whose reply nobody waits, if a connection is open and the breaker closed.
  void send(std::string_view command, const Wait& wait);

  /// Counts a call as failed if its last reply, after all retries, is that of a server out of service. Before
  /// the last, such replies count neither as success nor as failure.
  void record_final_reply(const protocol::Reply& reply);
  [[nodiscard]] std::optional<std::chrono::seconds> certificate_left() {
    return connector_->certificate_left();
  }
  /// Connections with calls in flight close when these end. A later call opens new ones.
  void close();
  [[nodiscard]] Breaker::State breaker() const;
  [[nodiscard]] const Endpoint& endpoint() const noexcept { return connector_->endpoint(); }
  [[nodiscard]] Link link();

 private:
  using ConnectionPointer = std::shared_ptr<Connection>;

  struct Probe {
    ConnectionPointer connection;
    std::optional<protocol::Ticket> ticket;  ///< none: the connection's handshake is the probe
    Deadline until;
  };

  template <class Action>
  auto on_connection(const Deadline& deadline, const Action& action);
  [[nodiscard]] ConnectionPointer connection_for(UnlockableGuard& guard, const Deadline& deadline);
  [[nodiscard]] ConnectionPointer first_connection(UnlockableGuard& guard, const Deadline& deadline);
  [[nodiscard]] ConnectionPointer spare_connection(const Deadline& deadline);
  void pass_breaker(UnlockableGuard& guard);
  void begin_probe();
  bool check_probe(UnlockableGuard& guard, const Deadline& until);
  [[nodiscard]] bool is_answered();
  void end_probe(Breaker::Reason reason, const Cause& cause);
  void remove_lost();
  void notice_loss(UnlockableGuard& guard);
  void remove(ConnectionPointer& connection);

  const std::shared_ptr<Connector> connector_;
  const std::size_t server_;
  mutable std::mutex mutex_;
  std::array<ConnectionPointer, 3>
      connections_;  // guarded by mutex_, as all below; the first, then the spare ones
  Breaker breaker_;
  std::optional<Probe> probe_;  // set exactly while the breaker is half open
  Deadline::Clock::time_point no_spares_before_{};
};

/// This process's node of an endpoint, which lives as long as a pointer to it. Thread-safe.
[[nodiscard]] std::shared_ptr<Node> node_of(const Endpoint& endpoint);

}  // namespace overlimit::redis::transport
