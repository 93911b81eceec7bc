// One connection, shared by all threads that call on it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis/protocol/breaker.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/protocol/session.hpp"
#include "redis/transport/connector.hpp"
#include "redis/transport/stream.hpp"
#include "redis/transport/synchronization.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

/// Whether ASKING is sent right before a command: a node of a cluster then answers for a slot that it is
/// about to take over.
enum class Asking : std::uint8_t { no, yes };

/// A command to send, encoded.
struct Command {
  std::string_view bytes;
  Asking asking = Asking::no;

  Command(std::string_view encoded, Asking with = Asking::no) : bytes(encoded), asking(with) {}
};

/// Commands that are sent as they are.
inline std::vector<Command> plain_commands(std::span<const std::string> encoded) {
  return {encoded.begin(), encoded.end()};
}

/// One connection from the first attempt to connect to its loss; it never reconnects. No thread belongs to
/// it. One of the callers that wait for replies is the reader: it connects, receives for all, sends what has
/// been queued, and hands over to the caller that waits longest once it has its own reply. A caller that
/// comes while few replies are outstanding sends at once, together with what is queued.
///
/// All functions are called with the lock of the node held by a guard, which releases it during system calls
/// and the caller's own code.
class Connection {
 public:
  /// Does not connect yet. If the handshake is not complete at the deadline, the connection counts as lost.
  Connection(std::shared_ptr<Connector> connector, const Deadline& deadline);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// Sends a command and waits for its reply; throws what Node::call does.
  [[nodiscard]] protocol::Reply call(UnlockableGuard& guard, const Command& command, const Deadline& deadline,
                                     const Interrupted& interrupted);

  /// Sends commands one after the other before it waits for their replies; these are set as they come. Throws
  /// what Node::call does, of the first one without a reply.
  void call_many(UnlockableGuard& guard, std::span<const Command> commands,
                 std::span<std::optional<protocol::Reply>> replies, const Deadline& deadline,
                 const Interrupted& interrupted);

  /// Queues a command for whose reply nobody waits; take() returns the reply once it has come.
  [[nodiscard]] protocol::Ticket submit(std::string_view command, const Deadline& deadline);
  [[nodiscard]] std::optional<protocol::Reply> take(protocol::Ticket ticket) { return session_.take(ticket); }
  void abandon(protocol::Ticket ticket) { session_.abandon(ticket); }

  /// Whether something has come that nobody reads: late replies, or the end of the connection. False without
  /// a check right after a reply.
  [[nodiscard]] bool is_readable() const;
  /// Connects, sends and receives as far as possible before the deadline. False when another thread is the
  /// reader.
  bool poll(UnlockableGuard& guard, const Deadline& deadline);

  [[nodiscard]] bool alive() const noexcept { return session_.alive(); }
  [[nodiscard]] bool is_established() const noexcept { return session_.is_established(); }
  /// How many callers wait for replies.
  [[nodiscard]] std::size_t callers() const noexcept { return callers_; }
  /// Commands without a reply, including those of the handshake and abandoned ones.
  [[nodiscard]] std::size_t in_flight() const noexcept { return session_.unanswered(); }
  [[nodiscard]] const std::optional<protocol::Cause>& out_of_service() const noexcept {
    return session_.out_of_service();
  }
  /// Why the connection is lost.
  [[nodiscard]] const protocol::Cause& cause() const { return session_.cause(); }
  /// Why the loss of this connection opens the breaker; nothing if it was merely closed or is alive.
  [[nodiscard]] std::optional<protocol::Breaker::Reason> breaker_reason() const noexcept;

 private:
  class WaiterSlot;
  class PendingCall;

  [[nodiscard]] protocol::Reply await(UnlockableGuard& guard, PendingCall& call, const Deadline& deadline,
                                      const Interrupted& interrupted);
  [[nodiscard]] WaiterSlot& take_slot();
  [[nodiscard]] WaiterSlot& new_slot();
  void flush(UnlockableGuard& guard);
  [[nodiscard]] Woken wait(UnlockableGuard& guard, WaiterSlot& slot, const Deadline& deadline);
  [[nodiscard]] Woken wait_to_send(UnlockableGuard& guard, const Deadline& deadline);
  [[nodiscard]] Woken read(UnlockableGuard& guard, const Deadline& deadline);
  [[nodiscard]] Woken connect(UnlockableGuard& guard, const Deadline& deadline);
  void process_received(UnlockableGuard& guard, const Transfer& transfer);
  void hand_over_reader(UnlockableGuard& guard);
  void check_timeouts(UnlockableGuard& guard);
  void mark_lost(UnlockableGuard& guard, protocol::Cause cause);
  void notify_all(UnlockableGuard& guard);
  void check_interruption(UnlockableGuard& guard, WaiterSlot& slot, protocol::Ticket ticket,
                          const Interrupted& interrupted);
  [[noreturn]] void time_out(UnlockableGuard& guard, protocol::Ticket ticket);
  [[nodiscard]] Deadline earliest_timeout(const Deadline& deadline) const;
  void note_round_trip(Deadline::Clock::duration taken) noexcept;
  [[nodiscard]] std::size_t window() const noexcept;

  const std::shared_ptr<Connector> connector_;
  const Deadline handshake_deadline_;
  std::unique_ptr<ConnectAttempt> attempt_;  // used by the reader alone, without the lock
  std::unique_ptr<Stream> stream_;           // set once, when attempt_ has succeeded
  protocol::Session session_;

  std::deque<WaiterSlot> slots_;
  std::vector<WaiterSlot*> free_slots_;
  std::size_t callers_ = 0;
  WaiterSlot& polling_slot_;      // of poll(), which reads without a call
  WaiterSlot* reader_ = nullptr;  // the caller that receives
  bool writing_ = false;          // a thread is in send()
  bool is_blocked_ = false;       // the last send() did not take all bytes
  bool cannot_send_ = false;      // the last send() failed
  bool is_silent_ = false;        // it was lost because the server was silent

  Deadline::Clock::duration shortest_round_trip_ = Deadline::Clock::duration::max();
  int round_trips_ = 0;

  std::vector<protocol::Waiter> waiters_;          // reused under the lock
  std::array<char, Stream::kLeastBuffer> buffer_;  // of the reader
};

}  // namespace overlimit::redis::transport
