// What was remembered of the keys of one command before it, and what its reply reports of them.
#pragma once

#include <string>
#include <vector>

#include "redis/plain/servers.hpp"
#include "redis/recovery/snapshots.hpp"
#include "redis/wire/script_reply.hpp"

namespace overlimit::redis {

/// To be made before the command is sent.
class CommandSnapshots {
 public:
  /// What is reported is remembered for so long at most.
  CommandSnapshots(Snapshots& values, Servers& servers, std::vector<std::string> keys, Duration longest);

  /// Per key, when it was created as far as this process remembers, or 0, for the script to do nothing if it
  /// meets another key; empty if nothing is remembered of any.
  [[nodiscard]] std::string incarnations() const;
  /// Whether the reply is to be trusted: its server may lack what is remembered of a key, or be another
  /// server or connection, which is noted. What a trusted one reports is remembered.
  Trust judge(const ScriptReply& reply);
  /// Remembers what a reply reports that is trusted whatever it is.
  void keep(const ScriptReply& reply);
  /// Remembers what was reported after this was restored. Returns whether the server had lost any of it until
  /// then.
  bool keep_restored(const ScriptReply& reply, const Snapshots::Pointer& restored);
  /// The same after the keys were reset.
  void keep_reset(const ScriptReply& reply);

 private:
  [[nodiscard]] Snapshot snapshot_of(std::size_t k, const ScriptReply::Key& key, const ScriptReply& reply);

  Snapshots& values_;
  Servers& servers_;
  const std::vector<std::string> keys_;
  const Duration longest_;
  const std::uint64_t newest_;  // of this process's connections
  const std::uint64_t sequence_;
  const Duration asked_at_;
  std::vector<Snapshots::Pointer> known_;  // per key, before it is sent; or nullptr
};

}  // namespace overlimit::redis
