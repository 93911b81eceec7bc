// The connection to one sentinel: who is the master, and who becomes it.
#pragma once

#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "overlimit/redis_endpoint.hpp"
#include "redis/protocol/mastership.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/protocol/reply_reader.hpp"
#include "redis/transport/stream.hpp"

namespace overlimit::redis::transport {

/// Once it is open it listens to +switch-master, and stops doing so only for the moment in which it asks.
/// Nothing here waits. A failure closes it. Not thread-safe.
class SentinelLink {
 public:
  using Instant = protocol::Mastership::Instant;

  SentinelLink(Endpoint sentinel, std::string service);
  SentinelLink(const SentinelLink&) = delete;
  SentinelLink& operator=(const SentinelLink&) = delete;
  ~SentinelLink() = default;

  void open(std::unique_ptr<Stream> stream);
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return stream_ != nullptr; }

  /// Asks who the master is.
  void ask();
  [[nodiscard]] bool is_asked() const noexcept { return is_asked_; }

  /// Sends what is to be sent, reads what has come and tells `mastership`.
  void exchange(protocol::Mastership& mastership, Instant now);
  /// Makes sure that the sentinel still answers: fails when the last time it did not.
  void probe(Instant now);
  void fail(std::exception_ptr failure) noexcept;

  /// Why the last question has no answer, or why it closed; null when all is well.
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }

  /// While it is open: what to wait for, see Stream.
  [[nodiscard]] int fd() const noexcept { return stream_->fd(); }
  [[nodiscard]] short events() const noexcept {
    const short sending = outgoing_.empty() ? short{0} : stream_->sending_events();
    return static_cast<short>(stream_->receiving_events() | sending);
  }

 private:
  void flush();
  void receive(protocol::Mastership& mastership, Instant now);
  void take(const protocol::Reply& reply, protocol::Mastership& mastership, Instant now);
  void take_answer(const protocol::Reply& reply, protocol::Mastership& mastership, Instant now);
  [[nodiscard]] std::string where() const;

  const Endpoint sentinel_;
  const std::string service_;

  std::unique_ptr<Stream> stream_;
  std::unique_ptr<protocol::ReplyReader> reader_;  // there only while stream_ is
  std::string outgoing_;
  bool is_asked_ = false;
  std::optional<Instant> unanswered_since_;  // of a probe
  std::exception_ptr failure_;
  std::array<char, Stream::kLeastBuffer> buffer_;
};

}  // namespace overlimit::redis::transport
