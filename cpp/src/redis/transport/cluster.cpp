#include "redis/transport/cluster.hpp"

#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "overlimit/errors.hpp"
#include "redis/protocol/addresses.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/transport/single_server.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {
namespace {

using protocol::Classified;
using protocol::Outcome;
using protocol::Redirection;
using protocol::Reply;
using protocol::Slot;

/// How many redirections are followed without a pause. More mean that the nodes disagree for a while.
constexpr int kPromptRedirections = 2;

/// One call on its way to the node that answers it.
class ClusterCall {
 public:
  ClusterCall(ClusterNodes& nodes, Slot slot, const Wait& wait) : nodes_(nodes), slot_(slot), wait_(wait) {
    go_to_owner();
  }

  Reply run(std::string_view command) {
    for (;;) {
      try {
        Reply reply = ask(command);
        if (reply.is_error() && can_go_on(reply.as_text())) continue;
        node_->node->record_final_reply(reply);
        return reply;
      } catch (const StoreUnavailable& unavailable) {
        if (unavailable.maybe_charged()) throw;
        go_to_new_owner();
      }
    }
  }

 private:
  Reply ask(std::string_view command) {
    std::atomic<bool>& is_suspect = node_->is_suspect;
    try {
      Reply reply = node_->node->call({command, asking_}, wait_);
      if (is_suspect.load(std::memory_order_relaxed)) is_suspect.store(false);
      return reply;
    } catch (const StoreError&) {
      is_suspect.store(true);
      throw;
    }
  }

  /// Whether another node, or the same one again, is to be asked next.
  bool can_go_on(std::string_view error) {
    const Classified classified = protocol::classify_error(error);
    if (classified.is_redirection()) {
      follow(classified.outcome, protocol::redirection_of(error, node_->address));
      return true;
    }
    if (!classified.is_retryable()) return false;
    node_->is_suspect.store(true);  // another may serve the slot by now
    if (!backoff_.pause(wait_)) return false;
    // The nodes agree: where keys are on two nodes, Redis 6 answers ASK, and the other node TRYAGAIN.
    redirections_ = 0;
    go_to_owner();
    return true;
  }

  void follow(Outcome redirected, const std::optional<Redirection>& redirection) {
    if (++redirections_ > kPromptRedirections && !backoff_.pause(wait_)) {
      throw StoreUnavailable("the nodes of the redis cluster disagree about who serves slot " +
                             std::to_string(slot_) + "; check them with CLUSTER NODES");
    }
    if (redirection && redirected == Outcome::ask) {
      node_ = nodes_.at(redirection->to);
      asking_ = Asking::yes;
    } else {
      follow_move(redirection);
    }
  }

  /// A node that knows of one slot that has moved may know of others.
  void follow_move(const std::optional<Redirection>& moved) {
    nodes_.refresh(slot_, wait_);
    if (moved) nodes_.learn(*moved);
    go_to_owner();
  }

  void go_to_owner() {
    node_ = nodes_.owner(slot_, wait_);
    asking_ = Asking::no;
  }

  /// Rethrows the error being handled when no other node serves the slot now.
  void go_to_new_owner() {
    if (wait_.deadline.passed()) throw;
    const ClusterNodes::Pointer failed = node_;
    go_to_owner();
    if (node_ == failed) throw;
  }

  ClusterNodes& nodes_;
  const Slot slot_;
  const Wait& wait_;
  ClusterNodes::Pointer node_;
  Asking asking_ = Asking::no;
  Backoff backoff_;
  int redirections_ = 0;
};

}  // namespace

Reply Cluster::call(std::string_view command, std::optional<Slot> slot, const Wait& wait) {
  return ClusterCall(nodes_, slot.value_or(0), wait).run(command);
}

void Cluster::call_many(std::span<const std::string> commands, std::span<const std::optional<Slot>> slots,
                        std::span<std::optional<Reply>> replies, const Wait& wait) {
  std::map<ClusterNodes::Pointer, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    places[nodes_.owner(slots[i].value_or(0), wait)].push_back(i);
  }
  std::exception_ptr failure;
  for (const auto& [node, own] : places) {
    std::vector<Command> sent;
    for (const std::size_t place : own) sent.emplace_back(commands[place]);
    std::vector<std::optional<Reply>> received(own.size());
    try {
      node->node->call_many(sent, received, wait);
    } catch (const StoreError&) {
      node->is_suspect.store(true);
      if (!failure) failure = std::current_exception();
    }
    for (std::size_t i = 0; i < own.size(); ++i) replies[own[i]] = std::move(received[i]);
  }
  if (failure) std::rethrow_exception(failure);
}

void Cluster::for_each_server(const std::function<void(const Server&)>& visit, const Wait& wait) {
  std::exception_ptr failure;
  for (const ClusterNodes::Pointer& each : nodes_.masters(wait)) {
    SingleServer server(each->node);
    try {
      server.for_each_server(visit, wait);
    } catch (const StoreError&) {
      each->is_suspect.store(true);
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  nodes_.require_all_served();
}

}  // namespace overlimit::redis::transport
