// The connection to one sentinel: who is the master, and who becomes it.
#pragma once

#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "overlimit/redis_location.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/protocol/sentinel.hpp"
#include "redis/transport/stream.hpp"

namespace overlimit::redis::transport {

/// While it is open it is subscribed to +switch-master, except for the moment in which it asks for the
/// master. Nothing here waits. A failure closes the connection. Not thread-safe.
class SentinelConnection {
 public:
  using TimePoint = protocol::MasterTracker::TimePoint;

  SentinelConnection(Endpoint sentinel, std::string service);
  SentinelConnection(const SentinelConnection&) = delete;
  SentinelConnection& operator=(const SentinelConnection&) = delete;
  ~SentinelConnection() = default;

  void open(std::unique_ptr<Stream> stream);
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return stream_ != nullptr; }

  /// Asks who the master is.
  void ask();
  [[nodiscard]] bool is_asked() const noexcept { return is_asked_; }

  /// Sends what is queued, reads what has come and passes it to `tracker`.
  void exchange(protocol::MasterTracker& tracker, TimePoint now);
  /// Checks that the sentinel still answers: fails if it has not answered the last probe.
  void probe(TimePoint now);
  void fail(std::exception_ptr failure) noexcept;

  /// Why the last question has no answer, or why the connection was closed; null without a failure.
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }

  /// While it is open: what to wait for, see Stream.
  [[nodiscard]] int fd() const noexcept { return stream_->fd(); }
  [[nodiscard]] short events() const noexcept {
    const short sending = outgoing_.empty() ? short{0} : stream_->sending_events();
    return static_cast<short>(stream_->receiving_events() | sending);
  }

 private:
  void flush();
  void receive(protocol::MasterTracker& tracker, TimePoint now);
  void take(const protocol::Reply& reply, protocol::MasterTracker& tracker, TimePoint now);
  void take_answer(const protocol::Reply& reply, protocol::MasterTracker& tracker, TimePoint now);
  [[nodiscard]] std::string where() const;

  const Endpoint sentinel_;
  const std::string service_;

  std::unique_ptr<Stream> stream_;
  std::unique_ptr<protocol::ReplyReader> reader_;  // set while stream_ is
  std::string outgoing_;
  bool is_asked_ = false;
  std::optional<TimePoint> unanswered_since_;  // when the pending probe was sent
  std::exception_ptr failure_;
  std::array<char, Stream::kLeastBuffer> buffer_;
};

}  // namespace overlimit::redis::transport
