// How often a key is asked for, and so how much of it a process, or those of a host, want to lease.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "overlimit/call.hpp"
#include "overlimit/time.hpp"

namespace overlimit::redis {

/// A number that may be read while another thread or process changes it. When, is settled elsewhere.
template <class T>
class Relaxed {
 public:
  Relaxed() = default;
  Relaxed(T value) : value_(value) {}
  Relaxed(const Relaxed& other) : value_(T(other)) {}
  Relaxed& operator=(const Relaxed& other) { return *this = T(other); }
  Relaxed& operator=(T value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  operator T() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<T> value_{};
};

/// Of one key. All times are boot times. Whoever changes it does so alone.
struct Demand {
  Relaxed<Duration> asked_at;   ///< of the last command
  Relaxed<Duration> rare_from;  ///< if it is not asked for until then, it is rare
  Relaxed<Cost> asked;  ///< what that command charged for its own call, and others since without a lease
  Relaxed<Duration> life_began;
  Relaxed<Cost> in_life;     ///< what was spent since then, in a time of a life, before the last command
  Relaxed<Cost> before;      ///< the same of the life before
  Relaxed<Cost> turns_from;  ///< calls of this cost and dearer ones take turns; 0: none
  Relaxed<std::uint64_t> turns_under;  ///< these limits
  Relaxed<Duration> next_turn;
  Relaxed<Duration> refilled_by;  ///< somebody asks for units, who may not come back after this

  /// What would be spent in a life at the rate since the last command, of which a lease has spent some; 0 for
  /// a rare key, or while somebody else asks. If little of a lease comes back (`is_dear`), no more than what
  /// was spent in such a time.
  [[nodiscard]] Cost wanted(Cost cost, Cost spent_of_lease, Duration life, Duration now, bool is_dear) const;
  /// Notes a command that was answered, after which its own cost counts.
  void note_command(Cost cost, Duration asked_at, Duration rare_from);
  [[nodiscard]] bool takes_turns(const Charge& charge) const;
  void note_turn(const Charge& charge, bool is_refused);
};

}  // namespace overlimit::redis
