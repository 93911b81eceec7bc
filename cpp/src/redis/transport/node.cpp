#include "redis/transport/node.hpp"

namespace overlimit::redis::transport {

using protocol::Reply;

namespace {

using Clock = Deadline::Clock;
using namespace std::chrono_literals;

constexpr std::size_t kMostInFlight = 8192;
/// With more calls on the first connection, sending them together is cheaper than another connection.
constexpr std::size_t kMostBesideSpares = 3;
constexpr auto kNextSpareAfterFailure = 10s;
constexpr int kMostConnectionsPerCall = 3;
/// How long a call waits for the answer to its probe.
constexpr auto kMomentForProbe = 500us;
constexpr std::string_view kPing = "*1\r\n$4\r\nPING\r\n";

/// Leaves the event loop to the calls that are under way, for a moment.
void wait_for_room(const Deadline& deadline) {
  constexpr std::chrono::milliseconds kMoment{2};
  const Deadline until(std::min(deadline.at(), Clock::now() + kMoment));
  if (wait_for(-1, 0, until) == Woken::by_signal) throw WaitInterrupted();
}

/// Whether a call may be sent on another connection: no byte of it was sent, and this connection was merely
/// closed, or is a spare one that could not be opened.
bool may_try_another(const StoreError& error, const Connection& connection, bool is_spare) {
  return !error.maybe_charged() && !connection.alive() && (is_spare || !connection.breaker_reason());
}

}  // namespace

Node::Node(const Endpoint& endpoint)
    : connector_(std::make_shared<Connector>(endpoint)),
      server_(std::hash<std::string>()(endpoint.describe())),
      breaker_(std::random_device{}()) {}

/// Calls action(connection, guard), on another connection again where nothing was sent on a lost one.
template <class Action>
auto Node::on_connection(const Deadline& deadline, const Action& action) {
  if (deadline.passed()) {
    throw StoreTimeout("the timeout had passed before redis at " + endpoint().describe() + " was asked");
  }
  for (int tried = 1;; ++tried) {
    KeptAlive<Connection> connection;
    UnlockableGuard guard(mutex_);
    pass_breaker(guard);
    connection = connection_for(guard, deadline);
    const bool is_spare = &*connection != connections_[0].get();
    try {
      return action(*connection, guard);
    } catch (const StoreError& error) {
      if (!guard.owns_lock()) throw;
      remove_lost();
      if (tried < kMostConnectionsPerCall && may_try_another(error, *connection, is_spare)) continue;
      breaker_.failed(Clock::now(), Cause::of(error));
      throw;
    }
  }
}

Reply Node::call(const Command& command, const Wait& wait) {
  return on_connection(wait.deadline, [&](Connection& connection, UnlockableGuard& guard) {
    Reply reply = connection.call(guard, command, wait);
    if (!protocol::classify(reply).is_out_of_service()) breaker_.succeeded(Clock::now());
    return reply;
  });
}

void Node::call_many(std::span<const Command> commands, std::span<std::optional<Reply>> replies,
                     const Wait& wait, const std::function<void()>& meanwhile) {
  on_connection(wait.deadline, [&](Connection& connection, UnlockableGuard& guard) {
    const auto first = static_cast<std::size_t>(
        std::ranges::find_if(replies, [](const auto& reply) { return !reply; }) - replies.begin());
    connection.call_many(guard, commands.subspan(first), replies.subspan(first), wait, meanwhile);
    if (!protocol::classify(*replies.back()).is_out_of_service()) breaker_.succeeded(Clock::now());
  });
}

void Node::send(std::string_view command, const Wait& wait) {
  KeptAlive<Connection> connection;
  UnlockableGuard guard(mutex_);
  if (breaker_.state() != Breaker::State::closed || !connections_[0]) return;
  connection = connections_[0];
  if (!connection->is_established() || connection->in_flight() >= kMostInFlight) return;
  connection->send(guard, command, wait.deadline);
}

void Node::record_final_reply(const Reply& reply) {
  if (!protocol::classify(reply).is_out_of_service()) return;
  const Cause cause = protocol::cause_of(reply, endpoint());
  const std::lock_guard lock(mutex_);
  breaker_.failed(Clock::now(), cause);
}

Node::ConnectionPointer Node::connection_for(UnlockableGuard& guard, const Deadline& deadline) {
  ConnectionPointer first = first_connection(guard, deadline);
  while (Fibers::current() != nullptr && first->in_flight() >= kMostInFlight && !deadline.passed()) {
    guard.unlocked_wait([&] { wait_for_room(deadline); });
    first = first_connection(guard, deadline);
  }
  if (first->in_flight() >= kMostInFlight) {
    throw StoreUnavailable(std::to_string(first->in_flight()) + " calls already wait for redis at " +
                           endpoint().describe());
  }
  if (Fibers::current() == nullptr && first->calls() > 0 && first->calls() <= kMostBesideSpares &&
      first->is_established()) {
    if (ConnectionPointer spare = spare_connection(deadline)) return spare;
  }
  return first;
}

Link Node::link() {
  UnlockableGuard guard(mutex_);
  notice_loss(guard);
  return {server_, connector_->newest(), connections_[0] && connections_[0]->is_established()};
}

/// The server may have closed an idle connection.
void Node::notice_loss(UnlockableGuard& guard) {
  if (const ConnectionPointer idle = connections_[0]; idle && idle->calls() == 0 && idle->is_readable())
    idle->poll(guard, Deadline(0us));
  remove_lost();
}

/// Whether it is lost is checked before anything of the command is sent.
Node::ConnectionPointer Node::first_connection(UnlockableGuard& guard, const Deadline& deadline) {
  notice_loss(guard);
  if (!connections_[0]) connections_[0] = std::make_shared<Connection>(connector_, deadline);
  return connections_[0];
}

Node::ConnectionPointer Node::spare_connection(const Deadline& deadline) {
  for (std::size_t i = 1; i < connections_.size(); ++i) {
    if (connections_[i] && connections_[i]->calls() == 0) return connections_[i];
    if (connections_[i]) continue;
    if (Clock::now() < no_spares_before_) return nullptr;
    return connections_[i] = std::make_shared<Connection>(connector_, deadline);
  }
  return nullptr;
}

void Node::remove_lost() {
  for (ConnectionPointer& connection : connections_) {
    if (connection && !connection->alive()) remove(connection);
  }
}

void Node::remove(ConnectionPointer& connection) {
  const ConnectionPointer lost = std::exchange(connection, nullptr);
  const std::optional<Breaker::Reason> reason = lost->breaker_reason();
  if (!reason) return;
  if (&connection != connections_.data() && !lost->is_established()) {
    no_spares_before_ = Clock::now() + kNextSpareAfterFailure;
  } else if (probe_) {
    end_probe(*reason, lost->cause());
  } else {
    breaker_.open(Clock::now(), *reason, lost->cause());
  }
}

/// The call that sends a probe waits a moment, so that a process with few calls recovers at once.
void Node::pass_breaker(UnlockableGuard& guard) {
  if (breaker_.state() == Breaker::State::closed) return;
  Deadline until(0us);
  if (breaker_.is_probe_due(Clock::now())) {
    begin_probe();
    until = Deadline(kMomentForProbe);
  }
  while (check_probe(guard, until) && probe_ && !until.passed()) {
  }
  if (breaker_.state() == Breaker::State::closed) return;
  breaker_.cause().raise_again(
      std::chrono::duration_cast<std::chrono::microseconds>(breaker_.until_probe(Clock::now())));
}

void Node::begin_probe() {
  const Deadline until(Breaker::kProbeTimeout);
  remove_lost();
  if (connections_[0]) {
    probe_ = Probe{connections_[0], connections_[0]->submit(kPing, until), until};
  } else {
    connections_[0] = std::make_shared<Connection>(connector_, until);
    probe_ = Probe{connections_[0], std::nullopt, until};
  }
  breaker_.probe_began();
}

bool Node::check_probe(UnlockableGuard& guard, const Deadline& until) {
  if (!probe_) return false;
  const ConnectionPointer connection = probe_->connection;
  const bool looked = connection->poll(guard, until);
  if (!probe_ || probe_->connection != connection) return false;
  if (!connection->alive()) {
    const Breaker::Reason reason = connection->breaker_reason().value_or(Breaker::Reason::refused);
    end_probe(reason, Cause(connection->cause()));
    remove_lost();
  } else if (is_answered()) {
    probe_.reset();
    breaker_.probe_succeeded();
  } else if (probe_ && probe_->until.passed()) {
    if (probe_->ticket) connection->abandon(*probe_->ticket);
    end_probe(Breaker::Reason::silent, Cause(breaker_.cause()));
  }
  return looked;
}

/// Any answer but an error of a server out of service ends the probe with success.
bool Node::is_answered() {
  Connection& connection = *probe_->connection;
  if (!probe_->ticket) {
    if (!connection.is_established() || !connection.out_of_service()) return connection.is_established();
    end_probe(Breaker::Reason::refused, Cause(*connection.out_of_service()));
    return false;
  }
  const std::optional<Reply> reply = connection.take(*probe_->ticket);
  if (!reply || !protocol::classify(*reply).is_out_of_service()) return reply.has_value();
  end_probe(Breaker::Reason::refused, protocol::cause_of(*reply, endpoint()));
  return false;
}

void Node::end_probe(Breaker::Reason reason, const Cause& cause) {
  probe_.reset();
  breaker_.probe_failed(Clock::now(), reason, cause);
}

void Node::close() {
  std::array<ConnectionPointer, 3> closed;
  const std::lock_guard lock(mutex_);
  closed.swap(connections_);
  if (probe_) end_probe(Breaker::Reason::refused, Cause(breaker_.cause()));
}

Breaker::State Node::breaker() const {
  const std::lock_guard lock(mutex_);
  return breaker_.state();
}

std::shared_ptr<Node> node_of(const Endpoint& endpoint) {
  return registry_of_caller<Endpoint, Node>().of(endpoint, [&] { return std::make_shared<Node>(endpoint); });
}

}  // namespace overlimit::redis::transport
