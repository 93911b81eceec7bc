// Bytes from a server in, replies out. The only file that uses hiredis.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "redis/protocol/reply.hpp"

struct redisReader;

namespace overlimit::redis::protocol {

struct GrowingReply;

/// The bytes are not RESP2, or one reply has more than kMaxReplyBytes, more than kMaxReplyElements in all
/// its arrays, or arrays nested deeper than kMaxReplyDepth. The stream cannot be read any further.
class MalformedReply : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr std::size_t kMaxReplyBytes = std::size_t{16} << 20U;
inline constexpr std::size_t kMaxReplyElements = std::size_t{1} << 17U;
inline constexpr std::size_t kMaxReplyDepth = 7;

/// Reads one stream. Not thread-safe; after MalformedReply it may only be destroyed.
class ReplyReader {
 public:
  ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;
  ~ReplyReader();

  /// Copies the bytes. Throws MalformedReply.
  void feed(std::string_view bytes);
  /// The next complete reply, or none until more bytes are fed. Throws MalformedReply.
  [[nodiscard]] std::optional<Reply> next();

 private:
  struct Free {
    void operator()(redisReader* reader) const noexcept;
  };

  [[noreturn]] void fail() const;

  std::unique_ptr<GrowingReply> growing_;
  std::unique_ptr<redisReader, Free> reader_;
};

}  // namespace overlimit::redis::protocol
