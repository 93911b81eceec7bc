// The breaker of a store that cannot be probed but by calls.
#pragma once

#include "breaker/breaker.hpp"
#include "overlimit/forks.hpp"
#include "overlimit/non_copyable.hpp"

namespace overlimit {

/// While it is open, calls fail at once, but for the probe: one call at a time, or another after
/// Breaker::kProbeTimeout. Nothing tells an outage from failures here, so only these open it: half of at
/// least 20 calls of the last 10 seconds. Begins anew in a forked child. Thread-safe.
class BreakerOfCalls : NonCopyable {
 public:
  using TimePoint = Breaker::TimePoint;

  explicit BreakerOfCalls(std::minstd_rand::result_type seed) : seed_(seed), breaker_(seed) {}
  [[nodiscard]] BreakerState state();

  /// A call on its way. One that says neither that it succeeded nor that it failed counts as neither.
  class Attempt : NonCopyable {
   public:
    /// Throws why no call may go.
    Attempt(BreakerOfCalls& breaker, TimePoint now) : breaker_(breaker), is_probe_(breaker.begin(now)) {}
    ~Attempt();
    void succeeded(TimePoint now);
    void failed(TimePoint now, const StoreError& error);

   private:
    BreakerOfCalls& breaker_;
    bool is_probe_;
    bool is_over_ = false;
  };

 private:
  /// Returns whether the call is the probe.
  [[nodiscard]] bool begin(TimePoint now);
  void begin_anew_in_child();

  ForkSafeMutex mutex_;
  std::minstd_rand::result_type seed_;
  std::uint64_t generation_ = fork_generation();
  Breaker breaker_;
  TimePoint probe_began_{};
};

}  // namespace overlimit
