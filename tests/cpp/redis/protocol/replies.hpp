// Replies, written as a test likes to write them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "redis/protocol/reply.hpp"

namespace overlimit::redis::protocol {

template <typename... Elements>
Reply array_of(Elements... elements) {
  std::vector<Reply> replies;
  (replies.push_back(std::move(elements)), ...);
  return Reply::array(std::move(replies));
}

inline Reply words(const std::vector<std::string>& texts) {
  std::vector<Reply> replies;
  for (const std::string& text : texts) replies.push_back(Reply::string(text));
  return Reply::array(std::move(replies));
}

}  // namespace overlimit::redis::protocol
