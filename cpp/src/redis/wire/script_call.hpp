// One call as a script, its keys and its one packed argument (lua/README.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "overlimit/store.hpp"
#include "redis/wire/script.hpp"
#include "values/call_on_values.hpp"

namespace overlimit::redis {

using values::may_charge;

/// Borrows nothing but the script, which lives as long as the store.
struct ScriptCall {
  const Script* script;
  std::vector<std::string> keys;  ///< one per charge
  std::string arguments;
  std::string second;  ///< argument: receipts, or what is remembered; if there is one
  /// The last argument: per key, when it was created as far as this process remembers, or 0; empty: not at
  /// all.
  std::string incarnations = {};

  /// The command that runs it by SHA1, or with its whole text.
  [[nodiscard]] std::string evalsha() const;
  [[nodiscard]] std::string eval() const;
};

/// Whether it is decided by the server's clock.
inline bool goes_by_server(const Call& call) { return !call.now && call.clock == nullptr; }

/// Whether the reply to a charge reports what is charged, or the whole value of its key, which is longer.
enum class Reports : bool { charge, value };

/// Each is about these keys, one per charge.
using KeysOfCall = std::vector<std::string>;

ScriptCall script_call(const Call& call, KeysOfCall keys, const Scripts& scripts,
                       Reports reports = Reports::charge);

/// Decides a call of one enforced charge, and charges up to `extra` units more for a lease of this term.
ScriptCall lease_call(const Call& call, KeysOfCall keys, Cost extra, Duration term, const Scripts& scripts,
                      Reports reports = Reports::charge);

/// Whether what was charged on a key that was lost is refunded, too, once that key is restored.
enum class Of : bool { keys_as_charged, restored_keys };

/// Gives back the charges of a call; these are their receipts.
ScriptCall refund_call(const Call& call, KeysOfCall keys, std::span<const Receipt> receipts,
                       bool shows_present, const Scripts& scripts, Of of = Of::restored_keys);

/// The same for so many units of one key, which were charged under limits that are packed as scripts read
/// them.
ScriptCall refund_call(std::string_view packed, std::string key, Cost units,
                       std::span<const Receipt> receipts, bool shows_present, const Scripts& scripts);

ScriptCall lock_call(const Call& call, KeysOfCall keys, Duration duration, const Scripts& scripts,
                     Reports reports = Reports::charge);

/// Merges into the key of a charge what was reported of it at this instant.
ScriptCall restore_call(const Charge& charge, std::string key, Instant reported_at, std::string_view value,
                        const Scripts& scripts);

/// Resets keys so that what was reported of them before does not come back.
ScriptCall reset_call(KeysOfCall keys, const Scripts& scripts);

}  // namespace overlimit::redis
