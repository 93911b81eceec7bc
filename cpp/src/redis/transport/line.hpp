// One connection, shared by all threads that call on it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "redis/protocol/breaker.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/protocol/session.hpp"
#include "redis/transport/belfry.hpp"
#include "redis/transport/dialing.hpp"
#include "redis/transport/stream.hpp"
#include "redis/transport/turn.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// Whether a request is preceded by ASKING, in one piece with it: a node of a cluster then answers for a slot
/// that it is about to take over.
enum class Asking : std::uint8_t { no, yes };

/// An encoded request.
struct Request {
  std::string_view bytes;
  Asking asking = Asking::no;
};

/// A connection from its first step to its loss; there is no second life. No thread belongs to it: of those
/// who wait for replies one is the reader, who connects, receives for all and sends what has piled up, until
/// it has its own reply and hands over to the caller who waits longest. Whoever comes while few replies are
/// outstanding sends at once, and what others have left with it.
///
/// Everything is called under the lock of the node, as a Turn which is let go of during system calls and the
/// caller's own code.
class Line {
 public:
  /// Connects to nothing yet. If the server has not granted its greeting by the deadline, it counts as lost.
  Line(std::shared_ptr<Dialer> dialer, const Deadline& deadline);
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line();

  /// Sends a request and waits for its reply; throws what Node::call does.
  [[nodiscard]] protocol::Reply call(Turn& turn, const Request& request, const Deadline& deadline,
                                     const Interrupted& interrupted);

  /// Sends a request for whose reply nobody waits; take() tells what became of it.
  [[nodiscard]] protocol::Ticket submit(std::string_view request, const Deadline& deadline);
  [[nodiscard]] std::optional<protocol::Reply> take(protocol::Ticket ticket) { return session_.take(ticket); }
  void abandon(protocol::Ticket ticket) { session_.abandon(ticket); }

  /// Whether something came that nobody reads: late replies, or the end. Not asked right after a reply.
  [[nodiscard]] bool is_readable() const;
  /// Connects, sends and receives what can be before the deadline; false when another thread is at it.
  bool pump(Turn& turn, const Deadline& deadline);

  [[nodiscard]] bool alive() const noexcept { return session_.alive(); }
  [[nodiscard]] bool greeted() const noexcept { return session_.greeted(); }
  /// Who waits for a reply.
  [[nodiscard]] std::size_t callers() const noexcept { return callers_; }
  /// Requests without a reply, the greeting and the abandoned ones included.
  [[nodiscard]] std::size_t in_flight() const noexcept { return session_.unanswered(); }
  [[nodiscard]] const std::optional<protocol::Cause>& out_of_service() const noexcept {
    return session_.out_of_service();
  }
  /// Why it is lost.
  [[nodiscard]] const protocol::Cause& cause() const { return session_.cause(); }
  /// What its loss says of the server: nothing when it was merely closed, or lives.
  [[nodiscard]] std::optional<protocol::Breaker::Kind> verdict() const noexcept;

 private:
  class Seat;
  class Visit;

  [[nodiscard]] Seat& take_seat();
  [[nodiscard]] Seat& new_seat();
  void flush(Turn& turn);
  [[nodiscard]] Woken wait(Turn& turn, Seat& seat, const Deadline& deadline);
  [[nodiscard]] Woken wait_to_send(Turn& turn, const Deadline& deadline);
  [[nodiscard]] Woken read(Turn& turn, const Deadline& deadline);
  [[nodiscard]] Woken dial(Turn& turn, const Deadline& deadline);
  void absorb(Turn& turn, const Transfer& transfer);
  void hand_over(Turn& turn);
  void look_at_clock(Turn& turn);
  void break_off(Turn& turn, protocol::Cause cause);
  void wake_all(Turn& turn);
  void ask(Turn& turn, Seat& seat, protocol::Ticket ticket, const Interrupted& interrupted);
  [[noreturn]] void time_out(Turn& turn, protocol::Ticket ticket);
  [[nodiscard]] Deadline earliest(const Deadline& deadline) const;
  void note_round_trip(Deadline::Clock::duration taken) noexcept;
  [[nodiscard]] std::size_t window() const noexcept;

  const std::shared_ptr<Dialer> dialer_;
  const Deadline greeted_by_;
  std::unique_ptr<Dialing> dialing_;  // used by the reader alone, without the lock
  std::unique_ptr<Stream> stream_;    // set once, when dialing_ is done
  protocol::Session session_;

  std::deque<Seat> seats_;
  std::vector<Seat*> free_seats_;
  std::size_t callers_ = 0;
  Seat& pumping_;           // of a reader who doesn't wait
  Seat* reader_ = nullptr;  // whose turn it is to receive
  bool writing_ = false;    // somebody sends
  bool stuck_ = false;      // the last attempt to send could not send all
  bool is_deaf_ = false;    // nothing more can be sent
  bool is_silent_ = false;  // it was lost for that

  Deadline::Clock::duration shortest_round_trip_ = Deadline::Clock::duration::max();
  int round_trips_ = 0;

  std::vector<protocol::Waiter> waiters_;          // reused by those who hold the lock
  std::array<char, Stream::kLeastBuffer> buffer_;  // of the reader
};

}  // namespace overlimit::redis::transport
