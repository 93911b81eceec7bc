#include "redis/transport/single_server.hpp"

#include "redis/protocol/failures.hpp"
#include "redis/transport/backoff.hpp"

namespace overlimit::redis::transport {

using protocol::Reply;

Reply SingleServer::call(std::string_view request, std::optional<protocol::Slot> /*slot*/,
                         const Deadline& deadline, const Interrupted& interrupted) {
  Backoff backoff;
  for (;;) {
    Reply reply = node_->call({request}, deadline, interrupted);
    if (protocol::is_from_replica(reply)) leave_replica();
    if (protocol::is_worth_retrying(reply) && backoff.pause(deadline, interrupted)) continue;
    node_->gave_up_at(reply);
    return reply;
  }
}

void SingleServer::leave_replica() {
  const Errand::Hold errand(leaving_);
  if (errand) node_->close();
}

void SingleServer::for_each_server(const std::function<void(const Server&)>& visit,
                                   const Deadline& /*deadline*/, const Interrupted& /*interrupted*/) {
  visit([this](std::string_view request, const Deadline& until, const Interrupted& interrupted) {
    return call(request, {}, until, interrupted);
  });
}

}  // namespace overlimit::redis::transport
