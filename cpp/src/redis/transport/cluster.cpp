// A Redis Cluster: its nodes, and which of them serves which slot.
#include <map>
#include <mutex>
#include <ranges>

#include "overlimit/forks.hpp"
#include "redis/protocol/addresses.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/transport/first_error.hpp"
#include "redis/transport/node.hpp"
#include "redis/transport/topology.hpp"

namespace overlimit::redis::transport {
namespace {

using protocol::Classified;
using protocol::Outcome;
using protocol::Redirection;
using protocol::Reply;
using protocol::Slot;
using protocol::SlotMap;

struct ClusterNode {
  ClusterNode(HostPort where, const Endpoint& like)
      : address(std::move(where)), node(node_of(endpoint_at(address, like))) {}

  const HostPort address;
  const std::shared_ptr<Node> node;
  std::atomic<bool> is_suspect{false};  ///< it did not answer the last command
};

constexpr std::string_view kClusterSlots = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";

/// The map in a reply. Throws StoreError when there is none.
SlotMap slots_in(const Reply& reply, const ClusterNode& asked) {
  const Endpoint& endpoint = asked.node->endpoint();
  if (reply.is_error()) protocol::raise_error_reply(reply.as_text(), endpoint.describe());
  std::optional<SlotMap> map = SlotMap::read(reply, asked.address);
  if (map) return *std::move(map);
  throw StoreUnavailable("redis at " + endpoint.describe() + " answered CLUSTER SLOTS with something else");
}

/// The error being handled, as that of a call of which nothing was sent.
std::exception_ptr as_unsent() {
  try {
    throw;
  } catch (const StoreTimeout& timeout) {
    return std::make_exception_ptr(StoreTimeout(timeout.what()));
  } catch (const StoreUnavailable& unavailable) {
    return std::make_exception_ptr(StoreUnavailable(unavailable.what()));
  } catch (...) {
    return std::current_exception();
  }
}

/// Asks the nodes for the slot map when no node is known for a slot, when the node of a slot is suspect, and
/// after redirections; one thread at a time and not too often. A node may be behind the others or know only
/// some slots: then the next nodes are asked too, and slots that none of them assigns stay as they were.
/// Thread-safe; no lock is held during a wait.
class ClusterNodes {
 public:
  using Pointer = std::shared_ptr<ClusterNode>;

  explicit ClusterNodes(ClusterLocation location) : location_(std::move(location)) {}

  /// The node that serves the slot. While none is known, the nodes are asked again until the deadline, unless
  /// none of them answers. Then it throws the reason, or StoreUnavailable; nothing of the call was sent.
  /// Throws as check_interrupted() does.
  [[nodiscard]] Pointer owner(protocol::Slot slot, const Wait& wait) {
    Backoff backoff;
    for (;;) {
      Pointer known = known_owner(slot);
      if (known && !known->is_suspect.load()) return known;
      refresh(slot, wait);
      if (Pointer owner = known_owner(slot)) return owner;
      if (!may_learn_more(backoff, wait)) raise_unserved(slot);
    }
  }

  /// The one that served the slot when last heard of.
  [[nodiscard]] Pointer known_owner(protocol::Slot slot) {
    const std::lock_guard lock(mutex_);
    const HostPort* const master = map_.master_of(slot);
    return master == nullptr ? nullptr : found(*master);
  }

  /// All nodes that serve slots, after asking for slots without a known node as owner() does.
  [[nodiscard]] std::vector<Pointer> masters(const Wait& wait) {
    Backoff backoff;
    do {
      refresh({}, wait);
    } while (first_gap() && may_learn_more(backoff, wait));
    const std::lock_guard lock(mutex_);
    std::vector<Pointer> masters;
    for (const HostPort& each : map_.masters()) masters.push_back(found(each));
    return masters;
  }

  [[nodiscard]] Pointer at(const HostPort& address) {
    const std::lock_guard lock(mutex_);
    return found(address);
  }

  /// Notes that a slot has moved, as a node said.
  void learn(const protocol::Redirection& moved) {
    const std::lock_guard lock(mutex_);
    map_.learn(moved.slot, moved.to);
  }

  /// Asks for the slot map again, if that is due: one node after the other, each for half of the remaining
  /// time, until the node of the slot is known (none: of every slot).
  void refresh(std::optional<protocol::Slot> slot, const Wait& wait) {
    if (wait.deadline.passed()) return;
    RateLimitedTask::Permit permit(refresh_task_);
    if (!permit) return;
    RefreshResult result;
    for (const Pointer& node : servers_to_ask(result.suspects)) {
      // The suspects come last. They may hang, and are not needed for the node of the slot.
      if (node->is_suspect.load() && result.names(slot)) break;
      ask(*node, result, wait.share(2));
      if (result.is_final || result.is_enough_for(slot) || wait.deadline.passed()) break;
    }
    const bool is_enough = result.is_enough_for(slot);
    if (adopt(std::move(result)) && is_enough) permit.was_useful();
  }

  /// Throws StoreUnavailable if there is a slot without a known node.
  void require_all_served() {
    if (const auto gap = first_gap()) raise_unserved(*gap);
  }

  void close() {
    const std::lock_guard lock(mutex_);
    for (const auto& [address, node] : nodes_) node->node->close();
  }

  /// The worst state among the nodes.
  [[nodiscard]] Breaker::State breaker() {
    using State = Breaker::State;
    const std::lock_guard lock(mutex_);
    State worst = State::closed;
    for (const auto& [address, node] : nodes_) {
      const State state = node->node->breaker();
      if (state == State::open || worst == State::closed) worst = state;
    }
    return worst;
  }

 private:
  [[nodiscard]] Pointer found(const HostPort& address) {
    Pointer& node = nodes_[address];
    if (!node) node = std::make_shared<ClusterNode>(address, location_.server);
    return node;
  }

  /// Whether asking again before the deadline may help; waits a moment if so.
  [[nodiscard]] bool may_learn_more(Backoff& backoff, const Wait& wait) {
    if (!refresh_task_.is_running()) return may_change() && backoff.pause(wait);
    if (wait.deadline.passed()) return false;
    pause(RateLimitedTask::kPollInterval, wait.interrupted);
    return true;
  }

  [[nodiscard]] bool may_change() {
    const std::lock_guard lock(mutex_);
    return may_change_;
  }

  [[nodiscard]] std::optional<protocol::Slot> first_gap() {
    const std::lock_guard lock(mutex_);
    return map_.first_gap();
  }

  [[noreturn]] void raise_unserved(protocol::Slot slot) {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (!is_asked_) {
      throw StoreTimeout("the redis cluster's slots could not be learned within the timeout");
    }
    throw StoreUnavailable("no node of the redis cluster serves slot " + std::to_string(slot) +
                           "; check the cluster with CLUSTER INFO");
  }

  /// What one refresh has found out.
  struct RefreshResult {
    protocol::SlotMap map;
    std::set<HostPort> suspects;  ///< nodes that did not answer the last command
    std::exception_ptr failure;   ///< why a node did not give its map
    bool is_final = false;        ///< no other node would answer anything else
    bool may_change = false;      ///< a node answered, perhaps too late: it may know more next time
    bool is_mapped = false;       ///< a node gave its map, however little is in it

    void add(const protocol::SlotMap& reported) {
      may_change = true;
      is_mapped = true;
      if (map.servers().empty()) {
        map = reported;
      } else {
        map.complete(reported, suspects);
      }
    }

    [[nodiscard]] bool names(std::optional<protocol::Slot> slot) const {
      return slot ? map.master_of(*slot) != nullptr : !map.first_gap();
    }

    [[nodiscard]] bool is_enough_for(std::optional<protocol::Slot> slot) const {
      return names(slot) && !(slot && suspects.contains(*map.master_of(*slot)));
    }
  };

  /// The suspects come last. Another node is first each time, since one may be behind.
  [[nodiscard]] std::vector<Pointer> servers_to_ask(std::set<HostPort>& suspects) {
    const std::lock_guard lock(mutex_);
    std::vector<HostPort> addresses = map_.servers();
    if (!addresses.empty()) {
      const std::size_t first = first_++ % addresses.size();
      std::rotate(addresses.begin(), addresses.begin() + static_cast<std::ptrdiff_t>(first), addresses.end());
    }
    for (const HostPort& seed : location_.seeds) {
      if (std::ranges::find(addresses, seed) == addresses.end()) addresses.push_back(seed);
    }
    std::vector<Pointer> nodes;
    for (const HostPort& address : addresses) {
      nodes.push_back(found(address));
      if (nodes.back()->is_suspect.load()) suspects.insert(address);
    }
    std::stable_partition(nodes.begin(), nodes.end(),
                          [&](const Pointer& node) { return !suspects.contains(node->address); });
    return nodes;
  }

  void ask(ClusterNode& node, RefreshResult& result, const Wait& wait) {
    const std::uint64_t generation = fork_generation();
    try {
      const Reply reply = node.node->call({kClusterSlots}, wait);
      if (protocol::classify(reply).is_retryable()) result.may_change = true;
      result.add(slots_in(reply, node));
    } catch (const StoreError& error) {
      if (generation != fork_generation()) throw;
      result.failure = as_unsent();
      result.is_final = error.kind() == StoreError::Kind::config;  // they all have the same users
      if (error.kind() == StoreError::Kind::timeout) result.may_change = true;
      node.is_suspect.store(true);
      result.suspects.insert(node.address);
    }
  }

  /// Returns whether the map has changed.
  bool adopt(RefreshResult result) {
    const std::lock_guard lock(mutex_);
    is_asked_ = true;
    may_change_ = result.may_change;
    failure_ = result.is_mapped ? nullptr : result.failure;
    if (result.map.servers().empty()) return false;
    result.map.complete(map_, {});
    const bool is_new = !result.map.agrees_with(map_);
    map_ = std::move(result.map);
    std::erase_if(nodes_, [&](const auto& each) {
      return std::ranges::find(map_.servers(), each.first) == map_.servers().end();
    });
    return is_new;
  }

  /// The pause after a refresh that did not find what it was for.
  static constexpr std::chrono::milliseconds kFirstPause{10};

  const ClusterLocation location_;
  RateLimitedTask refresh_task_{kFirstPause};
  std::size_t first_ = 0;  // which node to ask first; of the thread with the permit

  std::mutex mutex_;
  protocol::SlotMap map_;              // guarded by mutex_
  std::map<HostPort, Pointer> nodes_;  // guarded by mutex_
  std::exception_ptr failure_;         // guarded by mutex_; why the last refresh found no map
  bool is_asked_ = false;              // guarded by mutex_; there has been a refresh
  bool may_change_ = true;             // guarded by mutex_; as of the last refresh
};

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

/// Sends each call to the node that serves its slot, and follows redirections. A node that is down fails only
/// the calls of its own slots.
class Cluster final : public Topology {
 public:
  explicit Cluster(ClusterLocation location) : nodes_(std::move(location)) {}
  [[nodiscard]] bool has_slots() const noexcept override { return true; }
  [[nodiscard]] protocol::Reply call(std::string_view command, std::optional<protocol::Slot> slot,
                                     const Wait& wait) override {
    return ClusterCall(nodes_, slot.value_or(0), wait).run(command);
  }

  void call_many(std::span<const std::string> commands, std::span<const std::optional<protocol::Slot>> slots,
                 std::span<std::optional<protocol::Reply>> replies, const Wait& wait) override {
    CommandsOfNodes by_node;
    for (std::size_t i = 0; i < commands.size(); ++i) {
      by_node[nodes_.owner(slots[i].value_or(0), wait)].push_back(i);
    }
    FirstError failure;
    for (auto first = by_node.begin(); first != by_node.end();) {
      const auto last = std::ranges::next(first, kMostNested, by_node.end());
      call_together(first, last, commands, replies, wait, failure);
      first = last;
    }
    failure.raise_if_any();
  }

  void send(std::string_view command, std::optional<Slot> slot, const Wait& wait) override {
    if (const ClusterNodes::Pointer owner = nodes_.known_owner(slot.value()))
      owner->node->send(command, wait);
  }

  [[nodiscard]] Link link(std::optional<Slot> slot) override {
    const ClusterNodes::Pointer owner = nodes_.known_owner(slot.value_or(0));
    return owner == nullptr ? Link{} : owner->node->link();
  }

  void for_each_server(const std::function<void(const Server&)>& visit, const Wait& wait) override {
    std::exception_ptr failure;
    for (const ClusterNodes::Pointer& each : nodes_.masters(wait)) {
      try {
        single_server(each->node)->for_each_server(visit, wait);
      } catch (const StoreError&) {
        each->is_suspect.store(true);
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
    nodes_.require_all_served();
  }

  void close() override { nodes_.close(); }
  [[nodiscard]] Breaker::State breaker() override { return nodes_.breaker(); }

 private:
  /// The indices of the commands that go to each node.
  using CommandsOfNodes = std::map<ClusterNodes::Pointer, std::vector<std::size_t>>;
  using NodeIterator = CommandsOfNodes::const_iterator;

  /// How many nodes are called at once: each is while the one before waits, on the same stack.
  static constexpr std::ptrdiff_t kMostNested = 16;

  /// Sends to the first of the nodes, calls the others, and then waits for what the first replies.
  static void call_together(NodeIterator first, NodeIterator last, std::span<const std::string> commands,
                            std::span<std::optional<Reply>> replies, const Wait& wait, FirstError& failure) {
    if (first == last) return;
    const auto& [node, own] = *first;
    const auto next = std::next(first);
    std::vector<Command> sent;
    for (const std::size_t each : own) sent.emplace_back(commands[each]);
    std::vector<std::optional<Reply>> received(own.size());
    bool are_others_called = false;
    const auto call_others = [&] {
      if (std::exchange(are_others_called, true)) return;
      call_together(next, last, commands, replies, wait, failure);
    };
    try {
      node->node->call_many(sent, received, wait, next == last ? std::function<void()>() : call_others);
    } catch (...) {
      failure.note();
      node->is_suspect.store(true);
    }
    call_others();
    for (std::size_t i = 0; i < own.size(); ++i) replies[own[i]] = std::move(received[i]);
  }

  ClusterNodes nodes_;
};

}  // namespace

std::shared_ptr<Topology> cluster(const ClusterLocation& location) {
  return std::make_shared<Cluster>(location);
}

}  // namespace overlimit::redis::transport
