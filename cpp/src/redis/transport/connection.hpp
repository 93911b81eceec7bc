// One connection, shared by all threads that call on it.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "breaker/breaker.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/protocol/session.hpp"
#include "redis/transport/connector.hpp"
#include "redis/transport/socket.hpp"
#include "redis/transport/synchronization.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

/// Whether ASKING is sent before it, so that a node answers for a slot it is about to take over.
enum class Asking : std::uint8_t { no, yes };

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
/// it: those who wait for replies do what there is to do.
///
/// State        Until                         What callers do
/// -----------  ----------------------------  -----------------------------------------------------------
/// connecting   a stream is connected         the reader goes on connecting, the others wait
/// handshake    its replies have all come     the reader reads; only the handshake is sent
/// established  the server or a fault ends    whoever comes sends all that is queued, unless many replies
///              it, or it is silent           are outstanding; the reader reads for all, and sends then
/// lost         its last caller has left      each takes the reply that came, or throws why it was lost
///
/// A caller  Until                            As
/// --------  -------------------------------  --------------------------------------------------------
/// reads     it has its replies, is away or   the reader, of which there is one at most; then hands over
///           leaves                           to the caller that waits longest
/// waits     its reply is read or it is made  one of the others: on its slot, or while not all bytes could
///           the reader                       be sent, for the stream
/// is away   its own code returns             one whom nobody makes the reader: interrupted() runs
///
/// All functions are called with the lock of the node held by a guard, which releases it during system calls
/// and the caller's own code.
class Connection {
 public:
  /// Does not connect yet. If the handshake is not complete at the deadline, the connection counts as lost;
  /// a caller with a longer timeout gives it that time.
  Connection(std::shared_ptr<Connector> connector, const Deadline& deadline);
  ~Connection();
  /// Sends a command and waits for its reply; throws what Node::call does.
  [[nodiscard]] protocol::Reply call(UnlockableGuard& guard, const Command& command, const Wait& wait);

  /// Sends commands one after the other before it waits for their replies; these are set as they come. Throws
  /// what Node::call does, of the first one without a reply.
  /// In between it calls meanwhile(), if that is given, without the lock.
  void call_many(UnlockableGuard& guard, std::span<const Command> commands,
                 std::span<std::optional<protocol::Reply>> replies, const Wait& wait,
                 const std::function<void()>& meanwhile = {});

  /// Sends a command whose reply is ignored.
  void send(UnlockableGuard& guard, std::string_view command, const Deadline& deadline);

  /// Queues a command for whose reply nobody waits; take() returns the reply once it has come.
  [[nodiscard]] protocol::Ticket submit(std::string_view command, const Deadline& deadline);
  [[nodiscard]] std::optional<protocol::Reply> take(protocol::Ticket ticket) { return session_.take(ticket); }
  void abandon(protocol::Ticket ticket) { session_.abandon(ticket); }
  /// Whether something has come that nobody reads. False without a check right after a reply.
  [[nodiscard]] bool is_readable() const;
  /// Does what is possible before the deadline. False when another thread is the reader.
  bool poll(UnlockableGuard& guard, const Deadline& deadline);
  [[nodiscard]] bool alive() const noexcept { return session_.alive(); }
  [[nodiscard]] bool is_established() const noexcept { return session_.is_established(); }
  [[nodiscard]] std::size_t calls() const noexcept { return calls_; }
  /// Commands without a reply, including those of the handshake and abandoned ones.
  [[nodiscard]] std::size_t in_flight() const noexcept { return session_.unanswered(); }
  [[nodiscard]] const std::optional<Cause>& out_of_service() const noexcept {
    return session_.out_of_service();
  }
  [[nodiscard]] const Cause& cause() const { return session_.cause(); }
  /// Why the loss of this connection opens the breaker; nothing if it was merely closed or is alive.
  [[nodiscard]] std::optional<Breaker::Reason> breaker_reason() const noexcept;

 private:
  class WaiterSlot;
  class Caller;

  enum class State : std::uint8_t { connecting, handshake, established, lost };
  /// By a thread just now; or what the last send() came to: all was taken, not all, or it failed.
  enum class Sending : std::uint8_t { now, ready, blocked, failed };

  [[nodiscard]] State state() const noexcept;
  void give_handshake_time(const Deadline& deadline) noexcept;
  [[nodiscard]] std::string describe() const { return "redis at " + connector_->endpoint().describe(); }
  [[nodiscard]] WaiterSlot& take_slot();
  [[nodiscard]] WaiterSlot& new_slot();
  void flush(UnlockableGuard& guard);
  void gather(UnlockableGuard& guard);
  [[nodiscard]] Woken read(UnlockableGuard& guard, const Deadline& deadline);
  [[nodiscard]] Woken connect(UnlockableGuard& guard, const Deadline& deadline);
  void process_received(UnlockableGuard& guard, const Transfer& transfer);
  void hand_over_reader(UnlockableGuard& guard);
  void check_timeouts(UnlockableGuard& guard);
  void mark_lost(UnlockableGuard& guard, Cause cause);
  void notify_all(UnlockableGuard& guard);
  [[nodiscard]] Deadline earliest_timeout(const Deadline& deadline) const;
  void note_round_trip(Deadline::Clock::duration taken) noexcept;
  [[nodiscard]] std::size_t window() const noexcept;

  const std::shared_ptr<Connector> connector_;
  std::uint64_t number_ = 0;  // once it is open
  const Deadline::Clock::time_point began_ = Deadline::Clock::now();
  Deadline handshake_deadline_;
  std::unique_ptr<ConnectAttempt> attempt_;  // used by the reader alone, without the lock
  std::unique_ptr<Stream> stream_;           // set once, when attempt_ has succeeded
  protocol::Session session_;

  std::list<WaiterSlot> slots_;  // a list may be declared of what is not yet defined, a deque not everywhere
  std::vector<WaiterSlot*> free_slots_;
  std::size_t calls_ = 0;
  WaiterSlot& polling_slot_;      // of poll(), which reads without a call
  WaiterSlot* reader_ = nullptr;  // the caller that receives
  Sending sending_ = Sending::ready;
  bool is_silent_ = false;  // it was lost because the server was silent

  std::optional<std::uint64_t> flushed_in_;  // in which turn of an event loop
  Deadline::Clock::duration shortest_round_trip_ = Deadline::Clock::duration::max();
  int round_trips_ = 0;

  std::vector<protocol::Waiter> waiters_;          // reused under the lock
  std::array<char, Stream::kLeastBuffer> buffer_;  // of the reader
};

}  // namespace overlimit::redis::transport
