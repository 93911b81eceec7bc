// How fast the buckets of a limiter have drained. An update to a faster rate holds for the time before it,
// too, so what is refunded after it is reckoned by the fastest rate since the charge.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "overlimit/compiled_policy.hpp"
#include "overlimit/store.hpp"

namespace overlimit {

/// The rates that the policies of one limiter have had, one policy after the other. Not thread-safe.
class PastRates {
 public:
  explicit PastRates(const CompiledPolicy& first) { add(first); }
  /// Adds the policy that decides from now on. The first one has number 0, the next one 1, and so on.
  void add(const CompiledPolicy& policy);
  [[nodiscard]] std::uint64_t newest() const { return newest_; }

  /// A policy that was charged, and has this number, with the fastest rates since; nothing if it has them.
  [[nodiscard]] std::optional<CompiledPolicy> fastest_since(std::uint64_t number,
                                                            const CompiledPolicy& charged) const;

 private:
  /// A limit, and the number of the last policy that had it.
  struct Held {
    Limit limit;
    std::uint64_t last;
  };

  /// Of so many rates that became slower and slower; what was before counts as the fastest of them.
  static constexpr std::size_t kMostHeld = 16;

  std::map<Tag, std::vector<Held>> held_;  // the fastest first; slower ones than a later one are gone
  std::uint64_t newest_ = 0;
};

/// The receipts of a charge as its other rates would have made them, one for each limit.
std::vector<Receipt> receipts_by(const CompiledPolicy& faster, const CompiledPolicy& charged, Cost cost,
                                 std::span<const Receipt> receipts);

}  // namespace overlimit
