// One server and the connections of this process to it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>

#include "overlimit/redis_endpoint.hpp"
#include "redis/protocol/breaker.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/transport/deadline.hpp"
#include "redis/transport/dialer.hpp"
#include "redis/transport/line.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// All calls go over one line; up to two more are used while few are under way on the first. A lost line is
/// replaced by the next call. While the breaker is open calls fail at once; probes are sent and their answers
/// looked for by those calls, none of which waits for longer than half a millisecond.
///
/// Thread-safe. Belongs to one process: a child must neither use nor destroy its parent's.
class Node {
 public:
  /// Connects to nothing.
  explicit Node(const Endpoint& endpoint);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Sends one encoded request and waits for its reply, connecting first where needed, all before the
  /// deadline. An error reply is returned like any other; failures.hpp knows its meaning.
  ///
  /// Throws StoreTimeout; StoreUnavailable (cannot connect, lost the connection, breaker open, too many calls
  /// under way); StoreConfigError (refused credentials, database, certificate or version); WaitInterrupted or
  /// what interrupted() throws. maybe_charged is true exactly when bytes of the request may have left and no
  /// reply says that it was not executed. A request of which bytes left is never sent again.
  [[nodiscard]] protocol::Reply call(const Request& request, const Deadline& deadline,
                                     const Interrupted& interrupted);

  /// Counts a call as failed that got no better answer than this, though it was asked again. Replies of
  /// servers that serve nobody count neither way by themselves.
  void gave_up_at(const protocol::Reply& reply);

  /// Closes the connections, those with calls under way when these end. A later call opens new ones.
  void close();

  [[nodiscard]] protocol::Breaker::State breaker() const;
  [[nodiscard]] const Endpoint& endpoint() const noexcept { return dialer_->endpoint(); }

 private:
  using LinePointer = std::shared_ptr<Line>;

  struct Probe {
    LinePointer line;
    std::optional<protocol::Ticket> ticket;  ///< none: the line's greeting is the question
    Deadline until;
  };

  [[nodiscard]] LinePointer line_for(Turn& turn, const Deadline& deadline);
  [[nodiscard]] LinePointer first_line(Turn& turn, const Deadline& deadline);
  [[nodiscard]] LinePointer spare_line(const Deadline& deadline);
  void pass_breaker(Turn& turn);
  void begin_probe();
  bool look_at_probe(Turn& turn, const Deadline& until);
  [[nodiscard]] bool is_answered();
  void end_probe(protocol::Breaker::Kind kind, const protocol::Cause& cause);
  void forget_lost();
  void forget(LinePointer& line);

  const std::shared_ptr<Dialer> dialer_;
  mutable std::mutex mutex_;
  std::array<LinePointer, 3> lines_;  // guarded by mutex_, as all below; the spare ones follow the first
  protocol::Breaker breaker_;
  std::optional<Probe> probe_;  // there exactly while the breaker is half open
  Deadline::Clock::time_point no_spares_before_{};
};

/// This process's node of an endpoint; it and its connections live as long as somebody holds it. Connects to
/// nothing. Thread-safe.
[[nodiscard]] std::shared_ptr<Node> node_of(const Endpoint& endpoint);

}  // namespace overlimit::redis::transport
