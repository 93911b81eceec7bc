#include "redis/transport/cluster.hpp"

#include <exception>
#include <memory>
#include <string>

#include "overlimit/errors.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/protocol/redirection.hpp"
#include "redis/transport/backoff.hpp"
#include "redis/transport/single_server.hpp"

namespace overlimit::redis::transport {
namespace {

using protocol::Failure;
using protocol::Meaning;
using protocol::Redirection;
using protocol::Reply;
using protocol::Slot;

/// Redirections that are followed at once. Nodes that send a call round and round disagree for a while.
constexpr int kPromptRedirections = 2;

/// One call on its way to the node that answers it.
class Journey {
 public:
  Journey(ClusterNodes& nodes, Slot slot, const Deadline& deadline, const Interrupted& interrupted)
      : nodes_(nodes), slot_(slot), deadline_(deadline), interrupted_(interrupted) {
    turn_to_owner();
  }

  Reply run(std::string_view request) {
    for (;;) {
      try {
        Reply reply = ask(request);
        if (reply.is_error() && goes_on(reply.as_text())) continue;
        node_->node->gave_up_at(reply);
        return reply;
      } catch (const StoreUnavailable& unavailable) {
        if (unavailable.maybe_charged()) throw;
        turn_to_successor();
      }
    }
  }

 private:
  Reply ask(std::string_view request) {
    std::atomic<bool>& is_doubted = node_->is_doubted;
    try {
      Reply reply = node_->node->call({request, asking_}, deadline_, interrupted_);
      if (is_doubted.load(std::memory_order_relaxed)) is_doubted.store(false);
      return reply;
    } catch (const StoreError&) {
      is_doubted.store(true);
      throw;
    }
  }

  /// Whether there is somebody else to ask, or the same one again.
  bool goes_on(std::string_view error) {
    const Meaning meaning = protocol::meaning_of(error);
    if (protocol::is_redirection(meaning)) {
      follow(meaning.failure, protocol::redirection_of(error, node_->address));
      return true;
    }
    if (!protocol::is_worth_retrying(meaning)) return false;
    node_->is_doubted.store(true);  // another may serve the slot by now
    if (!backoff_.pause(deadline_, interrupted_)) return false;
    // The nodes agree: Redis 6 answers ASK for keys that are apart, and the one to ask then TRYAGAIN.
    redirections_ = 0;
    turn_to_owner();
    return true;
  }

  void follow(Failure kind, const std::optional<Redirection>& redirection) {
    if (++redirections_ > kPromptRedirections && !backoff_.pause(deadline_, interrupted_)) {
      throw StoreUnavailable("the nodes of the redis cluster disagree about who serves slot " +
                             std::to_string(slot_) + "; check them with CLUSTER NODES");
    }
    if (redirection && kind == Failure::ask) {
      node_ = nodes_.at(redirection->to);
      asking_ = Asking::yes;
    } else {
      follow_for_good(redirection);
    }
  }

  /// Who knows that one slot has moved may know of others.
  void follow_for_good(const std::optional<Redirection>& moved) {
    nodes_.refresh(slot_, deadline_, interrupted_);
    if (moved) nodes_.learn(*moved);
    turn_to_owner();
  }

  void turn_to_owner() {
    node_ = nodes_.owner(slot_, deadline_, interrupted_);
    asking_ = Asking::no;
  }

  /// Throws what is being handled when nobody has taken the place of the node that failed.
  void turn_to_successor() {
    if (deadline_.passed()) throw;
    const ClusterNodes::Pointer failed = node_;
    turn_to_owner();
    if (node_ == failed) throw;
  }

  ClusterNodes& nodes_;
  const Slot slot_;
  const Deadline& deadline_;
  const Interrupted& interrupted_;
  ClusterNodes::Pointer node_;
  Asking asking_ = Asking::no;
  Backoff backoff_;
  int redirections_ = 0;
};

}  // namespace

Reply Cluster::call(std::string_view request, std::optional<Slot> slot, const Deadline& deadline,
                    const Interrupted& interrupted) {
  return Journey(nodes_, slot.value_or(0), deadline, interrupted).run(request);
}

void Cluster::for_each_server(const std::function<void(const Server&)>& visit, const Deadline& deadline,
                              const Interrupted& interrupted) {
  std::exception_ptr failure;
  for (const ClusterNodes::Pointer& each : nodes_.masters(deadline, interrupted)) {
    SingleServer server(each->node);
    try {
      server.for_each_server(visit, deadline, interrupted);
    } catch (const StoreError&) {
      each->is_doubted.store(true);
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  nodes_.require_all_served();
}

}  // namespace overlimit::redis::transport
