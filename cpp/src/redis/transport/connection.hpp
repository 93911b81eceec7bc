// One connection and the session on it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "redis/protocol/reply.hpp"
#include "redis/protocol/session.hpp"
#include "redis/transport/dialer.hpp"
#include "redis/transport/open_descriptors.hpp"
#include "redis/transport/stream.hpp"
#include "redis/transport/wait.hpp"

namespace overlimit::redis::transport {

/// Opened by its first call and again after it was closed or lost. Not thread-safe; not to be used, nor
/// destroyed, in another process than the one that made it.
class Connection {
 public:
  Connection(std::shared_ptr<Dialer> dialer, std::shared_ptr<OpenDescriptors> open);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { close(); }

  /// See Connections::call.
  [[nodiscard]] protocol::Reply call(std::string_view request, const Deadline& deadline,
                                     const Interrupted& interrupted);

  void close() noexcept;

 private:
  [[nodiscard]] bool is_usable();
  void open(const Deadline& deadline, const Interrupted& interrupted);
  [[nodiscard]] protocol::Reply exchange(protocol::Ticket ticket, const Deadline& deadline,
                                         const Interrupted& interrupted);
  void wait(protocol::Ticket ticket, const Deadline& deadline, const Interrupted& interrupted);
  void send_outgoing();
  [[nodiscard]] bool receive_once();
  void receive_all();
  void give_up(protocol::Ticket ticket) noexcept;

  const std::shared_ptr<Dialer> dialer_;
  const std::shared_ptr<OpenDescriptors> open_descriptors_;
  std::unique_ptr<Stream> stream_;
  OpenDescriptors::Entry* listed_ = nullptr;
  std::optional<protocol::Session> session_;  // there only while stream_ is
  std::array<char, Stream::kLeastBuffer> buffer_;
};

}  // namespace overlimit::redis::transport
