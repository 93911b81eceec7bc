#include "redis/protocol/session.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "overlimit/errors.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/protocol/request.hpp"

namespace overlimit::redis::protocol {
namespace {

constexpr int kPatienceInTimeouts = 4;
constexpr std::chrono::seconds kLeastPatience{1};

constexpr std::string_view kCheck = "check the server and the network";
constexpr std::string_view kCheckInTheClear =
    "check the server and the network, and whether it wants TLS (rediss://)";
constexpr std::string_view kCheckTls =
    "check the server and the network, and that it speaks TLS on this port (redis:// goes without)";

}  // namespace

Session::Session(const Endpoint& endpoint) : endpoint_(endpoint) { handshake(); }

void Session::handshake() {
  const Endpoint& to = endpoint_;
  if (!to.username.empty()) {
    append_handshake({"AUTH", to.username, to.password});
  } else if (!to.password.empty()) {
    append_handshake({"AUTH", to.password});
  }
  if (to.database != 0) append_handshake({"SELECT", std::to_string(to.database)});
}

void Session::append_handshake(std::initializer_list<std::string_view> command) {
  enqueue(State::handshake, Instant::min(), Instant::min());
  append_request(queue_, command);
  queued_ = greeting_ = queue_.size();
  ++ungranted_;
}

Ticket Session::submit(std::string_view request, Instant now, Instant deadline) {
  enqueue(State::waiting, now, deadline);
  queue_.append(request);
  queued_ += request.size();
  return Ticket{first_ + requests_.size() - 1};
}

void Session::enqueue(State state, Instant now, Instant deadline) {
  const auto patience = std::max<Instant::duration>(kPatienceInTimeouts * (deadline - now), kLeastPatience);
  requests_.push_back({state, queued_, now, patience, Reply::nil()});
}

std::string_view Session::outgoing() const noexcept {
  const std::string_view queue = queue_;
  return ungranted_ > 0 ? queue.substr(sent_in_queue_, greeting_ - sent_in_queue_)
                        : queue.substr(sent_in_queue_);
}

void Session::sent(std::size_t count) noexcept {
  sent_ += count;
  sent_in_queue_ += count;
  if (sent_in_queue_ < queue_.size()) return;
  queue_.clear();
  sent_in_queue_ = greeting_ = 0;
}

void Session::feed(std::string_view bytes, Instant now) {
  if (broken_) return;
  last_received_ = now;
  try {
    reader_.feed(bytes);
    while (std::optional<Reply> reply = reader_.next()) settle(std::move(*reply));
  } catch (const MalformedReply& malformed) {
    lost(std::string("it sent what is not a Redis reply: ") + malformed.what());
  }
}

void Session::settle(Reply reply) {
  if (settled_ == requests_.size()) return lost("it sent a reply to no request");
  Request& request = requests_[settled_++];
  switch (request.state) {
    case State::handshake:
      settle_handshake(reply);
      request.state = State::ended;
      break;
    case State::abandoned:
      --tombstones_;
      request.state = State::ended;
      break;
    default:
      request.reply = std::move(reply);
      request.state = State::answered;
  }
  forget_ended();
}

void Session::settle_handshake(const Reply& reply) {
  --ungranted_;
  if (!reply.is_error() || refused_) return;
  refused_ = reply.as_text();
  lost("it refused the handshake");
}

void Session::forget_ended() noexcept {
  while (settled_ > 0 && requests_.front().state == State::ended) {
    requests_.pop_front();
    --settled_;
    ++first_;
  }
}

void Session::lost(std::string_view reason) {
  if (!broken_) broken_ = reason;
}

std::optional<Reply> Session::take(Ticket ticket) {
  Request& request = at(ticket);
  if (request.state != State::answered) {
    if (broken_) fail(request);
    return std::nullopt;
  }
  Reply reply = std::move(request.reply);
  request.state = State::ended;
  forget_ended();
  return reply;
}

void Session::fail(Request& request) {
  const bool left = has_left(request);
  request.state = State::ended;
  if (refused_) raise_error_reply(*refused_, endpoint_);
  throw StoreUnavailable("lost the connection to redis at " + endpoint_.describe() + ": " + *broken_ + "; " +
                             std::string(advice()),
                         left);
}

/// A server in the clear keeps silent at a TLS handshake, one with TLS cuts the connection at anything else.
std::string_view Session::advice() const noexcept {
  if (!endpoint_.unix_path.empty()) return kCheck;
  if (endpoint_.tls) return sent_ == 0 ? kCheckTls : kCheck;
  return broken_ && last_received_ == Instant::min() ? kCheckInTheClear : kCheck;
}

void Session::abandon(Ticket ticket) noexcept {
  Request& request = at(ticket);
  if (request.state == State::answered) {
    request.state = State::ended;
    forget_ended();
  } else if (request.state == State::waiting) {
    request.state = State::abandoned;
    ++tombstones_;
  }
}

bool Session::may_have_left(Ticket ticket) const noexcept { return has_left(at(ticket)); }

bool Session::alive() const noexcept { return !broken_; }

bool Session::silent(Instant now) const noexcept {
  const auto oldest = std::find_if(requests_.begin() + static_cast<std::ptrdiff_t>(settled_), requests_.end(),
                                   [](const Request& each) { return each.state != State::handshake; });
  if (oldest == requests_.end()) return false;
  return now - std::max(oldest->submitted, last_received_) >= oldest->patience;
}

Session::Request& Session::at(Ticket ticket) noexcept {
  return requests_[static_cast<std::uint64_t>(ticket) - first_];
}

const Session::Request& Session::at(Ticket ticket) const noexcept {
  return requests_[static_cast<std::uint64_t>(ticket) - first_];
}

}  // namespace overlimit::redis::protocol
