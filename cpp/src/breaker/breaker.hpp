// When to stop calling a server that fails, and when to try it again.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <random>

#include "breaker/cause.hpp"
#include "overlimit/breaker_state.hpp"

namespace overlimit {

/// Opens as soon as the server is known to be gone, and when half of at least 20 calls of the last 10 seconds
/// failed. Then calls fail at once, but for one probe at a time, and an answer to it closes the breaker. The
/// pause before a probe begins with 100 ms and doubles, up to one second where the server refuses, two where
/// it is silent. If the first call after a probe fails, it opens again and the pause goes on to double: a
/// server may answer, but always too late. One that was gone and comes back slow begins with the shortest.
///
/// Reads no clock. Not thread-safe.
class Breaker {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Pause = TimePoint::duration;
  using State = BreakerState;
  enum class Reason : std::uint8_t { refused, silent, misconfigured };

  /// `seed` makes the pauses of many processes differ.
  explicit Breaker(std::minstd_rand::result_type seed) : random_(seed) {}
  [[nodiscard]] State state() const noexcept { return state_; }
  /// Why it opened. Only while it is not closed.
  [[nodiscard]] const Cause& cause() const { return *cause_; }
  void succeeded(TimePoint now) noexcept;
  /// A call got none in time, or that the server cannot serve; `cause` is kept if that opens it.
  void failed(TimePoint now, const Cause& cause);
  void open(TimePoint now, Reason reason, Cause cause);

  [[nodiscard]] bool is_probe_due(TimePoint now) const noexcept {
    return state_ == State::open && now >= next_probe_;
  }
  [[nodiscard]] Pause until_probe(TimePoint now) const noexcept;
  void probe_began() noexcept { state_ = State::half_open; }
  void probe_failed(TimePoint now, Reason reason, Cause cause);
  void probe_succeeded() noexcept;

  /// How long a probe may take.
  static constexpr std::chrono::seconds kProbeTimeout{2};

 private:
  struct Outcomes {
    std::int64_t second = -1;
    int succeeded = 0;
    int failed = 0;
  };

  [[nodiscard]] Outcomes& outcomes_at(TimePoint now) noexcept;
  [[nodiscard]] bool fails_too_often(TimePoint now) const noexcept;
  void pause(TimePoint now, Reason reason) noexcept;

  State state_ = State::closed;
  std::array<Outcomes, 10> seconds_{};
  std::optional<Cause> cause_;
  Pause pause_{};
  Reason reason_{};           // of the last pause
  bool is_on_trial_ = false;  // closed by a probe, and no call has succeeded yet
  TimePoint next_probe_{};
  std::minstd_rand random_;
};

}  // namespace overlimit
