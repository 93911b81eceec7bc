#include "redis/transport/line.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "overlimit/errors.hpp"
#include "redis/transport/pause.hpp"

namespace overlimit::redis::transport {

using protocol::Breaker;
using protocol::Cause;
using protocol::Instant;
using protocol::Reply;
using protocol::Ticket;

namespace {

using Clock = Deadline::Clock;
using namespace std::chrono_literals;

// How many pieces may be sent before the first is answered, by the time a reply takes: on a long way waiting
// costs more than many small packets do, on a short one it is the other way round.
constexpr auto kRoundTripPerFlush = 25us;
constexpr std::int64_t kLeastFlushes = 2;
constexpr std::int64_t kMostFlushes = 64;
constexpr int kRoundTripsRemembered = 1024;
// So soon after a reply nobody looks whether the connection was closed: a client that has the server close it
// needs a round trip for that, which takes longer.
constexpr auto kFresh = 10us;
constexpr std::string_view kAsking = "*1\r\n$6\r\nASKING\r\n";

/// The error of an action, if it is one of the store's.
template <class Action>
std::optional<Cause> failure_of(const Action& action) {
  try {
    action();
  } catch (const StoreError& error) {
    return Cause::of(error);
  }
  return std::nullopt;
}

/// Until something can be received or sent.
Woken wait_for_both(const Stream& stream, const Deadline& deadline) {
  const auto events = static_cast<short>(stream.receiving_events() | stream.sending_events());
  return wait_for(stream.fd(), events, deadline);
}

}  // namespace

/// Where a caller waits.
class Line::Seat {
 public:
  Seat(std::shared_ptr<Belfry> hangs_in, Belfry::Bells its_bell)
      : belfry(std::move(hangs_in)), bell(its_bell) {}

  const std::shared_ptr<Belfry> belfry;  // shared with the next seats, and with those who are about to ring
  const Belfry::Bells bell;
  bool is_away = false;  // runs code of its own and cannot read for others
};

/// A caller's presence on a line, given up however it ends, but in a child that was forked meanwhile.
class Line::Visit {
 public:
  Visit(Line& line, Turn& turn, const Request& request, const Deadline& deadline)
      : line_(line), turn_(turn), seat_(line.take_seat()) {
    const Instant now = Clock::now();
    if (request.asking == Asking::yes) line_.session_.submit_unheard(kAsking, now, deadline.at());
    ticket_ = line_.session_.submit(request.bytes, now, deadline.at(), &seat_);
    if (line_.in_flight() == 1) alone_since_ = now;
    ++line_.callers_;
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  ~Visit() {
    if (!turn_.is_held()) return;
    if (!is_over_) line_.session_.abandon(ticket_);
    if (line_.reader_ == &seat_) line_.hand_over(turn_);
    if (!line_.alive()) line_.wake_all(turn_);
    line_.free_seats_.push_back(&seat_);
    --line_.callers_;
  }

  [[nodiscard]] Seat& seat() noexcept { return seat_; }
  [[nodiscard]] Ticket ticket() const noexcept { return ticket_; }

  [[nodiscard]] std::optional<Reply> take() {
    std::optional<Reply> reply = line_.session_.take(ticket_);
    if (!reply) return reply;
    is_over_ = true;
    if (alone_since_) line_.note_round_trip(Clock::now() - *alone_since_);
    return reply;
  }

 private:
  Line& line_;
  Turn& turn_;
  Seat& seat_;
  Ticket ticket_{};
  std::optional<Instant> alone_since_;  // when it was the only one under way
  bool is_over_ = false;
};

Line::Line(std::shared_ptr<Dialer> dialer, const Deadline& deadline)
    : dialer_(std::move(dialer)),
      greeted_by_(deadline),
      dialing_(std::make_unique<Dialing>(dialer_, deadline)),
      session_(dialer_->endpoint(), Clock::now(), deadline.at()),
      pumping_(new_seat()) {}

Line::~Line() = default;

Line::Seat& Line::take_seat() {
  if (free_seats_.empty()) return new_seat();
  Seat& seat = *free_seats_.back();
  free_seats_.pop_back();
  seat.is_away = false;
  return seat;
}

Line::Seat& Line::new_seat() {
  const auto bell = static_cast<unsigned>(seats_.size()) % Belfry::kBells;
  auto belfry = bell == 0 ? std::make_shared<Belfry>() : seats_.back().belfry;
  return seats_.emplace_back(std::move(belfry), Belfry::Bells{1} << bell);
}

Reply Line::call(Turn& turn, const Request& request, const Deadline& deadline,
                 const Interrupted& interrupted) {
  Visit visit(*this, turn, request, deadline);
  Woken woken = Woken::by_event;
  for (;;) {
    flush(turn);
    if (std::optional<Reply> reply = visit.take()) return std::move(*reply);
    if (woken == Woken::by_deadline && deadline.passed()) time_out(turn, visit.ticket());
    woken = wait(turn, visit.seat(), deadline);
    if (woken == Woken::by_signal) ask(turn, visit.seat(), visit.ticket(), interrupted);
  }
}

Ticket Line::submit(std::string_view request, const Deadline& deadline) {
  return session_.submit(request, Clock::now(), deadline.at(), nullptr);
}

bool Line::is_readable() const {
  return reader_ == nullptr && stream_ && Clock::now() - session_.last_received() > kFresh &&
         is_ready(stream_->fd(), stream_->receiving_events());
}

bool Line::pump(Turn& turn, const Deadline& deadline) {
  if (reader_ != nullptr) return false;
  reader_ = &pumping_;
  (void)read(turn, deadline);
  hand_over(turn);
  flush(turn);
  return true;
}

void Line::flush(Turn& turn) {
  while (stream_ && !writing_ && !is_deaf_ && alive() && session_.has_outgoing() &&
         (session_.is_mid_flush() || session_.outstanding_flushes() < window())) {
    const std::string_view bytes = session_.outgoing();
    const std::size_t offered = bytes.size();
    Transfer transfer;
    std::optional<Cause> failure;
    writing_ = true;
    turn.without([&] { failure = failure_of([&] { transfer = stream_->send(bytes); }); });
    writing_ = false;
    session_.sent(transfer.count);
    if (failure) return break_off(turn, std::move(*failure));
    // Whoever refuses to hear has perhaps said why: the reader will find that, or the end.
    is_deaf_ = static_cast<bool>(transfer.error);
    stuck_ = transfer.count < offered;
    if (stuck_) return;
  }
}

Woken Line::wait(Turn& turn, Seat& seat, const Deadline& deadline) {
  if (reader_ == nullptr) reader_ = &seat;
  if (reader_ == &seat) return read(turn, deadline);
  if (stuck_ && !is_deaf_ && stream_) return wait_to_send(turn, deadline);
  const std::uint32_t since = seat.belfry->count();
  Woken woken = Woken::by_event;
  turn.waiting([&] { woken = seat.belfry->wait(seat.bell, since, deadline); });
  return woken;
}

Woken Line::wait_to_send(Turn& turn, const Deadline& deadline) {
  Woken woken = Woken::by_event;
  turn.waiting([&] { woken = wait_for_both(*stream_, deadline); });
  return woken;
}

Woken Line::read(Turn& turn, const Deadline& deadline) {
  if (dialing_) return dial(turn, deadline);
  const Deadline until = earliest(deadline);
  const bool sends = stuck_ && !is_deaf_;
  Transfer transfer;
  std::optional<Cause> failure;
  Woken woken = Woken::by_event;
  turn.waiting([&] {
    failure = failure_of([&] {
      if (sends) woken = wait_for_both(*stream_, until);
      if (woken != Woken::by_event) return;
      woken =
          stream_->receive_within(buffer_.data(), buffer_.size(), sends ? Deadline(0us) : until, transfer);
    });
  });
  if (failure) {
    break_off(turn, std::move(*failure));
  } else {
    absorb(turn, transfer);
  }
  if (woken == Woken::by_deadline) look_at_clock(turn);
  return woken;
}

Woken Line::dial(Turn& turn, const Deadline& deadline) {
  const Deadline until = earliest(deadline);
  std::unique_ptr<Stream> stream;
  std::optional<Cause> failure;
  Woken woken = Woken::by_event;
  turn.waiting([&] {
    failure = failure_of([&] { stream = dialing_->step(); });
    if (!failure && !stream) woken = dialing_->wait(until);
  });
  if (failure) break_off(turn, std::move(*failure));
  if (stream) {
    stream_ = std::move(stream);
    dialing_.reset();
  }
  if (woken == Woken::by_deadline) look_at_clock(turn);
  return woken;
}

void Line::absorb(Turn& turn, const Transfer& transfer) {
  waiters_.clear();
  if (transfer.count > 0) session_.feed({buffer_.data(), transfer.count}, Clock::now(), waiters_);
  for (protocol::Waiter waiter : waiters_) {
    auto* const seat = static_cast<Seat*>(waiter);
    if (seat != nullptr && seat != reader_) turn.wake(seat->belfry, seat->bell);
  }
  if (transfer.end) session_.lost("the server closed it");
  if (transfer.error) session_.lost(transfer.error.message());
  if (!alive()) wake_all(turn);
}

/// To the one who waits longest, who is woken before those that only have to take their replies.
void Line::hand_over(Turn& turn) {
  reader_ = nullptr;
  waiters_.clear();
  session_.waiting(waiters_);
  const auto next = std::ranges::find_if(waiters_, [](protocol::Waiter waiter) {
    return waiter != nullptr && !static_cast<Seat*>(waiter)->is_away;
  });
  if (next == waiters_.end()) return;
  reader_ = static_cast<Seat*>(*next);
  turn.wake_first(reader_->belfry, reader_->bell);
}

void Line::wake_all(Turn& turn) {
  waiters_.clear();
  session_.waiting(waiters_);
  for (protocol::Waiter waiter : waiters_) {
    const auto* const seat = static_cast<Seat*>(waiter);
    if (seat != nullptr) turn.wake(seat->belfry, seat->bell);
  }
  // Whoever is the reader may be waiting for the stream.
  if (stream_ && reader_ != nullptr) stream_->shut_down();
}

Deadline Line::earliest(const Deadline& deadline) const {
  Instant at = std::min(deadline.at(), session_.silent_at());
  if (!greeted()) at = std::min(at, greeted_by_.at());
  return Deadline(at);
}

void Line::look_at_clock(Turn& turn) {
  if (!alive()) return;
  const std::string where = "redis at " + dialer_->endpoint().describe();
  if (!greeted() && greeted_by_.passed()) {
    is_silent_ = true;
    const std::string what = dialing_ ? "connecting to " + where + " took longer than the timeout"
                                      : where + " did not greet back within the timeout";
    return break_off(turn, Cause::of(StoreTimeout(what + "; " + std::string(session_.advice()))));
  }
  if (Clock::now() < session_.silent_at()) return;
  is_silent_ = true;
  break_off(turn, Cause::unavailable(where + " kept silent for so long that the connection was given up; " +
                                     std::string(session_.advice())));
}

void Line::break_off(Turn& turn, Cause cause) {
  session_.lost(std::move(cause));
  wake_all(turn);
}

/// Lets others read meanwhile, also a call from within that code.
void Line::ask(Turn& turn, Seat& seat, Ticket ticket, const Interrupted& interrupted) {
  seat.is_away = true;
  if (reader_ == &seat) hand_over(turn);
  try {
    turn.waiting([&] { heed_signal(interrupted); });
  } catch (const WaitInterrupted&) {
    throw WaitInterrupted(session_.may_have_left(ticket));
  }
  seat.is_away = false;
}

void Line::time_out(Turn& turn, Ticket ticket) {
  look_at_clock(turn);
  if (!alive()) (void)session_.take(ticket);
  throw StoreTimeout("redis at " + dialer_->endpoint().describe() + " did not answer within the timeout; " +
                         std::string(session_.advice()),
                     session_.may_have_left(ticket));
}

void Line::note_round_trip(Clock::duration taken) noexcept {
  const bool forgets = ++round_trips_ % kRoundTripsRemembered == 0;
  shortest_round_trip_ = forgets ? taken : std::min(shortest_round_trip_, taken);
}

std::size_t Line::window() const noexcept {
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(shortest_round_trip_ / kRoundTripPerFlush, kLeastFlushes, kMostFlushes));
}

std::optional<Breaker::Kind> Line::verdict() const noexcept {
  if (alive()) return std::nullopt;
  if (is_silent_ || cause().is_timeout()) return Breaker::Kind::silent;
  if (greeted()) return std::nullopt;
  return cause().is_config() ? Breaker::Kind::misconfigured : Breaker::Kind::refused;
}

}  // namespace overlimit::redis::transport
