// What is left of leases that have ended goes back in front of the next command, once.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "redis/leases/leases.hpp"
#include "redis/plain/plain_calls.hpp"

namespace overlimit::redis {

/// Gives back units of one lease.
class Returning : public Exchange {
 public:
  Returning(PlainCalls& store, Leases& leases, LeaseReturn units);

  [[nodiscard]] bool is_sent_with_text() const override { return !leases_.knows_refunds(); }
  void arrived(std::optional<protocol::Reply>& reply) override;

 private:
  [[nodiscard]] ScriptCall encoded(const Extras& extras) override;
  [[nodiscard]] bool counts_if_suspect() const override { return true; }
  [[nodiscard]] bool was_given(protocol::Reply reply);

  PlainCalls& store_;
  Leases& leases_;
  LeaseReturn units_;
  Basis unused_{};
};

/// Gives back all that has ended, and follows what has moved.
void give_back_all(PlainCalls& store, Leases& leases);

}  // namespace overlimit::redis
