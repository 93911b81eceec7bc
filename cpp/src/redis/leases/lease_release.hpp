// What is left of leases that have ended is released in front of the next command, once.
#pragma once

#include <optional>

#include "redis/leases/leases.hpp"
#include "redis/plain/store_client.hpp"

namespace overlimit::redis {

/// Refunds units of one lease, once.
class LeaseRelease : public Exchange {
 public:
  LeaseRelease(StoreClient& store, Leases& leases, ReleasedUnits units);

  [[nodiscard]] bool is_sent_with_text() const override { return !leases_.releases().knows_script(); }
  void arrived(std::optional<protocol::Reply>& reply) override;

 private:
  [[nodiscard]] ScriptCall encoded(const Extras& extras) override;
  [[nodiscard]] bool counts_if_suspect() const override { return true; }
  [[nodiscard]] bool was_refunded(protocol::Reply reply);

  Leases& leases_;
  ReleasedUnits units_;
  Basis unused_{};
};

/// Releases all that has ended, and follows what has moved.
void release_all(StoreClient& store, Leases& leases);

}  // namespace overlimit::redis
