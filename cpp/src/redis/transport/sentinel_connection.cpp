#include "redis/transport/sentinel_connection.hpp"

#include <chrono>
#include <utility>

#include "overlimit/errors.hpp"
#include "redis/protocol/command.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/protocol/sentinel.hpp"

namespace overlimit::redis::transport {

namespace {

using protocol::Reply;

constexpr std::string_view kChannel = "+switch-master";
constexpr std::chrono::milliseconds kLongestSilence{2'000};

bool is_pong(const Reply& reply) {
  return reply.is_array() && !reply.as_array().empty() && reply.as_array()[0].is_string() &&
         reply.as_array()[0].as_text() == "pong";
}

/// Nil for a service that the sentinel does not know, or an address; all other replies have three parts.
bool is_answer(const Reply& reply) {
  return reply.is_nil() || (reply.is_array() && reply.as_array().size() == 2 && !is_pong(reply));
}

std::exception_ptr refusal(const std::string& where, std::string_view error) {
  const std::string what = where + " answered \"" + std::string(error) + "\"; ";
  if (protocol::classify_error(error).is_unavailable()) {
    return std::make_exception_ptr(StoreUnavailable(what + "see its log"));
  }
  return std::make_exception_ptr(
      StoreConfigError(what +
                       "check that it is a sentinel and answers those who give no password (the one in the "
                       "store's URL is for the servers behind)"));
}

}  // namespace

SentinelConnection::SentinelConnection(Endpoint sentinel, std::string service)
    : sentinel_(std::move(sentinel)), service_(std::move(service)) {}

void SentinelConnection::open(std::unique_ptr<Stream> stream) {
  close();
  stream_ = std::move(stream);
  reader_ = std::make_unique<protocol::ReplyReader>();
  failure_ = nullptr;
  protocol::append_command(outgoing_, {"SUBSCRIBE", kChannel});
}

void SentinelConnection::close() noexcept {
  stream_.reset();
  reader_.reset();
  outgoing_.clear();
  is_asked_ = false;
  unanswered_since_.reset();
}

void SentinelConnection::fail(std::exception_ptr failure) noexcept {
  close();
  failure_ = std::move(failure);
}

/// A subscribed connection takes no other commands (RESP2).
void SentinelConnection::ask() {
  protocol::append_command(outgoing_, {"UNSUBSCRIBE", kChannel});
  protocol::append_command(outgoing_, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", service_});
  protocol::append_command(outgoing_, {"SUBSCRIBE", kChannel});
  is_asked_ = true;
  failure_ = nullptr;
}

void SentinelConnection::exchange(protocol::MasterTracker& tracker, TimePoint now) try {
  if (is_open()) flush();
  if (is_open()) receive(tracker, now);
  if (is_open()) flush();
} catch (const StoreError&) {
  fail(std::current_exception());
} catch (const protocol::MalformedReply& malformed) {
  fail(std::make_exception_ptr(StoreUnavailable(where() + " sent what is no reply: " + malformed.what())));
}

void SentinelConnection::probe(TimePoint now) {
  if (!is_open()) return;
  if (unanswered_since_ && now - *unanswered_since_ >= kLongestSilence) {
    return fail(std::make_exception_ptr(StoreUnavailable(where() + " has stopped answering")));
  }
  if (unanswered_since_) return;
  protocol::append_command(outgoing_, {"PING"});
  unanswered_since_ = now;
}

void SentinelConnection::flush() {
  while (!outgoing_.empty()) {
    const Transfer transfer = stream_->send(outgoing_);
    if (transfer.error) throw StoreUnavailable("lost " + where() + ": " + transfer.error.message());
    if (transfer.count == 0) return;
    outgoing_.erase(0, transfer.count);
  }
}

void SentinelConnection::receive(protocol::MasterTracker& tracker, TimePoint now) {
  for (;;) {
    const Transfer transfer = stream_->receive(buffer_.data(), buffer_.size());
    reader_->feed({buffer_.data(), transfer.count});
    while (const std::optional<Reply> reply = reader_->next()) {
      take(*reply, tracker, now);
      if (!is_open()) return;
    }
    if (transfer.error) throw StoreUnavailable("lost " + where() + ": " + transfer.error.message());
    if (transfer.end) throw StoreUnavailable("lost " + where() + ": it closed the connection");
    if (transfer.count == 0) return;
  }
}

void SentinelConnection::take(const Reply& reply, protocol::MasterTracker& tracker, TimePoint now) {
  unanswered_since_.reset();
  if (reply.is_error()) return fail(refusal(where(), reply.as_text()));
  if (const auto announced = protocol::switch_of(reply, service_)) tracker.switched(*announced, now);
  if (is_asked_ && is_answer(reply)) take_answer(reply, tracker, now);
}

void SentinelConnection::take_answer(const Reply& reply, protocol::MasterTracker& tracker, TimePoint now) {
  is_asked_ = false;
  if (const std::optional<HostPort> master = protocol::named_master(reply))
    return tracker.named(*master, now);
  failure_ = std::make_exception_ptr(
      StoreConfigError(where() + " knows no service '" + service_ + "': check the name in the store's URL"));
}

std::string SentinelConnection::where() const { return "the sentinel at " + sentinel_.host_port(); }

}  // namespace overlimit::redis::transport
