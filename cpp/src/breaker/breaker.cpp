#include "breaker/breaker.hpp"

#include <algorithm>

namespace overlimit {
namespace {

using namespace std::chrono_literals;

constexpr int kLeastOutcomes = 20;
constexpr Breaker::Pause kFirstPause = 100ms;
constexpr double kLeastJitter = 0.8;

/// Wrong credentials that are presented again and again may get the user locked out.
constexpr Breaker::Pause first_pause(Breaker::Reason reason) {
  return reason == Breaker::Reason::misconfigured ? 3 * kFirstPause : kFirstPause;
}

constexpr Breaker::Pause longest_pause(Breaker::Reason reason) {
  return reason == Breaker::Reason::silent ? 2s : 1s;
}

std::int64_t second_of(Breaker::TimePoint now) {
  return std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
}

}  // namespace

Breaker::Outcomes& Breaker::outcomes_at(TimePoint now) noexcept {
  const std::int64_t second = second_of(now);
  Outcomes& outcomes = seconds_[static_cast<std::size_t>(second) % seconds_.size()];
  if (outcomes.second != second) outcomes = {second, 0, 0};
  return outcomes;
}

void Breaker::succeeded(TimePoint now) noexcept {
  ++outcomes_at(now).succeeded;
  is_on_trial_ = false;
}

void Breaker::failed(TimePoint now, const Cause& cause) {
  ++outcomes_at(now).failed;
  if (state_ == State::closed && (is_on_trial_ || fails_too_often(now))) open(now, Reason::silent, cause);
}

bool Breaker::fails_too_often(TimePoint now) const noexcept {
  const std::int64_t oldest = second_of(now) - static_cast<std::int64_t>(seconds_.size());
  int succeeded = 0;
  int failed = 0;
  for (const Outcomes& outcomes : seconds_) {
    if (outcomes.second <= oldest) continue;
    succeeded += outcomes.succeeded;
    failed += outcomes.failed;
  }
  return succeeded + failed >= kLeastOutcomes && failed >= succeeded;
}

void Breaker::open(TimePoint now, Reason reason, Cause cause) {
  cause_ = std::move(cause);
  if (state_ != State::closed) return;
  state_ = State::open;
  if (!is_on_trial_ || reason != reason_) pause_ = Pause::zero();
  pause(now, reason);
}

void Breaker::probe_failed(TimePoint now, Reason reason, Cause cause) {
  cause_ = std::move(cause);
  state_ = State::open;
  pause(now, reason);
}

void Breaker::probe_succeeded() noexcept {
  state_ = State::closed;
  is_on_trial_ = true;
  seconds_ = {};
  cause_.reset();
}

void Breaker::pause(TimePoint now, Reason reason) noexcept {
  reason_ = reason;
  pause_ = std::clamp(2 * pause_, first_pause(reason), longest_pause(reason));
  const double jitter = std::uniform_real_distribution(kLeastJitter, 1.0)(random_);
  next_probe_ = now + std::chrono::duration_cast<Pause>(pause_ * jitter);
}

Breaker::Pause Breaker::until_probe(TimePoint now) const noexcept {
  return state_ == State::open ? std::max(Pause::zero(), next_probe_ - now) : Pause::zero();
}

}  // namespace overlimit
