// A call whose keys lie in several slots of a cluster: a call of its own for each slot (docs/semantics.md:
// calls across slots).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/forks.hpp"
#include "overlimit/store.hpp"
#include "redis/protocol/cluster_slots.hpp"

namespace overlimit::redis {

/// The charges of a call that are in one slot.
struct CallPart {
  protocol::Slot slot;
  std::vector<Charge> charges;
  std::vector<std::size_t> first_rows;  ///< per charge: its first row in the whole call
  Rows rows{};
  bool is_charged = false;
  bool was_redirected = false;  ///< its slot was not where it was thought to be

  /// The enforced charges that are not admitted, by its rows.
  [[nodiscard]] std::vector<const Charge*> refusing() const;
  [[nodiscard]] bool admits() const { return refusing().empty(); }
};

/// Parts in the order in which they are asked: first those of which a charge `goes_first`, then the others.
class SplitCall {
 public:
  /// Of these charges, each with its slot. Throws CrossSlot for roles that no two slots can agree on.
  SplitCall(const Call& call, std::span<const protocol::Slot> slots,
            const std::function<bool(const Charge&)>& goes_first);

  [[nodiscard]] std::span<CallPart> parts() { return parts_; }
  [[nodiscard]] Call call_of(const CallPart& part) const;
  /// How many parts are to be charged at once, while the others are read: all, if none goes first.
  [[nodiscard]] std::size_t leading() const { return leading_; }
  /// Parts from `first` on, of which those before `charged` are charged and the others are read.
  [[nodiscard]] std::vector<Call> calls(std::size_t first, std::size_t charged) const;
  [[nodiscard]] bool admits() const;
  /// The charges that refuse the call.
  [[nodiscard]] std::vector<const Charge*> refusing() const;
  /// Makes the rows of parts that would admit the call those of one that others have refused.
  void show_uncharged();
  void set_receipts(std::span<const Receipt> receipts);
  void copy_rows(const Rows& to) const;

 private:
  const Call& call_;
  std::vector<CallPart> parts_;
  std::size_t leading_ = 0;
  std::unique_ptr<std::byte[]> memory_;
  Rows rows_{};
};

/// The keys that refused a call within the last second, of a few thousand. Thread-safe.
class RecentRefusals {
 public:
  using Clock = std::chrono::steady_clock;

  void note(std::string key);
  [[nodiscard]] bool has(std::string_view key);

 private:
  static constexpr std::chrono::seconds kRecent{1};
  static constexpr std::size_t kMost = 4096;

  void forget_old(Clock::time_point now);

  ForkSafeMutex mutex_;
  std::map<std::string, Clock::time_point, std::less<>> refused_at_;  // guarded by mutex_, as all below
  Clock::time_point looked_at_{};                                     // for old ones
};

}  // namespace overlimit::redis
