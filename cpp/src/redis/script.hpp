// The scripts: their texts, made of the fragments under lua/, and their SHA1s.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "overlimit/plan.hpp"

namespace overlimit::redis {

/// A script's text and the 40 hex digits Redis knows it by. Immutable. What is prepared for a plan is the
/// script that decides a call of one charge of it, which is enforced.
class Script final : public PreparedPlan {
 public:
  /// The one prepared for a plan; null if none was.
  [[nodiscard]] static const Script* of(const Plan& plan) {
    return static_cast<const Script*>(plan.prepared());
  }

  explicit Script(std::string text);
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::string& sha1() const { return sha1_; }

 private:
  std::string text_;
  std::string sha1_;
};

/// The scripts of a store. Those that depend on shapes - the policies' algorithms and whether they have
/// penalties - are made when they are first needed; their number is bounded by the program's policies and
/// never by its traffic. References stay valid. Thread-safe, without a lock: a child that is forked meanwhile
/// finds what was complete by then, and makes the rest itself.
class Scripts {
 public:
  Scripts();
  Scripts(const Scripts&) = delete;
  Scripts& operator=(const Scripts&) = delete;
  ~Scripts() = default;

  /// Reads keys and changes nothing.
  [[nodiscard]] const Script& reading() const { return reading_; }
  /// Locks keys by hand.
  [[nodiscard]] const Script& locking() const { return locking_; }
  /// Prepares a plan.
  [[nodiscard]] std::shared_ptr<const Script> single(const Plan& plan) const;
  /// Decides any call. Policies in the order the call numbers them.
  [[nodiscard]] const Script& several(std::span<const Plan* const> plans) const;
  /// Gives back what a call has charged.
  [[nodiscard]] const Script& refunding(std::span<const Plan* const> plans) const;

 private:
  /// Grows only.
  class ByShapes {
   public:
    ByShapes() = default;
    ByShapes(const ByShapes&) = delete;
    ByShapes& operator=(const ByShapes&) = delete;
    ~ByShapes();

    template <class MakeText>
    [[nodiscard]] const std::shared_ptr<const Script>& of(std::span<const Plan* const> plans,
                                                          const MakeText& make_text);

   private:
    struct Entry;

    std::atomic<Entry*> first_{nullptr};
  };

  const Script reading_;
  const Script locking_;
  mutable ByShapes single_;
  mutable ByShapes several_;
  mutable ByShapes refunding_;
};

}  // namespace overlimit::redis
