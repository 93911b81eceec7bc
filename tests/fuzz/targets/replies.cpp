// RESP: the same replies, however the bytes are split, and what was read can be written and read again.
#include "resp.hpp"

#include "redis/protocol/reply.hpp"
#include "target.hpp"

namespace overlimit::fuzz {
namespace {

using redis::protocol::kMaxReplyBytes;
using redis::protocol::Reply;

void read_replies(std::string_view input) {
  Bytes bytes(input);
  const std::size_t step = 1 + bytes.number_up_to(15);
  const std::string_view stream = bytes.rest();
  const Stream whole = read_in_pieces(stream, stream.size() + 1);
  check(whole.replies == read_in_pieces(stream, 1).replies, "the same replies byte by byte");
  check(whole.replies == read_in_pieces(stream, step).replies, "the same replies in pieces");
  check(whole.is_malformed == read_in_pieces(stream, 1).is_malformed, "the same end byte by byte");
  check(whole.is_malformed == read_in_pieces(stream, step).is_malformed, "the same end in pieces");
  for (const std::string& reply : whole.replies) {
    const Stream again = read_in_pieces(reply, reply.size());
    check(!again.is_malformed && again.replies == std::vector{reply}, "what was read can be read again");
  }
}

std::vector<std::string> reply_streams() {
  return {std::string(1, '\2') + "+OK\r\n:1\r\n$-1\r\n$3\r\na\0b\r\n",
          std::string(1, '\1') + "*3\r\n$7\r\nmessage\r\n*2\r\n:-5\r\n-ERR no\r\n*0\r\n",
          std::string(1, '\0') + "*-1\r\n$0\r\n\r\n:9223372036854775807\r\n",
          std::string(1, '\3') + "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n%1\r\n"};
}

const Registration kReplies("replies", {read_replies, reply_streams});

}  // namespace
}  // namespace overlimit::fuzz
