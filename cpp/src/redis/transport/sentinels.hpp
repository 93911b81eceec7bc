// The master that sentinels name, wherever it moves.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "redis/protocol/mastership.hpp"
#include "redis/transport/deployment.hpp"
#include "redis/transport/dialer.hpp"
#include "redis/transport/errand.hpp"
#include "redis/transport/node.hpp"
#include "redis/transport/sentinel_link.hpp"

namespace overlimit::redis::transport {

/// Asks the sentinels in turn who the master is, and from then on listens to all of them, over one connection
/// each, which every call reads without waiting, before it asks the master and again before it believes the
/// reply. A call during which the master was replaced fails, maybe charged, though the old one answered.
class Sentinels final : public Deployment {
 public:
  explicit Sentinels(const SentinelSite& site);

  [[nodiscard]] bool has_slots() const noexcept override { return false; }
  [[nodiscard]] protocol::Reply call(std::string_view request, std::optional<protocol::Slot> slot,
                                     const Deadline& deadline, const Interrupted& interrupted) override;
  void for_each_server(const std::function<void(const Server&)>& visit, const Deadline& deadline,
                       const Interrupted& interrupted) override;
  void close() override;
  [[nodiscard]] protocol::Breaker::State breaker() override;

 private:
  using Clock = Deadline::Clock;

  struct Sentinel {
    Sentinel(const Endpoint& endpoint, const std::string& service)
        : dialer(std::make_shared<Dialer>(endpoint)), link(endpoint, service) {}

    const std::shared_ptr<Dialer> dialer;
    std::atomic<int> fd{-1};                                // of the link; -1 while it is closed
    SentinelLink link;                                      // guarded by mutex_
    Clock::time_point next_try = Clock::time_point::min();  // guarded by mutex_
  };

  struct Master {
    std::shared_ptr<Node> node;
    std::uint64_t term = 0;
  };

  [[nodiscard]] Master master(const Deadline& deadline, const Interrupted& interrupted);
  [[nodiscard]] Master known_master();
  /// The master that took the place of one that could not be asked; throws what is being handled if none has.
  [[nodiscard]] Master successor(const Master& failed, const Deadline& deadline,
                                 const Interrupted& interrupted);
  /// The reply of a master, or none when it was replaced meanwhile and nothing was executed.
  [[nodiscard]] std::optional<protocol::Reply> acknowledged(const Master& by, protocol::Reply reply);

  [[nodiscard]] bool is_in_doubt();
  [[nodiscard]] bool is_anyone_heard() const noexcept;
  void ask_around(const Deadline& deadline, const Interrupted& interrupted);
  void ask(Sentinel& sentinel, const Deadline& deadline, const Interrupted& interrupted);
  void await_answer(Sentinel& sentinel, const Deadline& deadline, const Interrupted& interrupted);
  void listen_to_another(const Deadline& deadline, const Interrupted& interrupted);
  [[nodiscard]] Sentinel* unheard();
  void open(Sentinel& sentinel, const Deadline& deadline, const Interrupted& interrupted);
  void heed();
  void exchange_with_all();  // mutex_ held

  const SentinelSite site_;
  std::deque<Sentinel> sentinels_;
  Errand errand_;          // to ask or to open: whose turn it is is the only one who opens links
  std::size_t first_ = 0;  // whom to ask first; of whose turn it is

  std::atomic<bool> is_doubted_{false};                             // the master failed
  std::atomic<std::uint64_t> term_{0};                              // of mastership_
  std::atomic<Clock::time_point> next_probe_{Clock::time_point{}};  // of the links

  std::mutex mutex_;
  protocol::Mastership mastership_;  // guarded by mutex_
  std::shared_ptr<Node> node_;       // guarded by mutex_; of the master, if one is known
  std::exception_ptr failure_;       // guarded by mutex_; why nobody named one
};

}  // namespace overlimit::redis::transport
