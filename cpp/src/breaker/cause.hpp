// Why a store cannot answer, for all calls that depend on it.
#pragma once

#include <chrono>
#include <string>

#include "overlimit/errors.hpp"

namespace overlimit {

/// A StoreError without what belongs to one call, to be thrown for each call that depends on it. A value.
class Cause {
 public:
  [[nodiscard]] static Cause unavailable(std::string what) { return {Kind::unavailable, std::move(what)}; }
  [[nodiscard]] static Cause of(const StoreError& error) { return {error.kind(), error.what()}; }
  [[nodiscard]] const std::string& what() const noexcept { return what_; }
  [[nodiscard]] bool is_config() const noexcept { return kind_ == Kind::config; }
  [[nodiscard]] bool is_timeout() const noexcept { return kind_ == Kind::timeout; }
  [[noreturn]] void raise(bool maybe_charged) const;
  /// Throws it as the reason why the store is not called until the next probe.
  [[noreturn]] void raise_again(std::chrono::microseconds until_next) const;

 private:
  using Kind = StoreError::Kind;

  Cause(Kind kind, std::string what) : kind_(kind), what_(std::move(what)) {}

  Kind kind_;
  std::string what_;
};

}  // namespace overlimit
