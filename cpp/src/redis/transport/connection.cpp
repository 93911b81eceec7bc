#include "redis/transport/connection.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "overlimit/errors.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

using protocol::Breaker;
using protocol::Cause;
using protocol::Instant;
using protocol::Reply;
using protocol::Ticket;

namespace {

using Clock = Deadline::Clock;
using namespace std::chrono_literals;

// How many writes may be unanswered, by the round-trip time: with a long one waiting costs more than many
// small packets do, with a short one it is the other way round.
constexpr auto kRoundTripPerFlush = 25us;
constexpr std::int64_t kLeastFlushes = 2;
constexpr std::int64_t kMostFlushes = 64;
constexpr int kRoundTripsRemembered = 1024;
// For so long after a reply nobody checks whether the connection was closed: whoever makes the server close
// it needs a round trip for that, which takes longer.
constexpr auto kFresh = 10us;
constexpr std::string_view kAsking = "*1\r\n$6\r\nASKING\r\n";

/// The StoreError that an action throws, if any.
template <class Action>
std::optional<Cause> failure_of(const Action& action) {
  try {
    action();
  } catch (const StoreError& error) {
    return Cause::of(error);
  }
  return std::nullopt;
}

/// Waits until something can be received or sent.
Woken wait_for_both(const Stream& stream, const Deadline& deadline) {
  const auto events = static_cast<short>(stream.receiving_events() | stream.sending_events());
  return wait_for(stream.fd(), events, deadline);
}

}  // namespace

/// What one caller waits on, until another thread has read its reply.
class Connection::WaiterSlot {
 public:
  WaiterSlot(std::shared_ptr<FutexEvent> of_event, WaiterSet of_bit)
      : event(std::move(of_event)), bit(of_bit) {}

  const std::shared_ptr<FutexEvent> event;  // shared with other slots, and with threads about to notify
  const WaiterSet bit;
  bool is_away = false;  // runs code of its own, so cannot be the reader
};

/// The call of one caller. It is abandoned if it ends without a reply, except in a child forked meanwhile.
class Connection::PendingCall {
 public:
  PendingCall(Connection& connection, UnlockableGuard& guard, const Command& command,
              const Deadline& deadline)
      : connection_(connection), guard_(guard), slot_(connection.take_slot()) {
    const Instant now = Clock::now();
    if (command.asking == Asking::yes) connection_.session_.submit_ignored(kAsking, now, deadline.at());
    ticket_ = connection_.session_.submit(command.bytes, now, deadline.at(), &slot_);
    if (connection_.in_flight() == 1) alone_since_ = now;
    ++connection_.callers_;
  }
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;
  ~PendingCall() {
    if (!guard_.owns_lock()) return;
    if (!has_reply_) connection_.session_.abandon(ticket_);
    if (connection_.reader_ == &slot_) connection_.hand_over_reader(guard_);
    if (!connection_.alive()) connection_.notify_all(guard_);
    connection_.free_slots_.push_back(&slot_);
    --connection_.callers_;
  }

  [[nodiscard]] WaiterSlot& slot() noexcept { return slot_; }
  [[nodiscard]] Ticket ticket() const noexcept { return ticket_; }

  [[nodiscard]] std::optional<Reply> take() {
    std::optional<Reply> reply = connection_.session_.take(ticket_);
    if (!reply) return reply;
    has_reply_ = true;
    if (alone_since_) connection_.note_round_trip(Clock::now() - *alone_since_);
    return reply;
  }

 private:
  Connection& connection_;
  UnlockableGuard& guard_;
  WaiterSlot& slot_;
  Ticket ticket_{};
  std::optional<Instant> alone_since_;  // when it was submitted as the only one in flight
  bool has_reply_ = false;
};

Connection::Connection(std::shared_ptr<Connector> connector, const Deadline& deadline)
    : connector_(std::move(connector)),
      handshake_deadline_(deadline),
      attempt_(std::make_unique<ConnectAttempt>(connector_, deadline)),
      session_(connector_->endpoint(), Clock::now(), deadline.at()),
      polling_slot_(new_slot()) {}

Connection::~Connection() = default;

Connection::WaiterSlot& Connection::take_slot() {
  if (free_slots_.empty()) return new_slot();
  WaiterSlot& slot = *free_slots_.back();
  free_slots_.pop_back();
  slot.is_away = false;
  return slot;
}

Connection::WaiterSlot& Connection::new_slot() {
  const auto bit = static_cast<unsigned>(slots_.size()) % FutexEvent::kMaxWaiters;
  auto event = bit == 0 ? std::make_shared<FutexEvent>() : slots_.back().event;
  return slots_.emplace_back(std::move(event), WaiterSet{1} << bit);
}

Reply Connection::call(UnlockableGuard& guard, const Command& command, const Deadline& deadline,
                       const Interrupted& interrupted) {
  PendingCall call(*this, guard, command, deadline);
  return await(guard, call, deadline, interrupted);
}

// A call that has its reply ends before the next one waits, which then may become the reader.
void Connection::call_many(UnlockableGuard& guard, std::span<const Command> commands,
                           std::span<std::optional<Reply>> replies, const Deadline& deadline,
                           const Interrupted& interrupted) {
  std::deque<PendingCall> calls;
  for (const Command& command : commands) calls.emplace_back(*this, guard, command, deadline);
  for (std::optional<Reply>& reply : replies) {
    reply = await(guard, calls.front(), deadline, interrupted);
    calls.pop_front();
  }
}

Reply Connection::await(UnlockableGuard& guard, PendingCall& call, const Deadline& deadline,
                        const Interrupted& interrupted) {
  Woken woken = Woken::by_event;
  for (;;) {
    flush(guard);
    if (std::optional<Reply> reply = call.take()) return std::move(*reply);
    if (woken == Woken::by_deadline && deadline.passed()) time_out(guard, call.ticket());
    woken = wait(guard, call.slot(), deadline);
    if (woken == Woken::by_signal) check_interruption(guard, call.slot(), call.ticket(), interrupted);
  }
}

Ticket Connection::submit(std::string_view command, const Deadline& deadline) {
  return session_.submit(command, Clock::now(), deadline.at(), nullptr);
}

bool Connection::is_readable() const {
  return reader_ == nullptr && stream_ && Clock::now() - session_.last_received() > kFresh &&
         is_ready(stream_->fd(), stream_->receiving_events());
}

bool Connection::poll(UnlockableGuard& guard, const Deadline& deadline) {
  if (reader_ != nullptr) return false;
  reader_ = &polling_slot_;
  (void)read(guard, deadline);
  hand_over_reader(guard);
  flush(guard);
  return true;
}

void Connection::flush(UnlockableGuard& guard) {
  while (stream_ && !writing_ && !cannot_send_ && alive() && session_.has_outgoing() &&
         (session_.is_mid_flush() || session_.outstanding_flushes() < window())) {
    const std::string_view bytes = session_.outgoing();
    const std::size_t offered = bytes.size();
    Transfer transfer;
    std::optional<Cause> failure;
    writing_ = true;
    guard.unlocked([&] { failure = failure_of([&] { transfer = stream_->send(bytes); }); });
    writing_ = false;
    session_.sent(transfer.count);
    if (failure) return mark_lost(guard, std::move(*failure));
    // A server that takes no more bytes may have sent the reason: the reader will find it, or the end.
    cannot_send_ = static_cast<bool>(transfer.error);
    is_blocked_ = transfer.count < offered;
    if (is_blocked_) return;
  }
}

Woken Connection::wait(UnlockableGuard& guard, WaiterSlot& slot, const Deadline& deadline) {
  if (reader_ == nullptr) reader_ = &slot;
  if (reader_ == &slot) return read(guard, deadline);
  if (is_blocked_ && !cannot_send_ && stream_) return wait_to_send(guard, deadline);
  const std::uint32_t count = slot.event->count();
  Woken woken = Woken::by_event;
  guard.unlocked_wait([&] { woken = slot.event->wait(slot.bit, count, deadline); });
  return woken;
}

Woken Connection::wait_to_send(UnlockableGuard& guard, const Deadline& deadline) {
  Woken woken = Woken::by_event;
  guard.unlocked_wait([&] { woken = wait_for_both(*stream_, deadline); });
  return woken;
}

Woken Connection::read(UnlockableGuard& guard, const Deadline& deadline) {
  if (attempt_) return connect(guard, deadline);
  const Deadline until = earliest_timeout(deadline);
  const bool sends = is_blocked_ && !cannot_send_;
  Transfer transfer;
  std::optional<Cause> failure;
  Woken woken = Woken::by_event;
  guard.unlocked_wait([&] {
    failure = failure_of([&] {
      if (sends) woken = wait_for_both(*stream_, until);
      if (woken != Woken::by_event) return;
      woken =
          stream_->receive_within(buffer_.data(), buffer_.size(), sends ? Deadline(0us) : until, transfer);
    });
  });
  if (failure) {
    mark_lost(guard, std::move(*failure));
  } else {
    process_received(guard, transfer);
  }
  if (woken == Woken::by_deadline) check_timeouts(guard);
  return woken;
}

Woken Connection::connect(UnlockableGuard& guard, const Deadline& deadline) {
  const Deadline until = earliest_timeout(deadline);
  std::unique_ptr<Stream> stream;
  std::optional<Cause> failure;
  Woken woken = Woken::by_event;
  guard.unlocked_wait([&] {
    failure = failure_of([&] { stream = attempt_->step(); });
    if (!failure && !stream) woken = attempt_->wait(until);
  });
  if (failure) mark_lost(guard, std::move(*failure));
  if (stream) {
    stream_ = std::move(stream);
    attempt_.reset();
  }
  if (woken == Woken::by_deadline) check_timeouts(guard);
  return woken;
}

void Connection::process_received(UnlockableGuard& guard, const Transfer& transfer) {
  waiters_.clear();
  if (transfer.count > 0) session_.feed({buffer_.data(), transfer.count}, Clock::now(), waiters_);
  for (protocol::Waiter waiter : waiters_) {
    auto* const slot = static_cast<WaiterSlot*>(waiter);
    if (slot != nullptr && slot != reader_) guard.notify(slot->event, slot->bit);
  }
  if (transfer.end) session_.lost("the server closed it");
  if (transfer.error) session_.lost(transfer.error.message());
  if (!alive()) notify_all(guard);
}

/// Makes the caller that waits longest the reader, and wakes it before those that only take their replies.
void Connection::hand_over_reader(UnlockableGuard& guard) {
  reader_ = nullptr;
  waiters_.clear();
  session_.waiting(waiters_);
  const auto next = std::ranges::find_if(waiters_, [](protocol::Waiter waiter) {
    return waiter != nullptr && !static_cast<WaiterSlot*>(waiter)->is_away;
  });
  if (next == waiters_.end()) return;
  reader_ = static_cast<WaiterSlot*>(*next);
  guard.notify_first(reader_->event, reader_->bit);
}

void Connection::notify_all(UnlockableGuard& guard) {
  waiters_.clear();
  session_.waiting(waiters_);
  for (protocol::Waiter waiter : waiters_) {
    const auto* const slot = static_cast<WaiterSlot*>(waiter);
    if (slot != nullptr) guard.notify(slot->event, slot->bit);
  }
  // The reader may be waiting for the stream.
  if (stream_ && reader_ != nullptr) stream_->shut_down();
}

Deadline Connection::earliest_timeout(const Deadline& deadline) const {
  Instant at = std::min(deadline.at(), session_.silent_at());
  if (!is_established()) at = std::min(at, handshake_deadline_.at());
  return Deadline(at);
}

void Connection::check_timeouts(UnlockableGuard& guard) {
  if (!alive()) return;
  const std::string where = "redis at " + connector_->endpoint().describe();
  if (!is_established() && handshake_deadline_.passed()) {
    is_silent_ = true;
    const std::string what = attempt_ ? "connecting to " + where + " took longer than the timeout"
                                      : where + " did not complete the handshake within the timeout";
    return mark_lost(guard, Cause::of(StoreTimeout(what + "; " + std::string(session_.advice()))));
  }
  if (Clock::now() < session_.silent_at()) return;
  is_silent_ = true;
  mark_lost(guard, Cause::unavailable(where + " sent nothing for so long that the connection was closed; " +
                                      std::string(session_.advice())));
}

void Connection::mark_lost(UnlockableGuard& guard, Cause cause) {
  session_.lost(std::move(cause));
  notify_all(guard);
}

/// Runs the caller's interrupted() while others read, such as a call from within it.
void Connection::check_interruption(UnlockableGuard& guard, WaiterSlot& slot, Ticket ticket,
                                    const Interrupted& interrupted) {
  slot.is_away = true;
  if (reader_ == &slot) hand_over_reader(guard);
  try {
    guard.unlocked_wait([&] { check_interrupted(interrupted); });
  } catch (const WaitInterrupted&) {
    throw WaitInterrupted(session_.may_have_left(ticket));
  }
  slot.is_away = false;
}

void Connection::time_out(UnlockableGuard& guard, Ticket ticket) {
  check_timeouts(guard);
  if (!alive()) (void)session_.take(ticket);
  throw StoreTimeout("redis at " + connector_->endpoint().describe() +
                         " did not answer within the timeout; " + std::string(session_.advice()),
                     session_.may_have_left(ticket));
}

void Connection::note_round_trip(Clock::duration taken) noexcept {
  const bool is_new_period = ++round_trips_ % kRoundTripsRemembered == 0;
  shortest_round_trip_ = is_new_period ? taken : std::min(shortest_round_trip_, taken);
}

std::size_t Connection::window() const noexcept {
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(shortest_round_trip_ / kRoundTripPerFlush, kLeastFlushes, kMostFlushes));
}

std::optional<Breaker::Reason> Connection::breaker_reason() const noexcept {
  if (alive()) return std::nullopt;
  if (is_silent_ || cause().is_timeout()) return Breaker::Reason::silent;
  if (is_established()) return std::nullopt;
  return cause().is_config() ? Breaker::Reason::misconfigured : Breaker::Reason::refused;
}

}  // namespace overlimit::redis::transport
