#include "redis/protocol/session.hpp"

#include <algorithm>

#include "redis/protocol/command.hpp"

namespace overlimit::redis::protocol {
namespace {

constexpr int kSilenceInTimeouts = 4;
constexpr std::chrono::seconds kLeastSilence{1};

constexpr std::string_view kCheck = "check the server and the network";
constexpr std::string_view kCheckInTheClear =
    "check the server and the network, and whether it wants TLS (rediss://)";
constexpr std::string_view kCheckTls =
    "check the server and the network, and that it speaks TLS on this port (redis:// goes without)";

/// As whom to talk to the server, and how to call the connection. As a part of HELLO the name needs neither a
/// command of its own nor the right to CLIENT SETNAME.
std::vector<std::string_view> hello(const Endpoint& endpoint) {
  std::vector<std::string_view> words{"HELLO", "2"};
  if (!endpoint.username.empty() || !endpoint.password.empty()) {
    const std::string_view user = endpoint.username.empty() ? "default" : std::string_view(endpoint.username);
    words.insert(words.end(), {"AUTH", user, endpoint.password});
  }
  if (!endpoint.client_name.empty()) words.insert(words.end(), {"SETNAME", endpoint.client_name});
  return words;
}

}  // namespace

Session::Session(Endpoint endpoint, TimePoint now, TimePoint deadline) : endpoint_(std::move(endpoint)) {
  queue_handshake(hello(endpoint_), now, deadline);
  if (endpoint_.database != 0) queue_handshake({"SELECT", std::to_string(endpoint_.database)}, now, deadline);
  queue_handshake({"PING"}, now, deadline);
  sending_.swap(queue_);
}

void Session::queue_handshake(const std::vector<std::string_view>& arguments, TimePoint now,
                              TimePoint deadline) {
  std::string command;
  append_command(command, arguments);
  enqueue(State::handshake, command, now, deadline, nullptr);
  ++handshake_replies_left_;
}

Ticket Session::submit(std::string_view command, TimePoint now, TimePoint deadline, Waiter waiter) {
  enqueue(State::waiting, command, now, deadline, waiter);
  return Ticket{first_ + pending_.size() - 1};
}

void Session::submit_ignored(std::string_view command, TimePoint now, TimePoint deadline) {
  enqueue(State::abandoned, command, now, deadline, nullptr);
}

void Session::enqueue(State state, std::string_view command, TimePoint now, TimePoint deadline,
                      Waiter waiter) {
  const auto silence = std::max<TimePoint::duration>(kSilenceInTimeouts * (deadline - now), kLeastSilence);
  pending_.push_back({state, queued_, queued_ + command.size(), now, silence, waiter, Reply::nil()});
  queue_.append(command);
  queued_ += command.size();
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

void Session::feed(std::string_view bytes, TimePoint now, std::vector<Waiter>& answered) {
  if (broken_) return;
  last_received_ = now;
  has_received_ = true;
  try {
    reader_.feed(bytes);
    while (!broken_) {
      std::optional<Reply> reply = reader_.next();
      if (!reply) break;
      assign_reply(std::move(*reply), answered);
    }
  } catch (const MalformedReply& malformed) {
    lost(std::string("it sent something that is not a Redis reply: ") + malformed.what());
  }
}

void Session::assign_reply(Reply&& reply, std::vector<Waiter>& answered) {
  const bool is_unexpected = answered_ == pending_.size() || !has_left(pending_[answered_]);
  // A server with too many clients sends an error on its own, and may close before the handshake can be sent.
  if (is_unexpected && !is_established() && reply.is_error()) return lost(cause_of(reply, endpoint_));
  if (is_unexpected) return lost("it sent a reply that belongs to no command");
  PendingCommand& command = pending_[answered_++];
  while (!flushes_.empty() && flushes_.front() <= command.end) flushes_.pop_front();
  switch (command.state) {
    case State::handshake:
      check_handshake_reply(reply);
      command.state = State::ended;
      break;
    case State::abandoned:
      command.state = State::ended;
      break;
    default:
      command.reply = std::move(reply);
      command.state = State::answered;
      answered.push_back(command.waiter);
  }
  skip_withdrawn();
  pop_ended();
}

void Session::check_handshake_reply(const Reply& reply) {
  const bool is_to_ping = handshake_replies_left_ == 1;
  if (is_to_ping) {
    if (classify(reply).is_out_of_service()) out_of_service_ = cause_of(reply, endpoint_);
  } else if (std::optional<Cause> objection = handshake_failure(reply, endpoint_)) {
    return lost(std::move(*objection));
  }
  --handshake_replies_left_;
}

void Session::pop_ended() noexcept {
  while (answered_ > 0 && pending_.front().state == State::ended) {
    pending_.pop_front();
    --answered_;
    ++first_;
  }
}

void Session::skip_withdrawn() noexcept {
  for (; answered_ < pending_.size() && pending_[answered_].state == State::withdrawn; ++answered_) {
    pending_[answered_].state = State::ended;
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
  PendingCommand& command = pending_[index_of(ticket)];
  if (command.state != State::answered) {
    if (broken_) fail(command);
    return std::nullopt;
  }
  std::optional<Reply> reply(std::move(command.reply));
  command.state = State::ended;
  pop_ended();
  return reply;
}

void Session::fail(PendingCommand& command) {
  const bool left = has_left(command);
  command.state = State::abandoned;
  broken_->raise(left);
}

/// A server without TLS keeps silent after the first bytes of a TLS handshake; one with TLS closes the
/// connection when it receives anything else.
std::string_view Session::advice() const noexcept {
  if (!endpoint_.unix_path.empty()) return kCheck;
  if (endpoint_.tls) return sent_ == 0 ? kCheckTls : kCheck;
  return has_received_ ? kCheck : kCheckInTheClear;
}

void Session::abandon(Ticket ticket) {
  const std::size_t index = index_of(ticket);
  PendingCommand& command = pending_[index];
  if (command.state == State::answered) {
    command.state = State::ended;
    return pop_ended();
  }
  if (!has_left(command)) return withdraw(index);
  command.state = State::abandoned;
  if (sent_ < command.end && offered_ == sent_) lost("it does not read what is sent to it");
}

/// Takes back a command that outgoing() has not returned: what follows it moves up.
void Session::withdraw(std::size_t index) {
  PendingCommand& command = pending_[index];
  const std::uint64_t size = command.end - command.begin;
  const std::uint64_t in_sending = queued_ - queue_.size();
  if (command.begin < in_sending) {
    command.state = State::abandoned;
    return lost("it does not read what is sent to it");
  }
  queue_.erase(command.begin - in_sending, size);
  queued_ -= size;
  for (std::size_t later = index + 1; later < pending_.size(); ++later) {
    pending_[later].begin -= size;
    pending_[later].end -= size;
  }
  command.state = State::withdrawn;
  skip_withdrawn();
  pop_ended();
}

bool Session::may_have_left(Ticket ticket) const noexcept { return has_left(pending_[index_of(ticket)]); }

void Session::waiting(std::vector<Waiter>& waiters) const {
  for (std::size_t i = answered_; i < pending_.size(); ++i) {
    if (pending_[i].state == State::waiting) waiters.push_back(pending_[i].waiter);
  }
}

TimePoint Session::silent_at() const noexcept {
  if (answered_ == pending_.size()) return TimePoint::max();
  const PendingCommand& oldest = pending_[answered_];
  return std::max(oldest.submitted, last_received_) + oldest.silence;
}

std::size_t Session::index_of(Ticket ticket) const noexcept {
  return static_cast<std::uint64_t>(ticket) - first_;
}

}  // namespace overlimit::redis::protocol
