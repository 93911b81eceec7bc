// What is thrown when some of several commands of a call have failed.
#pragma once

#include <exception>

#include "overlimit/errors.hpp"
#include "overlimit/forks.hpp"

namespace overlimit::redis::transport {

/// The first error of the parts of a call, which says that something may have been charged if any of them
/// does.
class FirstError {
 public:
  /// To be called while an error is handled. Rethrows it in a child that was forked meanwhile, which must not
  /// go on with the call.
  void note() {
    if (generation_ != fork_generation()) throw;
    if (!first_) first_ = std::current_exception();
    try {
      throw;
    } catch (const StoreError& error) {
      maybe_charged_ = maybe_charged_ || error.maybe_charged();
    } catch (const WaitInterrupted& interruption) {
      maybe_charged_ = maybe_charged_ || interruption.maybe_charged();
    } catch (...) {
    }
  }
  /// To be called if other parts have changed something.
  void set_maybe_charged() { maybe_charged_ = true; }
  [[nodiscard]] bool maybe_charged() const { return maybe_charged_; }
  explicit operator bool() const { return first_ != nullptr; }

  void raise_if_any() const {
    if (!first_) return;
    try {
      std::rethrow_exception(first_);
    } catch (const StoreError& error) {
      if (error.maybe_charged() == maybe_charged_) throw;
      raise_as_maybe_charged(error);
    } catch (const WaitInterrupted&) {
      throw WaitInterrupted(maybe_charged_);
    }
  }

 private:
  [[noreturn]] static void raise_as_maybe_charged(const StoreError& error) {
    switch (error.kind()) {
      case StoreError::Kind::timeout:
        throw StoreTimeout(error.what(), true, error.retry_after());
      case StoreError::Kind::unavailable:
        throw StoreUnavailable(error.what(), true, error.retry_after());
      case StoreError::Kind::config:
        throw StoreConfigError(error.what(), true, error.retry_after());
      case StoreError::Kind::script:
        break;
    }
    throw ScriptError(error.what(), true, error.retry_after());
  }

  std::exception_ptr first_;
  bool maybe_charged_ = false;
  std::uint64_t generation_ = fork_generation();
};

}  // namespace overlimit::redis::transport
