// What is left of leases that have ended goes back in front of the next command, once.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "redis/knowledge/known_refusals.hpp"
#include "redis/knowledge/leases.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/script_call.hpp"
#include "redis/servers.hpp"

namespace overlimit::redis {

class GiveBacks {
 public:
  /// The commands take the units, which come back in none of them.
  GiveBacks(Leases* leases, std::vector<Leases::Return> returns, const RedisStore::Keys& keys,
            const Scripts& scripts, std::atomic<bool>& is_script_known);

  [[nodiscard]] bool empty() const { return scripts_.empty(); }
  [[nodiscard]] std::size_t size() const { return scripts_.size(); }
  void append_to(std::vector<std::string>& commands, std::vector<std::optional<protocol::Slot>>& slots,
                 Servers& servers) const;
  /// Has what follows know that these keys change before it.
  void precede(Telling& telling) const;
  /// Counts what was given back, by the replies as far as they came.
  void read(std::span<const std::optional<protocol::Reply>> replies) const;

 private:
  Leases* leases_;
  std::vector<Leases::Return> returns_;
  std::vector<ScriptCall> scripts_;
  std::atomic<bool>& is_script_known_;
};

}  // namespace overlimit::redis
