// The store in Redis or Valkey: one Lua script decides a call and writes it, in one round trip.
#pragma once

#ifndef OVERLIMIT_LINKS_REDIS
#error "only targets that link overlimit_redis may include redis_store.hpp"
#endif

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "overlimit/redis_keys.hpp"
#include "overlimit/redis_leases.hpp"
#include "overlimit/redis_location.hpp"
#include "overlimit/store.hpp"

namespace overlimit {

/// Thread-safe, and usable in a forked child at once. Connects at the first call. Time is the server's unless
/// a call brings its own. The script decides and writes; the rows are worked out here from its reply, by the
/// functions that serve the memory store (lua/README.md).
class RedisStore final : public Store {
 public:
  using Keys = redis::KeyNaming;

  using LeaseIn = redis::LeaseIn;

  static constexpr Duration kMaxStale{60'000'000};
  static constexpr Duration kMaxLease = redis::kMaxLease;
  static constexpr Duration kMaxRemember{3600'000'000};

  struct Options {
    Keys keys = {};
    Duration timeout{100'000};  ///< the deadline of one whole call
    Duration max_stale{};       ///< for how long it refuses by what was reported to it; at most kMaxStale
    Duration lease{};           ///< for how long it may spend what it has charged early; at most kMaxLease
    Duration remember{};  ///< for how long it restores what a server has forgotten; at most kMaxRemember
    std::optional<LeaseIn> lease_in{};  ///< nothing: each process leases for itself
  };

  /// Throws std::invalid_argument naming a wrong option or location.
  RedisStore(redis::Location location, Options options);
  ~RedisStore() override;

  void decide(std::span<const Call> calls, const Rows& rows, std::span<Instant> times, std::span<Basis> bases,
              const Interrupted& interrupted) override;
  void decide_one(const Call& call, const Rows& rows, Instant& time, Basis& basis,
                  const Interrupted& interrupted) override;
  bool decide_here(const Call& call, const Rows& rows, Instant& time, Basis& basis) override;
  void refund_showing(const Call& call, std::span<const Receipt> receipts, Present* present,
                      const Interrupted& interrupted) override;
  void lock(const Call& call, Duration duration, const Interrupted& interrupted) override;
  void unlock(const Call& call, const Interrupted& interrupted) override;
  void reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
             const Interrupted& interrupted) override;
  /// Looks at all keys of the database, some thousand per round trip, each of which has the timeout.
  void reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) override;
  /// A write that changes nothing, so that a server which only refuses writes is found out. In a cluster
  /// every master is asked too, and the slowest answer counts.
  Duration ping(std::optional<Duration> timeout, const Interrupted& interrupted) override;
  [[nodiscard]] bool is_shared() const override { return true; }
  [[nodiscard]] bool waits() const override { return true; }
  [[nodiscard]] LeaseCounts leased(const PolicyIdentity& policy) const override;
  [[nodiscard]] Duration longest_lease(const CompiledPolicy& policy) const override;
  [[nodiscard]] BreakerState breaker() const override;
  [[nodiscard]] std::optional<std::uint64_t> answers() const override;
  [[nodiscard]] Duration timeout() const override;
  void close() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace overlimit
