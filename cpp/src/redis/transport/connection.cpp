#include "redis/transport/connection.hpp"

#include <string>
#include <utility>

#include "overlimit/errors.hpp"

namespace overlimit::redis::transport {
namespace {

using Clock = Deadline::Clock;

/// Late replies cost a read each; past this many a new connection is cheaper.
constexpr std::size_t kMaxTombstones = 64;

}  // namespace

Connection::Connection(std::shared_ptr<Dialer> dialer, std::shared_ptr<OpenDescriptors> open)
    : dialer_(std::move(dialer)), open_descriptors_(std::move(open)) {}

protocol::Reply Connection::call(std::string_view request, const Deadline& deadline,
                                 const Interrupted& interrupted) try {
  if (!is_usable()) open(deadline, interrupted);
  const protocol::Ticket ticket = session_->submit(request, Clock::now(), deadline.at());
  return exchange(ticket, deadline, interrupted);
} catch (const StoreConfigError&) {
  close();
  throw;
} catch (...) {
  if (session_ && !session_->alive()) close();
  throw;
}

/// Reads late replies and notices here whether the server has closed meanwhile: nothing of the coming
/// request has been sent, so it may still go over a new connection.
bool Connection::is_usable() {
  if (!session_) return false;
  receive_all();
  return session_->alive() && session_->tombstones() <= kMaxTombstones && !session_->silent(Clock::now());
}

void Connection::open(const Deadline& deadline, const Interrupted& interrupted) {
  close();
  stream_ = dialer_->dial(deadline, interrupted);
  listed_ = open_descriptors_->add(stream_->fd());
  session_.emplace(dialer_->endpoint());
}

void Connection::close() noexcept {
  if (listed_ != nullptr) OpenDescriptors::remove(std::exchange(listed_, nullptr));
  stream_.reset();
  session_.reset();
}

protocol::Reply Connection::exchange(protocol::Ticket ticket, const Deadline& deadline,
                                     const Interrupted& interrupted) {
  for (;;) {
    send_outgoing();
    if (std::optional<protocol::Reply> reply = session_->take(ticket)) return std::move(*reply);
    wait(ticket, deadline, interrupted);
    (void)receive_once();
  }
}

void Connection::wait(protocol::Ticket ticket, const Deadline& deadline, const Interrupted& interrupted) {
  const bool left = session_->may_have_left(ticket);
  const std::string_view advice = session_->advice();
  try {
    if (wait_for(stream_->fd(), stream_->events(!session_->outgoing().empty()), deadline, interrupted))
      return;
  } catch (...) {
    give_up(ticket);
    throw;
  }
  give_up(ticket);
  throw StoreTimeout("redis at " + dialer_->endpoint().describe() + " did not answer within the timeout; " +
                         std::string(advice),
                     left);
}

/// A request that is still to be sent would be executed after its caller has gone, so the connection is
/// closed; one that was sent leaves its place in the queue of replies.
void Connection::give_up(protocol::Ticket ticket) noexcept {
  if (session_->has_unsent()) {
    close();
  } else {
    session_->abandon(ticket);
  }
}

void Connection::send_outgoing() {
  while (!session_->outgoing().empty()) {
    const Transfer transfer = stream_->send(session_->outgoing());
    session_->sent(transfer.count);
    if (transfer.error) {
      receive_all();  // a server that refuses a connection says why before it closes
      session_->lost(transfer.error.message());
    }
    if (transfer.count == 0) return;
  }
}

bool Connection::receive_once() {
  const Transfer transfer = stream_->receive(buffer_.data(), buffer_.size());
  if (transfer.count > 0) session_->feed({buffer_.data(), transfer.count}, Clock::now());
  if (transfer.end) session_->lost("the server closed it");
  if (transfer.error) session_->lost(transfer.error.message());
  return transfer.count > 0;
}

void Connection::receive_all() {
  while (receive_once()) {
  }
}

}  // namespace overlimit::redis::transport
