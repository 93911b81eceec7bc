#include "redis/transport/connection.hpp"

namespace overlimit::redis::transport {

using protocol::Reply;
using protocol::Ticket;
using protocol::TimePoint;

namespace {

using Clock = Deadline::Clock;
using namespace std::chrono_literals;

// How many writes may be unanswered, by the round-trip time: with a long one waiting costs more than many
// small packets do. With a short one there must be enough to keep the server busy while callers wake.
constexpr auto kRoundTripPerFlush = 25us;
constexpr std::int64_t kLeastFlushes = 8;
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

/// Where one caller waits until another thread has read its reply or made it the reader.
class Connection::WaiterSlot {
 public:
  WaiterSlot(std::shared_ptr<EventCount> of_event, WaiterSet of_bit)
      : event(std::move(of_event)), bit(of_bit) {}

  const std::shared_ptr<EventCount> event;  // shared with other slots, and with threads about to notify
  const WaiterSet bit;
  bool is_away = false;  // runs code of its own, so cannot be the reader
};

/// A thread that waits for the replies to its calls, one after the other, in one slot for all of them:
/// whoever is made the reader is then a thread that reads as soon as it wakes.
class Connection::Caller : NonCopyable {
 public:
  Caller(Connection& connection, UnlockableGuard& guard, const Wait& wait)
      : connection_(connection), guard_(guard), wait_(wait), slot_(connection.take_slot()) {
    connection.give_handshake_time(wait.deadline);
  }
  ~Caller() {
    if (!guard_.owns_lock()) return;  // in a child forked meanwhile
    if (connection_.reader_ == &slot_) connection_.hand_over_reader(guard_);
    if (!connection_.alive()) connection_.notify_all(guard_);
    connection_.free_slots_.push_back(&slot_);
  }

  /// One call; abandoned if it ends without a reply. All of a caller's calls end before the caller does.
  class Call : NonCopyable {
   public:
    Call(Caller& caller, const Command& command) : caller_(caller), connection_(caller.connection_) {
      const TimePoint now = Clock::now();
      const TimePoint deadline = caller.wait_.deadline.at();
      if (command.asking == Asking::yes) connection_.session_.submit_ignored(kAsking, now, deadline);
      ticket_ = connection_.session_.submit(command.bytes, now, deadline, &caller.slot_);
      if (connection_.in_flight() == 1) alone_since_ = now;
      ++connection_.calls_;
    }
    ~Call() {
      if (!caller_.guard_.owns_lock()) return;
      if (!has_reply_) connection_.session_.abandon(ticket_);
      --connection_.calls_;
    }

    [[nodiscard]] Ticket ticket() const noexcept { return ticket_; }

    [[nodiscard]] std::optional<Reply> take() {
      std::optional<Reply> reply = connection_.session_.take(ticket_);
      if (!reply) return reply;
      has_reply_ = true;
      reply->came_through(connection_.number_);
      if (alone_since_) connection_.note_round_trip(connection_.session_.last_received() - *alone_since_);
      return reply;
    }

   private:
    Caller& caller_;
    Connection& connection_;
    Ticket ticket_{};
    std::optional<TimePoint> alone_since_;  // when it was submitted as the only one in flight
    bool has_reply_ = false;
  };

  /// Runs the caller's own code while others read. In a child forked meanwhile that code must throw.
  void be_away(const std::function<void()>& action) {
    slot_.is_away = true;
    if (connection_.reader_ == &slot_) connection_.hand_over_reader(guard_);
    guard_.unlocked_wait(action);
    slot_.is_away = false;
  }

  [[nodiscard]] Reply await(Call& call) {
    connection_.gather(guard_);
    Woken woken = Woken::by_event;
    for (;;) {
      connection_.flush(guard_);
      if (std::optional<Reply> reply = call.take()) return std::move(*reply);
      if (woken == Woken::by_deadline && wait_.deadline.passed()) time_out(call.ticket());
      woken = wait();
      if (woken == Woken::by_signal) check_interruption(call.ticket());
    }
  }

 private:
  [[nodiscard]] Woken wait() {
    if (connection_.reader_ == nullptr) connection_.reader_ = &slot_;
    if (connection_.reader_ == &slot_) return connection_.read(guard_, wait_.deadline);
    Woken woken = Woken::by_event;
    if (connection_.sending_ == Sending::blocked) {
      guard_.unlocked_wait([&] { woken = wait_for_both(*connection_.stream_, wait_.deadline); });
    } else {
      const std::uint32_t count = slot_.event->count();
      guard_.unlocked_wait([&] { woken = wait_for(*slot_.event, slot_.bit, count, wait_.deadline); });
    }
    return woken;
  }

  /// A call may be made from within interrupted().
  void check_interruption(Ticket ticket) {
    try {
      be_away([&] { check_interrupted(wait_.interrupted); });
    } catch (const WaitInterrupted&) {
      throw WaitInterrupted(connection_.session_.may_have_left(ticket));
    }
  }

  [[noreturn]] void time_out(Ticket ticket) {
    connection_.check_timeouts(guard_);
    if (!connection_.alive()) (void)connection_.session_.take(ticket);
    throw StoreTimeout(connection_.describe() + " did not answer within the timeout; " +
                           std::string(connection_.session_.advice()),
                       connection_.session_.may_have_left(ticket));
  }

  Connection& connection_;
  UnlockableGuard& guard_;
  const Wait& wait_;
  WaiterSlot& slot_;
};

Connection::Connection(std::shared_ptr<Connector> connector, const Deadline& deadline)
    : connector_(std::move(connector)),
      handshake_deadline_(deadline),
      attempt_(std::make_unique<ConnectAttempt>(connector_)),
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
  const auto bit = static_cast<unsigned>(slots_.size()) % EventCount::kMaxWaiters;
  auto event = bit == 0 ? std::make_shared<EventCount>() : slots_.back().event;
  return slots_.emplace_back(std::move(event), WaiterSet{1} << bit);
}

Reply Connection::call(UnlockableGuard& guard, const Command& command, const Wait& wait) {
  Caller caller(*this, guard, wait);
  Caller::Call call(caller, command);
  return caller.await(call);
}

void Connection::call_many(UnlockableGuard& guard, std::span<const Command> commands,
                           std::span<std::optional<Reply>> replies, const Wait& wait,
                           const std::function<void()>& meanwhile) {
  Caller caller(*this, guard, wait);
  std::deque<Caller::Call> calls;
  for (const Command& command : commands) calls.emplace_back(caller, command);
  if (meanwhile) {
    flush(guard);
    caller.be_away(meanwhile);
  }
  for (std::optional<Reply>& reply : replies) {
    reply = caller.await(calls.front());
    calls.pop_front();
  }
}

void Connection::send(UnlockableGuard& guard, std::string_view command, const Deadline& deadline) {
  session_.submit_ignored(command, Clock::now(), deadline.at());
  flush(guard);
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

/// As much as its caller gives to one call; callers with the same timeout change nothing.
void Connection::give_handshake_time(const Deadline& deadline) noexcept {
  if (is_established()) return;
  const TimePoint until = began_ + deadline.remaining();
  handshake_deadline_ = Deadline(std::max(handshake_deadline_.at(), until));
}

Connection::State Connection::state() const noexcept {
  if (!alive()) return State::lost;
  if (is_established()) return State::established;
  return stream_ ? State::handshake : State::connecting;
}

/// On an event loop: of the calls that it begins before it looks at its descriptors again, the first is sent
/// at once, and all others together.
void Connection::gather(UnlockableGuard& guard) {
  Fibers* const fibers = Fibers::current();
  if (fibers == nullptr) return;
  if (flushed_in_ == fibers->turn()) guard.unlocked([&] { fibers->yield(); });
  flushed_in_ = fibers->turn();
}

void Connection::flush(UnlockableGuard& guard) {
  const auto may_send = [this] { return sending_ == Sending::ready || sending_ == Sending::blocked; };
  while (stream_ && alive() && may_send() && session_.has_outgoing() &&
         (session_.is_mid_flush() || session_.outstanding_flushes() < window())) {
    const std::string_view bytes = session_.outgoing();
    const std::size_t offered = bytes.size();
    Transfer transfer;
    std::optional<Cause> failure;
    sending_ = Sending::now;
    guard.unlocked([&] { failure = failure_of([&] { transfer = stream_->send(bytes); }); });
    session_.sent(transfer.count);
    // A server that takes no more bytes may have sent the reason: the reader will find it, or the end.
    sending_ = transfer.error || failure ? Sending::failed : Sending::ready;
    if (failure) return mark_lost(guard, std::move(*failure));
    if (sending_ == Sending::ready && transfer.count < offered) {
      sending_ = Sending::blocked;
      return;
    }
  }
}

Woken Connection::read(UnlockableGuard& guard, const Deadline& deadline) {
  if (attempt_) return connect(guard, deadline);
  const Deadline until = earliest_timeout(deadline);
  const bool sends = sending_ == Sending::blocked;
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
  const Deadline attempt_until = handshake_deadline_;
  std::unique_ptr<Stream> stream;
  std::optional<Cause> failure;
  Woken woken = Woken::by_event;
  guard.unlocked_wait([&] {
    failure = failure_of([&] { stream = attempt_->step(attempt_until); });
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
  const bool was_established = is_established();
  if (transfer.count > 0) session_.feed({buffer_.data(), transfer.count}, Clock::now(), waiters_);
  if (!was_established && is_established()) number_ = connector_->note_opened();
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
  TimePoint at = std::min(deadline.at(), session_.silent_at());
  if (!is_established()) at = std::min(at, handshake_deadline_.at());
  return Deadline(at);
}

void Connection::check_timeouts(UnlockableGuard& guard) {
  const State reached = state();
  if (reached == State::lost) return;
  const bool is_late = reached != State::established && handshake_deadline_.passed();
  is_silent_ = is_late || Clock::now() >= session_.silent_at();
  if (!is_silent_) return;
  const std::string advice = "; " + std::string(session_.advice());
  if (!is_late) {
    return mark_lost(
        guard,
        Cause::unavailable(describe() + " sent nothing for so long that the connection was closed" + advice));
  }
  const std::string what = reached == State::connecting
                               ? "connecting to " + describe() + " took longer than the timeout"
                               : describe() + " did not complete the handshake within the timeout";
  mark_lost(guard, Cause::of(StoreTimeout(what + advice)));
}

void Connection::mark_lost(UnlockableGuard& guard, Cause cause) {
  session_.lost(std::move(cause));
  notify_all(guard);
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
