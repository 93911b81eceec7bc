// What is left of leases that have ended goes back in front of the next command, once.
#pragma once

#include <atomic>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "redis/leases/leases.hpp"
#include "redis/plain/batch.hpp"
#include "redis/plain/servers.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/recovery/recovery.hpp"
#include "redis/refusals/cached_refusals.hpp"
#include "redis/wire/script_call.hpp"

namespace overlimit::redis {

class GiveBacks {
 public:
  /// The commands take the units, which come back in none of them.
  GiveBacks(Leases* leases, std::vector<LeaseReturn> returns, const KeyNaming& keys, const Scripts& scripts,
            std::atomic<bool>& is_script_known, Recovery& remembering, Servers& servers);

  [[nodiscard]] bool empty() const { return scripts_.empty(); }
  [[nodiscard]] std::size_t size() const { return scripts_.size(); }
  [[nodiscard]] const std::vector<ScriptCall>& scripts() const { return scripts_; }
  /// Makes them the first of a batch.
  void add_to(Batch& batch) const;
  /// Has what follows know that these keys change before it.
  void precede(Telling& telling) const;
  /// Counts what was given back, by the replies as far as they came.
  void read(Batch& batch);
  void read(std::size_t i, std::optional<protocol::Reply>& reply);

 private:
  Leases* leases_;
  std::vector<LeaseReturn> returns_;
  std::vector<ScriptCall> scripts_;
  std::deque<Hearing> hearings_;  // per script, if what is told is remembered
  std::atomic<bool>& is_script_known_;
};

}  // namespace overlimit::redis
