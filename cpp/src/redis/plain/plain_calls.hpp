// The calls of a store without options: scripts that its servers run. Layers add what options say.
#pragma once

#include <span>

#include "redis/plain/store_client.hpp"

namespace overlimit::redis {

/// The call at the instant that its clock reads now. The server reads its own.
inline Call with_reading(Call call) {
  call.now = call.reading();
  return call;
}

/// Below all layers, for keys in one slot. Thread-safe. Throws as Store does.
class PlainCalls final : public Calls {
 public:
  /// All calls of the store begin here, until a layer is put above.
  explicit PlainCalls(StoreClient& store) : store_(store) { store.begin_at(*this); }

  bool decide_here(const Call& /*call*/, Duration /*next_ask_at*/, const Rows& /*rows*/, Instant& /*time*/,
                   Basis& /*basis*/) override {
    return false;
  }
  [[nodiscard]] bool may_decide_here() const override { return false; }
  [[nodiscard]] bool is_decided_apart(const Call& /*call*/) override { return false; }
  Instant decide(const Call& call, const Rows& rows, Basis& basis, const Wait& wait) override;
  void refund(const Call& call, std::span<const Receipt> receipts, Present* present,
              const Wait& wait) override;
  void send_refund(const Call& call, std::span<const Receipt> receipts, Basis& basis,
                   const Wait& wait) override;
  void reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
             const Interrupted& interrupted) override;
  void reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) override;
  void close() override { store_.servers().topology().close(); }

  /// Locks the identifiers of a call, or with a duration of 0 unlocks them.
  void lock(const Call& call, Duration duration, const Interrupted& interrupted);

 private:
  StoreClient& store_;
};

/// Decides calls of a store, through its layers.
void decide_many(StoreClient& store, std::span<const Call> calls, const Rows& rows, std::span<Instant> times,
                 std::span<Basis> bases, const Wait& wait);

}  // namespace overlimit::redis
