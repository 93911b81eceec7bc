// A topology of a master that sentinels name.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "redis/protocol/sentinel.hpp"
#include "redis/transport/connector.hpp"
#include "redis/transport/node.hpp"
#include "redis/transport/sentinel_connection.hpp"
#include "redis/transport/synchronization.hpp"
#include "redis/transport/topology.hpp"

namespace overlimit::redis::transport {

/// Asks the sentinels in turn who the master is, and from then on subscribes to the announcements of all of
/// them, over one connection each. Every call reads these without waiting, before it asks the master and
/// again before it trusts the reply. A call during which the master was replaced fails, maybe charged,
/// although the old master answered.
class Sentinels final : public Topology {
 public:
  explicit Sentinels(SentinelLocation location);

  [[nodiscard]] protocol::Reply call(std::string_view command, std::optional<protocol::Slot> slot,
                                     const Wait& wait) override;
  void call_many(std::span<const std::string> commands, std::span<const std::optional<protocol::Slot>> slots,
                 std::span<std::optional<protocol::Reply>> replies, const Wait& wait) override;
  void for_each_server(const std::function<void(const Server&)>& visit, const Wait& wait) override;
  void close() override;
  [[nodiscard]] protocol::Breaker::State breaker() override;

 private:
  using Clock = Deadline::Clock;

  struct Sentinel {
    Sentinel(const Endpoint& endpoint, const std::string& service)
        : connector(std::make_shared<Connector>(endpoint)), connection(endpoint, service) {}

    const std::shared_ptr<Connector> connector;
    std::atomic<int> fd{-1};                                // of the connection; -1 while it is closed
    SentinelConnection connection;                          // guarded by mutex_
    Clock::time_point next_try = Clock::time_point::min();  // guarded by mutex_
  };

  struct Master {
    std::shared_ptr<Node> node;
    std::uint64_t term = 0;
  };

  [[nodiscard]] Master master(const Wait& wait);
  [[nodiscard]] Master known_master();
  /// The master that has replaced one that failed; rethrows the error being handled if none has.
  [[nodiscard]] Master new_master(const Master& failed, const Wait& wait);
  /// The reply of a master, or none if it was replaced meanwhile and executed nothing.
  [[nodiscard]] std::optional<protocol::Reply> confirmed(const Master& by, protocol::Reply reply);

  [[nodiscard]] bool is_master_unsure();
  [[nodiscard]] bool is_any_connected() const noexcept;
  void discover(const Wait& wait);
  void ask(Sentinel& sentinel, const Wait& wait);
  void await_answer(Sentinel& sentinel, const Wait& wait);
  void connect_to_another(const Wait& wait);
  [[nodiscard]] Sentinel* next_unconnected();
  void open(Sentinel& sentinel, const Wait& wait);
  void read_announcements();
  void exchange_with_all();  // mutex_ held

  const SentinelLocation location_;
  std::deque<Sentinel> sentinels_;
  RateLimitedTask
      discovery_task_;     // asks or opens: the thread with the permit is the only one that opens connections
  std::size_t first_ = 0;  // which sentinel to ask first; of the thread with the permit

  std::atomic<bool> is_suspect_{false};                             // the master failed
  std::atomic<std::uint64_t> term_{0};                              // of tracker_
  std::atomic<Clock::time_point> next_probe_{Clock::time_point{}};  // of the connections

  std::mutex mutex_;
  protocol::MasterTracker tracker_;  // guarded by mutex_
  std::shared_ptr<Node> node_;       // guarded by mutex_; of the master, if one is known
  std::exception_ptr failure_;       // guarded by mutex_; why no sentinel named a master
};

}  // namespace overlimit::redis::transport
