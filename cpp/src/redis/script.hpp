// The scripts: their texts, made of the fragments under lua/, and their SHA1s.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "overlimit/plan.hpp"

namespace overlimit::redis {

/// A script's text and the 40 hex digits Redis knows it by. Immutable.
class Script {
 public:
  explicit Script(std::string text);
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::string& sha1() const { return sha1_; }

 private:
  std::string text_;
  std::string sha1_;
};

/// The script that reads keys and changes nothing.
const Script& read_script();

/// The script that locks keys by hand.
const Script& lock_script();

/// The scripts that depend on a shape: the policies' algorithms and whether they have penalties, so that
/// their number is bounded by the program's policies and never by its traffic. Thread-safe.
class Scripts {
 public:
  /// Decides a call of one charge, which is enforced. The reference stays valid, as do the others.
  const Script& single(const Plan& plan);
  /// Decides any call. Policies in the order the call numbers them.
  const Script& several(std::span<const Plan* const> plans);
  /// Gives back what a call has charged.
  const Script& refunding(std::span<const Plan* const> plans);

 private:
  template <class Text>
  const Script& made(const std::string& shape, const Text& text);

  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<const Script>, std::less<>> scripts_;  // guarded by mutex_
};

}  // namespace overlimit::redis
