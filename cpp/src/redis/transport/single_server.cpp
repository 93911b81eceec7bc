#include "redis/transport/single_server.hpp"

#include "redis/protocol/failures.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {

using protocol::Reply;

Reply SingleServer::call(std::string_view command, std::optional<protocol::Slot> /*slot*/, const Wait& wait) {
  Backoff backoff;
  for (;;) {
    Reply reply = node_->call({command}, wait);
    const protocol::Classified classified = protocol::classify(reply);
    if (classified.outcome == protocol::Outcome::not_master) leave_replica();
    if (classified.is_retryable() && backoff.pause(wait)) continue;
    node_->record_final_reply(reply);
    return reply;
  }
}

void SingleServer::call_many(std::span<const std::string> commands,
                             std::span<const std::optional<protocol::Slot>> /*slots*/,
                             std::span<std::optional<Reply>> replies, const Wait& wait) {
  node_->call_many(plain_commands(commands), replies, wait);
}

void SingleServer::leave_replica() {
  const RateLimitedTask::Permit permit(leave_task_);
  if (permit) node_->close();
}

void SingleServer::for_each_server(const std::function<void(const Server&)>& visit, const Wait& /*wait*/) {
  visit([this](std::string_view command, const Wait& wait) { return call(command, {}, wait); });
}

}  // namespace overlimit::redis::transport
