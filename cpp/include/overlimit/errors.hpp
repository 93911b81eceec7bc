// The errors of the engine, one to one Python's of the same name. Messages say what to do, and no password.
#pragma once

#include <exception>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>

#include "overlimit/time.hpp"

namespace overlimit {

/// A limit that cannot exist: names the argument and the value.
class InvalidLimit : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Says for what there was no room, and what would make some.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string what) : what_(std::move(what)) {}
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

/// A store could not answer. `maybe_charged`: bytes may have been sent and no complete reply came, so the
/// call may or may not have been executed; such a call is never repeated. `retry_after`: how long until it is
/// worth asking again; 0: unknown.
class StoreError : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t { timeout, unavailable, config, script };

  explicit StoreError(const std::string& what, bool maybe_charged = false, Duration retry_after = {})
      : std::runtime_error(what), retry_after_(retry_after), maybe_charged_(maybe_charged) {}
  [[nodiscard]] virtual Kind kind() const noexcept = 0;
  [[nodiscard]] bool maybe_charged() const noexcept { return maybe_charged_; }
  [[nodiscard]] Duration retry_after() const noexcept { return retry_after_; }

 private:
  Duration retry_after_;
  bool maybe_charged_;
};

template <StoreError::Kind kKind>
class StoreErrorOf : public StoreError {
 public:
  using StoreError::StoreError;
  [[nodiscard]] Kind kind() const noexcept override { return kKind; }
};

/// The deadline of the call passed without a usable answer.
using StoreTimeout = StoreErrorOf<StoreError::Kind::timeout>;
/// No connection, a lost one, or a server that says it cannot serve now.
using StoreUnavailable = StoreErrorOf<StoreError::Kind::unavailable>;
/// A script failed or answered what it never should.
using ScriptError = StoreErrorOf<StoreError::Kind::script>;
/// The configuration is wrong: credentials, permissions, cluster slots.
using StoreConfigError = StoreErrorOf<StoreError::Kind::config>;

/// The caller's mistake, which no outage excuses: a call of more keys than the store takes together. A
/// StoreConfigError.
class CallerMistake : public StoreConfigError {
 public:
  using StoreConfigError::StoreConfigError;
};

/// The same of a call that several slots of a cluster cannot settle.
class CrossSlot : public CallerMistake {
 public:
  using CallerMistake::CallerMistake;
};

/// Called when a signal may have come; true ends the wait with WaitInterrupted, an empty function never.
using Interrupted = std::function<bool()>;

/// A wait was interrupted. `maybe_charged` means the same as in StoreError.
class WaitInterrupted : public std::exception {
 public:
  explicit WaitInterrupted(bool maybe_charged = false) : maybe_charged_(maybe_charged) {}
  [[nodiscard]] const char* what() const noexcept override { return "the wait was interrupted"; }
  [[nodiscard]] bool maybe_charged() const noexcept { return maybe_charged_; }

 private:
  bool maybe_charged_;
};

}  // namespace overlimit
