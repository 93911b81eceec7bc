// How often a key is asked for, and so how much of it a process, or those of a host, want to lease.
#pragma once

#include <atomic>
#include <cstdint>

#include "overlimit/call.hpp"
#include "overlimit/time.hpp"

namespace overlimit::redis {

/// A number that may be read while another thread or process changes it; when that may be is said
/// elsewhere. What is read before it stays before it, and what is written before it, too.
template <class T>
class SharedNumber {
 public:
  SharedNumber() = default;
  SharedNumber(T value) : value_(value) {}
  SharedNumber(const SharedNumber& other) : value_(T(other)) {}
  SharedNumber& operator=(const SharedNumber& other) {
    *this = T(other);
    return *this;
  }
  SharedNumber& operator=(T value) {
    value_.store(value, std::memory_order_release);
    return *this;
  }
  operator T() const { return value_.load(std::memory_order_acquire); }

 private:
  std::atomic<T> value_{};
};

/// Of one key. All times are boot times. Whoever changes it does so alone.
struct Demand {
  SharedNumber<Duration> asked_at;   ///< of the last command
  SharedNumber<Duration> cold_from;  ///< if it is not asked for until then, it is cold
  SharedNumber<Cost> asked;  ///< what that command charged for its own call, and others since without a lease
  SharedNumber<Duration> term_began;
  SharedNumber<Cost> in_term;  ///< what was spent since then, in a time of a term, before the last command
  SharedNumber<Cost> before;   ///< the same of the term before
  SharedNumber<Cost> refused_cost;  ///< such a call, and a costlier one, waits until next_ask_at; 0: none
  SharedNumber<std::uint64_t> refused_limits;  ///< under which
  SharedNumber<Duration> next_ask_at;
  SharedNumber<Duration> refilled_by;  ///< somebody asks for units, who may not come back after this

  /// What would be spent in a term at the rate since the last command, of which a lease has spent some; 0 for
  /// a cold key, or while somebody else asks. If little of a lease comes back, since it is held
  /// (`has_holds`), no more than what was spent in such a time.
  [[nodiscard]] Cost wanted(Cost cost, Cost spent_of_lease, Duration term, Duration now,
                            bool has_holds) const;
  /// Notes a command that was answered, after which its own cost counts.
  void note_command(Cost cost, Duration asked_at, Duration cold_from);
  [[nodiscard]] bool waits_to_ask(const Charge& charge) const;
  void note_refusal(const Charge& charge, bool is_refused);
};

}  // namespace overlimit::redis
