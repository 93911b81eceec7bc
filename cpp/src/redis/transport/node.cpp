#include "redis/transport/node.hpp"

#include <chrono>
#include <random>
#include <string>
#include <utility>

#include "overlimit/errors.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/transport/per_process.hpp"
#include "redis/transport/registry.hpp"

namespace overlimit::redis::transport {

using protocol::Breaker;
using protocol::Cause;
using protocol::Reply;

namespace {

using Clock = Deadline::Clock;
using namespace std::chrono_literals;

constexpr std::size_t kMostInFlight = 8192;
/// With more calls on the first line sending them together is cheaper than another line.
constexpr std::size_t kMostBesideSpares = 3;
constexpr auto kNextSpareAfterFailure = 10s;
constexpr int kMostLinesPerCall = 3;
/// "At once" is less than a millisecond.
constexpr auto kMomentForProbe = 500us;
constexpr std::string_view kPing = "*1\r\n$4\r\nPING\r\n";

/// Another line may carry it: nothing of it left, and this one was no more than closed, or could not be had
/// beside the first.
bool may_go_again(const StoreError& error, const Line& line, bool is_spare) {
  return !error.maybe_charged() && !line.alive() && (is_spare || !line.verdict());
}

}  // namespace

Node::Node(const Endpoint& endpoint)
    : dialer_(std::make_shared<Dialer>(endpoint)), breaker_(std::random_device{}()) {}

Reply Node::call(const Request& request, const Deadline& deadline, const Interrupted& interrupted) {
  if (deadline.passed()) {
    throw StoreTimeout("the timeout had passed before redis at " + endpoint().describe() + " was asked");
  }
  for (int lines = 1;; ++lines) {
    Kept<Line> line;
    Turn turn(mutex_);
    pass_breaker(turn);
    line = line_for(turn, deadline);
    const bool is_spare = &*line != lines_[0].get();
    try {
      Reply reply = line->call(turn, request, deadline, interrupted);
      if (!protocol::is_out_of_service(reply)) breaker_.succeeded(Clock::now());
      return reply;
    } catch (const StoreError& error) {
      if (!turn.is_held()) throw;
      forget_lost();
      if (lines < kMostLinesPerCall && may_go_again(error, *line, is_spare)) continue;
      breaker_.failed(Clock::now(), Cause::of(error));
      throw;
    }
  }
}

void Node::gave_up_at(const Reply& reply) {
  if (!protocol::is_out_of_service(reply)) return;
  const Cause cause = protocol::cause_of(reply, endpoint());
  const std::lock_guard lock(mutex_);
  breaker_.failed(Clock::now(), cause);
}

Node::LinePointer Node::line_for(Turn& turn, const Deadline& deadline) {
  const LinePointer first = first_line(turn, deadline);
  if (first->in_flight() >= kMostInFlight) {
    throw StoreUnavailable("redis at " + endpoint().describe() + " owes " +
                           std::to_string(first->in_flight()) + " replies: too many calls are under way");
  }
  if (first->callers() > 0 && first->callers() <= kMostBesideSpares && first->greeted()) {
    if (LinePointer spare = spare_line(deadline)) return spare;
  }
  return first;
}

/// An idle one may have been closed by the server: nothing of the coming request has been sent yet.
Node::LinePointer Node::first_line(Turn& turn, const Deadline& deadline) {
  if (const LinePointer idle = lines_[0]; idle && idle->callers() == 0 && idle->is_readable())
    idle->pump(turn, Deadline(0us));
  forget_lost();
  if (!lines_[0]) lines_[0] = std::make_shared<Line>(dialer_, deadline);
  return lines_[0];
}

Node::LinePointer Node::spare_line(const Deadline& deadline) {
  for (std::size_t i = 1; i < lines_.size(); ++i) {
    if (lines_[i] && lines_[i]->callers() == 0) return lines_[i];
    if (lines_[i]) continue;
    if (Clock::now() < no_spares_before_) return nullptr;
    return lines_[i] = std::make_shared<Line>(dialer_, deadline);
  }
  return nullptr;
}

void Node::forget_lost() {
  for (LinePointer& line : lines_) {
    if (line && !line->alive()) forget(line);
  }
}

void Node::forget(LinePointer& line) {
  const LinePointer lost = std::exchange(line, nullptr);
  const std::optional<Breaker::Kind> kind = lost->verdict();
  if (!kind) return;
  if (&line != lines_.data() && !lost->greeted()) {
    no_spares_before_ = Clock::now() + kNextSpareAfterFailure;
  } else if (probe_) {
    end_probe(*kind, lost->cause());
  } else {
    breaker_.open(Clock::now(), *kind, lost->cause());
  }
}

/// Who sends the probe gives it the moment in which a server nearby answers, so that even a process that
/// calls seldom finds its way back at once; all others only look.
void Node::pass_breaker(Turn& turn) {
  if (breaker_.state() == Breaker::State::closed) return;
  Deadline until(0us);
  if (breaker_.is_probe_due(Clock::now())) {
    begin_probe();
    until = Deadline(kMomentForProbe);
  }
  while (look_at_probe(turn, until) && probe_ && !until.passed()) {
  }
  if (breaker_.state() == Breaker::State::closed) return;
  breaker_.cause().raise_again(
      std::chrono::duration_cast<std::chrono::microseconds>(breaker_.until_probe(Clock::now())));
}

void Node::begin_probe() {
  const Deadline until(Breaker::kProbeTimeout);
  forget_lost();
  if (lines_[0]) {
    probe_ = Probe{lines_[0], lines_[0]->submit(kPing, until), until};
  } else {
    lines_[0] = std::make_shared<Line>(dialer_, until);
    probe_ = Probe{lines_[0], std::nullopt, until};
  }
  breaker_.probe_began();
}

bool Node::look_at_probe(Turn& turn, const Deadline& until) {
  if (!probe_) return false;
  const LinePointer line = probe_->line;
  const bool looked = line->pump(turn, until);
  if (!probe_ || probe_->line != line) return false;
  if (!line->alive()) {
    const Breaker::Kind kind = line->verdict().value_or(Breaker::Kind::refused);
    end_probe(kind, Cause(line->cause()));
    forget_lost();
  } else if (is_answered()) {
    probe_.reset();
    breaker_.probe_succeeded();
  } else if (probe_ && probe_->until.passed()) {
    if (probe_->ticket) line->abandon(*probe_->ticket);
    end_probe(Breaker::Kind::silent, Cause(breaker_.cause()));
  }
  return looked;
}

/// A server that answers anything but that it serves nobody is back.
bool Node::is_answered() {
  Line& line = *probe_->line;
  if (!probe_->ticket) {
    if (!line.greeted() || !line.out_of_service()) return line.greeted();
    end_probe(Breaker::Kind::refused, Cause(*line.out_of_service()));
    return false;
  }
  const std::optional<Reply> reply = line.take(*probe_->ticket);
  if (!reply || !protocol::is_out_of_service(*reply)) return reply.has_value();
  end_probe(Breaker::Kind::refused, protocol::cause_of(*reply, endpoint()));
  return false;
}

void Node::end_probe(Breaker::Kind kind, const Cause& cause) {
  probe_.reset();
  breaker_.probe_failed(Clock::now(), kind, cause);
}

void Node::close() {
  std::array<LinePointer, 3> closed;
  const std::lock_guard lock(mutex_);
  closed.swap(lines_);
  if (probe_) end_probe(Breaker::Kind::refused, Cause(breaker_.cause()));
}

Breaker::State Node::breaker() const {
  const std::lock_guard lock(mutex_);
  return breaker_.state();
}

std::shared_ptr<Node> node_of(const Endpoint& endpoint) {
  return registry_of_process<Endpoint, Node>().of(endpoint, [&] { return std::make_shared<Node>(endpoint); });
}

}  // namespace overlimit::redis::transport
