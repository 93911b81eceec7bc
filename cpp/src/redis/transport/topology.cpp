#include "redis/transport/topology.hpp"

#include "redis/transport/node.hpp"
#include "redis/transport/per_process.hpp"

namespace overlimit::redis::transport {
namespace {

using protocol::Reply;

/// Connections that turn out to lead to a replica are closed: the host name may mean another server by now.
class SingleServer final : public Topology {
 public:
  explicit SingleServer(std::shared_ptr<Node> node) : node_(std::move(node)) {}

  [[nodiscard]] protocol::Reply call(std::string_view command, std::optional<protocol::Slot> /*slot*/,
                                     const Wait& wait) override {
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

  void call_many(std::span<const std::string> commands,
                 std::span<const std::optional<protocol::Slot>> /*slots*/,
                 std::span<std::optional<Reply>> replies, const Wait& wait) override {
    node_->call_many(plain_commands(commands), replies, wait);
  }

  void send(std::string_view command, std::optional<protocol::Slot> /*slot*/, const Wait& wait) override {
    node_->send(command, wait);
  }

  [[nodiscard]] Link link(std::optional<protocol::Slot> /*slot*/) override { return node_->link(); }

  void for_each_server(const std::function<void(const Server&)>& visit, const Wait& /*wait*/) override {
    visit([this](std::string_view command, const Wait& wait) { return call(command, {}, wait); });
  }

  [[nodiscard]] std::optional<std::chrono::seconds> certificate_left() override {
    return node_->certificate_left();
  }

  void close() override { node_->close(); }
  [[nodiscard]] Breaker::State breaker() override { return node_->breaker(); }

 private:
  void leave_replica() {
    const RateLimitedTask::Permit permit(leave_task_);
    if (permit) node_->close();
  }

  const std::shared_ptr<Node> node_;
  RateLimitedTask leave_task_;
};

std::shared_ptr<Topology> made(const Endpoint& server) { return single_server(node_of(server)); }
std::shared_ptr<Topology> made(const SentinelLocation& location) { return sentinels(location); }
std::shared_ptr<Topology> made(const ClusterLocation& location) { return cluster(location); }

}  // namespace

std::shared_ptr<Topology> single_server(std::shared_ptr<Node> node) {
  return std::make_shared<SingleServer>(std::move(node));
}

std::shared_ptr<Topology> topology_of(const Location& location) {
  return registry_of_caller<Location, Topology>().of(
      location, [&] { return std::visit([](const auto& each) { return made(each); }, location); });
}

}  // namespace overlimit::redis::transport
