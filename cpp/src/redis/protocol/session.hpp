// The conversation on one connection, without the connection: which bytes go out, which reply is whose.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/redis_endpoint.hpp"
#include "redis/protocol/cause.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/protocol/reply_reader.hpp"

namespace overlimit::redis::protocol {

/// A point of the clock of whoever drives a session; the session reads none itself.
using Instant = std::chrono::steady_clock::time_point;

/// A submitted request, until its reply is taken or it is abandoned. Unique within one session.
enum class Ticket : std::uint64_t {};

/// Who waits for a reply; the session only hands it back. Null: nobody.
using Waiter = void*;

/// The state of one connection, from its first byte to its loss. The driver sends outgoing(), feeds what
/// it receives and reports the loss of the connection.
///
/// Redis answers in order, so the n-th reply belongs to the n-th request. An abandoned request keeps its
/// place: its reply is read and dropped and never reaches another caller. A greeting goes first: HELLO, which
/// logs in and tells who the server is, SELECT if the endpoint asks for a database, and PING, which tells
/// whether it serves anybody. Requests follow only once it is granted, so that nothing is ever executed
/// as the wrong user, in the wrong database or by a server that is too old; if it is refused, every request
/// fails with that.
///
/// Not thread-safe, but for one thing: the bytes of outgoing() stay where they are until sent(), whatever is
/// submitted, fed or abandoned meanwhile. Neither copied nor moved.
class Session {
 public:
  Session(const Endpoint& endpoint, Instant now, Instant deadline);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() = default;

  /// Queues one encoded request whose caller waits until `deadline`.
  [[nodiscard]] Ticket submit(std::string_view request, Instant now, Instant deadline, Waiter waiter);
  /// Queues one encoded request to whose reply nobody listens.
  void submit_unheard(std::string_view request, Instant now, Instant deadline);

  /// The bytes to send next.
  [[nodiscard]] std::string_view outgoing();
  /// The first `count` of the last outgoing() have left.
  void sent(std::size_t count);
  /// Whether outgoing() has anything, and whether that is the rest of what was offered before.
  [[nodiscard]] bool has_outgoing() const noexcept { return is_mid_flush() || may_queue_leave(); }
  [[nodiscard]] bool is_mid_flush() const noexcept { return sent_in_sending_ < sending_.size(); }
  /// How much of what was offered in one piece has left and has not been answered in full.
  [[nodiscard]] std::size_t outstanding_flushes() const noexcept { return flushes_.size(); }

  /// Bytes that were received; appends who got a reply. Malformed or unasked-for replies break the session.
  void feed(std::string_view bytes, Instant now, std::vector<Waiter>& answered);

  /// The connection is lost, and why. Replies that came before can still be taken. The first cause counts.
  void lost(std::string_view reason);
  void lost(Cause cause);

  /// The reply to a request, error replies included, or none while it is outstanding. A reply or a
  /// failure ends the ticket. Throws what broke the session first; maybe_charged: bytes of this request left.
  [[nodiscard]] std::optional<Reply> take(Ticket ticket);

  /// The caller of an outstanding request has gone; ends the ticket. Of a request that was not offered to be
  /// sent nothing will be; one that was sent in part and is stuck breaks the session.
  void abandon(Ticket ticket);

  /// Whether bytes of an outstanding request may have left.
  [[nodiscard]] bool may_have_left(Ticket ticket) const noexcept;

  /// Appends who waits for a reply, in the order of their requests.
  void waiting(std::vector<Waiter>& waiters) const;

  /// What to check when this connection gives no answer. A view of a literal.
  [[nodiscard]] std::string_view advice() const noexcept;

  /// False once the session broke: it serves no new request.
  [[nodiscard]] bool alive() const noexcept { return !broken_; }
  /// Whether the server has granted the greeting.
  [[nodiscard]] bool greeted() const noexcept { return ungranted_ == 0; }
  /// What the server answered to the PING of its greeting, if that was that it serves nobody now.
  [[nodiscard]] const std::optional<Cause>& out_of_service() const noexcept { return out_of_service_; }
  /// Why it broke.
  [[nodiscard]] const Cause& cause() const { return *broken_; }
  /// Requests whose replies have not come, the abandoned ones included.
  [[nodiscard]] std::size_t unanswered() const noexcept { return requests_.size() - settled_; }
  /// When bytes came last; the clock's epoch before the first.
  [[nodiscard]] Instant last_received() const noexcept { return last_received_; }
  /// When nothing will have been received for too long while the oldest request waited: for four times the
  /// time its caller gave it, at least one second. The peer is gone or hangs then.
  [[nodiscard]] Instant silent_at() const noexcept;

 private:
  enum class State : std::uint8_t { greeting, waiting, abandoned, withdrawn, answered, ended };

  struct Request {
    State state;
    std::uint64_t begin;  // place of its first byte among all bytes ever queued
    std::uint64_t end;
    Instant submitted;
    Instant::duration patience;
    Waiter waiter;
    Reply reply;
  };

  void greet(std::initializer_list<std::string_view> command, Instant now, Instant deadline);
  void enqueue(State state, std::string_view request, Instant now, Instant deadline, Waiter waiter);
  void settle(Reply reply, std::vector<Waiter>& answered);
  void settle_greeting(const Reply& reply);
  void forget_ended() noexcept;
  void skip_withdrawn() noexcept;
  void withdraw(std::size_t index);
  [[noreturn]] void fail(Request& request);
  [[nodiscard]] bool may_queue_leave() const noexcept { return ungranted_ == 0 && !queue_.empty(); }
  [[nodiscard]] std::size_t index_of(Ticket ticket) const noexcept;
  [[nodiscard]] bool has_left(const Request& request) const noexcept { return request.begin < offered_; }

  Endpoint endpoint_;
  ReplyReader reader_;

  std::string sending_;  // offered to be sent; of these `sent_in_sending_` have left
  std::size_t sent_in_sending_ = 0;
  std::string queue_;         // follows
  std::uint64_t queued_ = 0;  // all bytes ever queued, and of those the ones offered and sent
  std::uint64_t offered_ = 0;
  std::uint64_t sent_ = 0;

  std::deque<Request> requests_;  // in order; the first `settled_` wait for no reply, the next one does
  std::uint64_t first_ = 0;       // the ticket of requests_.front()
  std::size_t settled_ = 0;
  std::size_t ungranted_ = 0;          // replies to the greeting that have not come
  std::deque<std::uint64_t> flushes_;  // the last byte of each piece that left
  Instant last_received_{};
  bool heard_ = false;  // anything at all

  std::optional<Cause> out_of_service_;
  std::optional<Cause> broken_;  // why nothing more will come
};

}  // namespace overlimit::redis::protocol
