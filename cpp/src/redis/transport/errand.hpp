// What one caller at a time does for all of them, and not too often.
#pragma once

#include <atomic>
#include <chrono>

#include "redis/transport/deadline.hpp"

namespace overlimit::redis::transport {

/// After a useful turn the next one is due in kShortest; after the first that was of no use in the pause that
/// it is made with, after each further one twice as late as before, up to kLongest; all jittered.
/// Thread-safe, without a lock.
class Errand {
 public:
  static constexpr std::chrono::milliseconds kShortest{100};
  static constexpr std::chrono::milliseconds kLongest{1'000};
  /// How often those look who wait for what another caller is doing.
  static constexpr std::chrono::milliseconds kPollInterval{1};

  explicit Errand(std::chrono::milliseconds pause_when_useless = 2 * kShortest)
      : first_pause_(pause_when_useless) {}

  /// The caller's turn while this lives, if it is.
  class Hold {
   public:
    explicit Hold(Errand& errand) : errand_(errand.take() ? &errand : nullptr) {}
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      if (errand_ != nullptr) errand_->give_back(useful_);
    }
    explicit operator bool() const noexcept { return errand_ != nullptr; }
    void was_useful() noexcept { useful_ = true; }

   private:
    Errand* const errand_;
    bool useful_ = false;
  };

  [[nodiscard]] bool is_taken() const noexcept { return taken_.load(); }

 private:
  using Clock = Deadline::Clock;

  [[nodiscard]] bool take() noexcept;
  void give_back(bool useful) noexcept;

  std::atomic<bool> taken_{false};
  std::atomic<Clock::time_point> due_{Clock::time_point::min()};
  const std::chrono::milliseconds first_pause_;
  std::chrono::milliseconds pause_{
      0};  // after the last useless turn, zero after a useful one; of whose turn it is
};

}  // namespace overlimit::redis::transport
