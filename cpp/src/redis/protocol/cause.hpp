// Why a connection is of no use: an error to be raised once for each of those who depended on it.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "overlimit/errors.hpp"

namespace overlimit::redis::protocol {

/// The type and text of a StoreError without what belongs to one call. A value.
class Cause {
 public:
  /// Of a lost or refused connection.
  [[nodiscard]] static Cause unavailable(std::string what) { return {Kind::unavailable, std::move(what)}; }
  [[nodiscard]] static Cause of(const StoreError& error) { return {error.kind(), error.what()}; }

  [[nodiscard]] const std::string& what() const noexcept { return what_; }
  [[nodiscard]] bool is_config() const noexcept { return kind_ == Kind::config; }
  [[nodiscard]] bool is_timeout() const noexcept { return kind_ == Kind::timeout; }

  [[noreturn]] void raise(bool maybe_charged) const;
  /// As the reason not to ask again for a while.
  [[noreturn]] void raise_again(std::chrono::microseconds until_next) const;

 private:
  using Kind = StoreError::Kind;

  Cause(Kind kind, std::string what) : kind_(kind), what_(std::move(what)) {}

  Kind kind_;
  std::string what_;
};

}  // namespace overlimit::redis::protocol
