#include "redis/protocol/session.hpp"

#include <algorithm>
#include <utility>

#include "overlimit/errors.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/protocol/greeting.hpp"
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

Session::Session(const Endpoint& endpoint, Instant now, Instant deadline) : endpoint_(endpoint) {
  const std::string& user = endpoint_.username.empty() ? "default" : endpoint_.username;
  if (endpoint_.username.empty() && endpoint_.password.empty()) {
    greet({"HELLO", "2"}, now, deadline);
  } else {
    greet({"HELLO", "2", "AUTH", user, endpoint_.password}, now, deadline);
  }
  if (endpoint_.database != 0) greet({"SELECT", std::to_string(endpoint_.database)}, now, deadline);
  greet({"PING"}, now, deadline);
  sending_.swap(queue_);
}

void Session::greet(std::initializer_list<std::string_view> command, Instant now, Instant deadline) {
  std::string request;
  append_request(request, command);
  enqueue(State::greeting, request, now, deadline, nullptr);
  ++ungranted_;
}

Ticket Session::submit(std::string_view request, Instant now, Instant deadline, Waiter waiter) {
  enqueue(State::waiting, request, now, deadline, waiter);
  return Ticket{first_ + requests_.size() - 1};
}

void Session::submit_unheard(std::string_view request, Instant now, Instant deadline) {
  enqueue(State::abandoned, request, now, deadline, nullptr);
}

void Session::enqueue(State state, std::string_view request, Instant now, Instant deadline, Waiter waiter) {
  const auto patience = std::max<Instant::duration>(kPatienceInTimeouts * (deadline - now), kLeastPatience);
  requests_.push_back({state, queued_, queued_ + request.size(), now, patience, waiter, Reply::nil()});
  queue_.append(request);
  queued_ += request.size();
}

std::string_view Session::outgoing() {
  if (!is_mid_flush() && may_queue_leave()) {
    sending_.clear();
    sending_.swap(queue_);
    sent_in_sending_ = 0;
  }
  const std::string_view bytes = std::string_view(sending_).substr(sent_in_sending_);
  offered_ = sent_ + bytes.size();
  return bytes;
}

void Session::sent(std::size_t count) {
  sent_ += count;
  sent_in_sending_ += count;
  offered_ = sent_;
  if (count > 0 && !is_mid_flush()) flushes_.push_back(sent_);
}

void Session::feed(std::string_view bytes, Instant now, std::vector<Waiter>& answered) {
  if (broken_) return;
  last_received_ = now;
  heard_ = true;
  try {
    reader_.feed(bytes);
    while (!broken_) {
      std::optional<Reply> reply = reader_.next();
      if (!reply) break;
      settle(std::move(*reply), answered);
    }
  } catch (const MalformedReply& malformed) {
    lost(std::string("it sent what is not a Redis reply: ") + malformed.what());
  }
}

void Session::settle(Reply reply, std::vector<Waiter>& answered) {
  const bool is_unasked = settled_ == requests_.size() || !has_left(requests_[settled_]);
  // A server that takes no more clients says so unasked, and may close before the greeting can be sent.
  if (is_unasked && !greeted() && reply.is_error()) return lost(cause_of(reply, endpoint_));
  if (is_unasked) return lost("it sent a reply to no request");
  Request& request = requests_[settled_++];
  while (!flushes_.empty() && flushes_.front() <= request.end) flushes_.pop_front();
  switch (request.state) {
    case State::greeting:
      settle_greeting(reply);
      request.state = State::ended;
      break;
    case State::abandoned:
      request.state = State::ended;
      break;
    default:
      request.reply = std::move(reply);
      request.state = State::answered;
      answered.push_back(request.waiter);
  }
  skip_withdrawn();
  forget_ended();
}

void Session::settle_greeting(const Reply& reply) {
  const bool is_to_ping = ungranted_ == 1;
  if (is_to_ping) {
    if (is_out_of_service(reply)) out_of_service_ = cause_of(reply, endpoint_);
  } else if (std::optional<Cause> objection = objection_to(reply, endpoint_)) {
    return lost(std::move(*objection));
  }
  --ungranted_;
}

void Session::forget_ended() noexcept {
  while (settled_ > 0 && requests_.front().state == State::ended) {
    requests_.pop_front();
    --settled_;
    ++first_;
  }
}

void Session::skip_withdrawn() noexcept {
  for (; settled_ < requests_.size() && requests_[settled_].state == State::withdrawn; ++settled_) {
    requests_[settled_].state = State::ended;
  }
}

void Session::lost(std::string_view reason) {
  lost(Cause::unavailable("lost the connection to redis at " + endpoint_.describe() + ": " +
                          std::string(reason) + "; " + std::string(advice())));
}

void Session::lost(Cause cause) {
  if (!broken_) broken_ = std::move(cause);
}

std::optional<Reply> Session::take(Ticket ticket) {
  Request& request = requests_[index_of(ticket)];
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
  request.state = State::abandoned;
  broken_->raise(left);
}

/// A server in the clear keeps silent at a TLS handshake, one with TLS cuts the connection at anything else.
std::string_view Session::advice() const noexcept {
  if (!endpoint_.unix_path.empty()) return kCheck;
  if (endpoint_.tls) return sent_ == 0 ? kCheckTls : kCheck;
  return heard_ ? kCheck : kCheckInTheClear;
}

void Session::abandon(Ticket ticket) {
  const std::size_t index = index_of(ticket);
  Request& request = requests_[index];
  if (request.state == State::answered) {
    request.state = State::ended;
    return forget_ended();
  }
  if (!has_left(request)) return withdraw(index);
  request.state = State::abandoned;
  if (sent_ < request.end && offered_ == sent_) lost("it does not take what is sent to it");
}

/// Takes a request back of which nothing was offered: what follows it moves up.
void Session::withdraw(std::size_t index) {
  Request& request = requests_[index];
  const std::uint64_t size = request.end - request.begin;
  const std::uint64_t in_sending = queued_ - queue_.size();
  if (request.begin < in_sending) {
    request.state = State::abandoned;
    return lost("it does not take what is sent to it");
  }
  queue_.erase(request.begin - in_sending, size);
  queued_ -= size;
  for (std::size_t later = index + 1; later < requests_.size(); ++later) {
    requests_[later].begin -= size;
    requests_[later].end -= size;
  }
  request.state = State::withdrawn;
  skip_withdrawn();
  forget_ended();
}

bool Session::may_have_left(Ticket ticket) const noexcept { return has_left(requests_[index_of(ticket)]); }

void Session::waiting(std::vector<Waiter>& waiters) const {
  for (std::size_t i = settled_; i < requests_.size(); ++i) {
    if (requests_[i].state == State::waiting) waiters.push_back(requests_[i].waiter);
  }
}

Instant Session::silent_at() const noexcept {
  if (settled_ == requests_.size()) return Instant::max();
  const Request& oldest = requests_[settled_];
  return std::max(oldest.submitted, last_received_) + oldest.patience;
}

std::size_t Session::index_of(Ticket ticket) const noexcept {
  return static_cast<std::uint64_t>(ticket) - first_;
}

}  // namespace overlimit::redis::protocol
