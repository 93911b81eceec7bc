// Calls of several identifiers that are asked for in several commands: those of several slots of a cluster,
// and those that ask for leases of their own (docs/semantics.md: calls across slots).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "redis/cross_slot/split_call.hpp"
#include "redis/plain/store_client.hpp"

namespace overlimit::redis {

/// Of one store. Thread-safe.
class CrossSlotCalls final : public Layer {
 public:
  /// Whether a charge of a call is asked for by a command of its own, whatever its slot; none: no charge is.
  using IsAskedApart = std::function<bool(const Call&, const Charge&)>;

  CrossSlotCalls(StoreClient& store, Calls& below, IsAskedApart is_asked_apart);

  [[nodiscard]] bool is_decided_apart(const Call& call) override;
  Instant decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) override;
  void refund(const Call& call, std::span<const Receipt> receipts, Present* present,
              const Wait& wait) override;
  void send_refund(const Call& call, std::span<const Receipt> receipts, Basis& basis,
                   const Wait& wait) override;

 private:
  [[nodiscard]] bool are_tagged_alike(std::span<const Charge> charges) const;
  [[nodiscard]] std::vector<protocol::Slot> slots_across(std::span<const Charge> charges);
  [[nodiscard]] std::vector<protocol::Slot> parts_of(const Call& call);
  Instant decide_across(const Call& call, std::span<const protocol::Slot> parts, const Rows& rows,
                        Basis& basis, const Wait& wait);
  void ask(SplitCall& split, std::size_t first, std::size_t charged, std::span<Instant> times, Basis& basis,
           const Wait& wait);
  bool send_refund(SplitCall& split, Basis& basis, const Wait& wait);
  void refund_across(const Call& call, std::span<const protocol::Slot> slots,
                     std::span<const Receipt> receipts, Present* present, const Wait& wait);

  StoreClient& store_;
  const IsAskedApart is_asked_apart_;
  RecentRefusals refusals_;
};

}  // namespace overlimit::redis
