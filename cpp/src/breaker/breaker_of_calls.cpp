#include "breaker/breaker_of_calls.hpp"

#include <mutex>

namespace overlimit {
namespace {

Breaker::Reason reason_of(const StoreError& error) {
  switch (error.kind()) {
    case StoreError::Kind::timeout:
      return Breaker::Reason::silent;
    case StoreError::Kind::config:
      return Breaker::Reason::misconfigured;
    default:
      return Breaker::Reason::refused;
  }
}

}  // namespace

BreakerState BreakerOfCalls::state() {
  const std::lock_guard guard(mutex_);
  begin_anew_in_child();
  return breaker_.state();
}

bool BreakerOfCalls::begin(TimePoint now) {
  std::unique_lock guard(mutex_);
  begin_anew_in_child();
  if (breaker_.state() == BreakerState::closed) return false;
  const bool is_probe_lost =
      breaker_.state() == BreakerState::half_open && now - probe_began_ >= Breaker::kProbeTimeout;
  if (!breaker_.is_probe_due(now) && !is_probe_lost) {
    const Cause cause = breaker_.cause();
    const auto wait = std::chrono::duration_cast<std::chrono::microseconds>(breaker_.until_probe(now));
    guard.unlock();
    cause.raise_again(wait);
  }
  breaker_.probe_began();
  probe_began_ = now;
  return true;
}

void BreakerOfCalls::begin_anew_in_child() {
  if (generation_ == fork_generation()) return;
  generation_ = fork_generation();
  breaker_ = Breaker(++seed_);
}

BreakerOfCalls::Attempt::~Attempt() {
  if (is_over_ || !is_probe_) return;
  const std::lock_guard guard(breaker_.mutex_);
  Breaker& breaker = breaker_.breaker_;
  if (breaker.state() != BreakerState::half_open) return;
  breaker.probe_failed(std::chrono::steady_clock::now(), Breaker::Reason::refused, Cause(breaker.cause()));
}

void BreakerOfCalls::Attempt::succeeded(TimePoint now) {
  is_over_ = true;
  const std::lock_guard guard(breaker_.mutex_);
  Breaker& breaker = breaker_.breaker_;
  if (is_probe_ && breaker.state() != BreakerState::closed) breaker.probe_succeeded();
  breaker.succeeded(now);
}

void BreakerOfCalls::Attempt::failed(TimePoint now, const StoreError& error) {
  is_over_ = true;
  const std::lock_guard guard(breaker_.mutex_);
  Breaker& breaker = breaker_.breaker_;
  if (is_probe_ && breaker.state() == BreakerState::half_open) {
    breaker.probe_failed(now, reason_of(error), Cause::of(error));
  } else {
    breaker.failed(now, Cause::of(error));
  }
}

}  // namespace overlimit
