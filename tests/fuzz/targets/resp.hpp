// Replies as bytes, both ways, for targets that are told something by a server.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redis/protocol/reply.hpp"

namespace overlimit::fuzz {

/// The RESP2 of a reply.
inline std::string written(const redis::protocol::Reply& reply) {
  using Type = redis::protocol::Reply::Type;
  constexpr std::string_view kEnd = "\r\n";
  switch (reply.type()) {
    case Type::nil:
      return "$-1\r\n";
    case Type::integer:
      return ':' + std::to_string(reply.as_integer()).append(kEnd);
    case Type::string:
      return '$' + std::to_string(reply.as_text().size()).append(kEnd).append(reply.as_text()).append(kEnd);
    case Type::status:
      return '+' + std::string(reply.as_text()).append(kEnd);
    case Type::error:
      return '-' + std::string(reply.as_text()).append(kEnd);
    case Type::array:
      break;
  }
  std::string bytes = '*' + std::to_string(reply.as_array().size()).append(kEnd);
  for (const redis::protocol::Reply& each : reply.as_array()) bytes += written(each);
  return bytes;
}

/// What was read of a stream: its replies, written again, and whether it ended in something else.
struct Stream {
  std::vector<std::string> replies;
  bool is_malformed = false;
};

inline Stream read_in_pieces(std::string_view bytes, std::size_t size) {
  redis::protocol::ReplyReader reader;
  Stream stream;
  try {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(size, bytes.size()))) {
      reader.feed(bytes.substr(0, size));
      while (const auto reply = reader.next()) stream.replies.push_back(written(*reply));
    }
  } catch (const redis::protocol::MalformedReply&) {
    stream.is_malformed = true;
  }
  return stream;
}

/// The first reply of a stream; none if it has none.
inline std::optional<redis::protocol::Reply> first_reply(std::string_view bytes) {
  redis::protocol::ReplyReader reader;
  try {
    reader.feed(bytes);
    return reader.next();
  } catch (const redis::protocol::MalformedReply&) {
    return std::nullopt;
  }
}

}  // namespace overlimit::fuzz
