// The conversation on one connection, without the connection: which bytes go out, which reply is whose.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "overlimit/redis_endpoint.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/protocol/reply_reader.hpp"

namespace overlimit::redis::protocol {

/// A point of the clock of whoever drives a session; the session reads none itself.
using Instant = std::chrono::steady_clock::time_point;

/// A submitted request, until its reply is taken or it is abandoned. Unique within one session.
enum class Ticket : std::uint64_t {};

/// The state of one connection, from its first byte to its loss. The driver sends outgoing(), feeds what
/// it receives and reports the loss of the connection.
///
/// Redis answers in order, so the n-th reply belongs to the n-th request. An abandoned request keeps its
/// place: its reply is read and dropped and never reaches another caller. AUTH and SELECT, as the
/// endpoint asks for them, go first, and requests only once they are granted, so that nothing is ever
/// executed as the wrong user or in the wrong database; if one is refused, every request fails with its
/// error.
///
/// Not thread-safe. Neither copied nor moved.
class Session {
 public:
  explicit Session(const Endpoint& endpoint);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() = default;

  /// Queues one encoded request whose caller waits until `deadline`.
  [[nodiscard]] Ticket submit(std::string_view request, Instant now, Instant deadline);

  /// The bytes to send next; valid until the next submit() or sent().
  [[nodiscard]] std::string_view outgoing() const noexcept;
  /// Whether something is queued that has not been sent, be it held back or not.
  [[nodiscard]] bool has_unsent() const noexcept { return sent_in_queue_ < queue_.size(); }
  /// The first `count` of outgoing() may have left.
  void sent(std::size_t count) noexcept;

  /// Bytes that were received. Malformed or unasked-for replies break the session.
  void feed(std::string_view bytes, Instant now);

  /// The connection is lost, and why. Replies that came before can still be taken.
  void lost(std::string_view reason);

  /// The reply to a request, error replies included, or none while it is outstanding. A reply or a
  /// failure ends the ticket. Throws StoreUnavailable when the session broke first (maybe_charged: bytes of
  /// this request left), or what the refused handshake means.
  [[nodiscard]] std::optional<Reply> take(Ticket ticket);

  /// The caller of an outstanding request has gone; ends the ticket.
  void abandon(Ticket ticket) noexcept;

  /// Whether bytes of an outstanding request may have left.
  [[nodiscard]] bool may_have_left(Ticket ticket) const noexcept;

  /// What to check when this connection gives no answer. A view of a literal.
  [[nodiscard]] std::string_view advice() const noexcept;

  /// False once the session broke or its handshake was refused: it serves no new request.
  [[nodiscard]] bool alive() const noexcept;
  /// Abandoned requests whose replies have not come.
  [[nodiscard]] std::size_t tombstones() const noexcept { return tombstones_; }
  /// Nothing was received for too long while the oldest request waited: four times the time its caller
  /// gave it, at least one second. The peer is gone or hangs.
  [[nodiscard]] bool silent(Instant now) const noexcept;

 private:
  enum class State : std::uint8_t { handshake, waiting, abandoned, answered, ended };

  struct Request {
    State state;
    std::uint64_t begin;  // place of its first byte among all bytes ever queued
    Instant submitted;
    Instant::duration patience;
    Reply reply;
  };

  void handshake();
  void append_handshake(std::initializer_list<std::string_view> command);
  void enqueue(State state, Instant now, Instant deadline);
  void settle(Reply reply);
  void settle_handshake(const Reply& reply);
  void forget_ended() noexcept;
  [[noreturn]] void fail(Request& request);
  [[nodiscard]] Request& at(Ticket ticket) noexcept;
  [[nodiscard]] const Request& at(Ticket ticket) const noexcept;
  [[nodiscard]] bool has_left(const Request& request) const noexcept { return request.begin < sent_; }

  Endpoint endpoint_;
  ReplyReader reader_;

  std::string queue_;  // bytes not yet sent begin at sent_in_queue_
  std::size_t sent_in_queue_ = 0;
  std::size_t greeting_ = 0;   // its first bytes that are the handshake
  std::size_t ungranted_ = 0;  // replies to the handshake that have not come
  std::uint64_t queued_ = 0;   // all bytes ever queued, and of those the sent ones
  std::uint64_t sent_ = 0;

  std::deque<Request> requests_;  // in order; the first `settled_` have their reply
  std::uint64_t first_ = 0;       // the ticket of requests_.front()
  std::size_t settled_ = 0;
  std::size_t tombstones_ = 0;
  Instant last_received_ = Instant::min();

  std::optional<std::string> refused_;  // the error reply to the handshake
  std::optional<std::string> broken_;   // why nothing more will come
};

}  // namespace overlimit::redis::protocol
