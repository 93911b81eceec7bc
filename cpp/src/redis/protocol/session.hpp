// The protocol state of one connection, without the connection: which bytes go out, and whose a reply is.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/redis_location.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/protocol/reply.hpp"

namespace overlimit::redis::protocol {

using TimePoint = std::chrono::steady_clock::time_point;

/// Names a submitted command until its reply is taken or the command is abandoned. Unique within one session.
enum class Ticket : std::uint64_t {};

/// The caller that waits for a reply, which the session only hands back. Null: nobody waits.
using Waiter = void*;

/// The state of one connection, from its first byte to its loss. The driver sends outgoing(), feeds what it
/// receives and reports the loss of the connection.
///
/// Redis answers in order, so the n-th reply belongs to the n-th command. An abandoned command keeps its
/// place, and its reply is dropped. The handshake is HELLO, which logs in and tells version and role, SELECT
/// for a database, and PING, which shows whether commands are served. Other commands are sent only after it,
/// so that none is executed as the wrong user, in the wrong database or by a server that is too old; if it
/// fails, they fail with its error.
///
/// Not thread-safe, with one exception: the bytes of outgoing() stay where they are until sent(), whatever is
/// submitted, fed or abandoned meanwhile.
class Session {
 public:
  Session(Endpoint endpoint, TimePoint now, TimePoint deadline);
  /// Queues one encoded command whose caller waits until `deadline`.
  [[nodiscard]] Ticket submit(std::string_view command, TimePoint now, TimePoint deadline, Waiter waiter);
  /// Queues one encoded command whose reply is ignored.
  void submit_ignored(std::string_view command, TimePoint now, TimePoint deadline);
  [[nodiscard]] std::string_view outgoing();
  /// The first `count` bytes of the last outgoing() were sent.
  void sent(std::size_t count);
  /// Whether outgoing() has any bytes, and whether these are the rest of what it returned before.
  [[nodiscard]] bool has_outgoing() const noexcept { return is_mid_flush() || may_queue_leave(); }
  [[nodiscard]] bool is_mid_flush() const noexcept { return sent_in_sending_ < sending_.size(); }
  /// The number of writes that were sent and have not been answered in full.
  [[nodiscard]] std::size_t outstanding_flushes() const noexcept { return flushes_.size(); }
  /// Appends the waiters whose replies have come. Malformed or unexpected replies break the session.
  void feed(std::string_view bytes, TimePoint now, std::vector<Waiter>& answered);
  /// Reports why the connection is lost; the first cause counts. Replies that came before can be taken.
  void lost(std::string_view reason);
  void lost(Cause cause);

  /// The reply to a command, which ends the ticket, or none while it is outstanding. Throws what broke the
  /// session, with maybe_charged if bytes of this command may have been sent.
  [[nodiscard]] std::optional<Reply> take(Ticket ticket);

  /// Ends the ticket of an outstanding command whose caller has gone. A command that outgoing() has not
  /// returned is never sent. One that was sent in part, while the rest is blocked, breaks the session.
  void abandon(Ticket ticket);
  /// Whether bytes of an outstanding command may have been sent.
  [[nodiscard]] bool may_have_left(Ticket ticket) const noexcept;
  /// Appends the waiters of outstanding commands, in the order of the commands.
  void waiting(std::vector<Waiter>& waiters) const;
  /// What the user should check when this connection gives no answer. A view of a literal.
  [[nodiscard]] std::string_view advice() const noexcept;
  [[nodiscard]] bool alive() const noexcept { return !broken_; }
  [[nodiscard]] bool is_established() const noexcept { return handshake_replies_left_ == 0; }
  /// What the server answered to the PING of the handshake, if it serves nobody now.
  [[nodiscard]] const std::optional<Cause>& out_of_service() const noexcept { return out_of_service_; }
  [[nodiscard]] const Cause& cause() const { return *broken_; }
  /// The number of commands whose replies have not come, abandoned ones included.
  [[nodiscard]] std::size_t unanswered() const noexcept { return pending_.size() - answered_; }
  /// When bytes were received last; the clock's epoch before that.
  [[nodiscard]] TimePoint last_received() const noexcept { return last_received_; }
  /// When to give the connection up if nothing is received until then: the oldest command will have waited
  /// for four times the timeout of its caller, at least one second.
  [[nodiscard]] TimePoint silent_at() const noexcept;

 private:
  enum class State : std::uint8_t { handshake, waiting, abandoned, withdrawn, answered, ended };

  struct PendingCommand {
    State state;
    std::uint64_t begin;  // the offset of its first byte among all bytes ever queued
    std::uint64_t end;
    TimePoint submitted;
    TimePoint::duration silence;  // how long the server may send nothing
    Waiter waiter;
    Reply reply;
  };

  void queue_handshake(const std::vector<std::string_view>& arguments, TimePoint now, TimePoint deadline);
  void enqueue(State state, std::string_view command, TimePoint now, TimePoint deadline, Waiter waiter);
  void assign_reply(Reply&& reply, std::vector<Waiter>& answered);
  void check_handshake_reply(const Reply& reply);
  void pop_ended() noexcept;
  void skip_withdrawn() noexcept;
  void withdraw(std::size_t index);
  [[noreturn]] void fail(PendingCommand& command);
  [[nodiscard]] bool may_queue_leave() const noexcept {
    return handshake_replies_left_ == 0 && !queue_.empty();
  }
  [[nodiscard]] std::size_t index_of(Ticket ticket) const noexcept;
  [[nodiscard]] bool has_left(const PendingCommand& command) const noexcept {
    return command.begin < offered_;
  }

  Endpoint endpoint_;
  ReplyReader reader_;

  std::string sending_;  // returned by outgoing(); the first `sent_in_sending_` bytes are sent
  std::size_t sent_in_sending_ = 0;
  std::string queue_;         // to be sent after that
  std::uint64_t queued_ = 0;  // all bytes ever queued, and how many of them were offered and sent
  std::uint64_t offered_ = 0;
  std::uint64_t sent_ = 0;

  std::deque<PendingCommand>
      pending_;              // in order; the first `answered_` of them wait for no reply, the next one does
  std::uint64_t first_ = 0;  // the ticket of pending_.front()
  std::size_t answered_ = 0;
  std::size_t handshake_replies_left_ = 0;  // replies that have not come yet
  std::deque<std::uint64_t> flushes_;       // the last byte of each write
  TimePoint last_received_{};
  bool has_received_ = false;

  std::optional<Cause> out_of_service_;
  std::optional<Cause> broken_;  // why the session is broken
};

}  // namespace overlimit::redis::protocol
