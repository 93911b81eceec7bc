#include "redis/protocol/failures.hpp"

#include <algorithm>
#include <string>

#include "overlimit/errors.hpp"

namespace overlimit::redis::protocol {
namespace {

/// A row matches a text that starts with `sign` as its error code, or, when `anywhere`, contains it.
struct Row {
  std::string_view sign;
  bool anywhere;
  Meaning meaning;
};

constexpr Meaning retryable(std::string_view advice) { return {Failure::unavailable, true, advice}; }
constexpr Meaning unavailable(std::string_view advice) { return {Failure::unavailable, false, advice}; }
constexpr Meaning config(std::string_view advice) { return {Failure::config, false, advice}; }

constexpr std::string_view kGrant =
    "grant the user of the URL the keys of the prefix and the commands of the scripts";
constexpr std::string_view kOneSlot =
    "the identifiers of one call are in several slots: a single server has none";
constexpr std::string_view kNotCluster = "the server is a node of a Redis Cluster: use a single server";

constexpr Row kTable[] = {
    {"NOSCRIPT", false, {Failure::no_script, true, "send the text of the script"}},
    {"LOADING", false, retryable("wait until the server has loaded its data")},
    {"BUSY", false, retryable("find the script that blocks the server, SCRIPT KILL ends it")},
    {"MASTERDOWN", false, retryable("the replica has lost its master: connect to the master")},
    {"NOREPLICAS", false, retryable("bring back the replicas that min-replicas-to-write asks for")},
    {"CLUSTERDOWN", false, retryable("check the cluster with CLUSTER INFO")},
    {"TRYAGAIN", false, retryable("wait until the slot has moved")},
    {"READONLY", false, retryable("connect to the master, this server is a replica")},
    {"OOM", false, unavailable("raise maxmemory or set an eviction policy")},
    {"MISCONF", false, unavailable("the server cannot save to disk: see its log")},
    {"NOAUTH", false, config("give the password in the URL")},
    {"WRONGPASS", false, config("check user and password in the URL")},
    {"NOPERM", false, config(kGrant)},
    {"CROSSSLOT", false, config(kOneSlot)},
    {"MOVED", false, config(kNotCluster)},
    {"ASK", false, config(kNotCluster)},
    {"DENIED", false, config("set a password or the bind addresses on the server")},
    {"max number of clients", true, retryable("raise maxclients or close idle clients")},
    {"non local key", true, config(kOneSlot)},
    {"without any password configured", true, config("remove the password from the URL")},
    {"DB index is out of range", true,
     config("choose a database the server has, see its setting `databases`")},
    {"SELECT is not allowed in cluster mode", true, config("use database 0")},
    {"ACL failure in script", true, config(kGrant)},
    {"The user executing the script can't", true, config(kGrant)},
};

constexpr Meaning kOther{Failure::script, false, "see the log of the server"};
constexpr std::string_view kWrapped = "ERR Error running script";
constexpr std::size_t kMaxQuoted = 300;

bool is_code(std::string_view text, std::string_view code) {
  return text.starts_with(code) && (text.size() == code.size() || text[code.size()] == ' ');
}

/// Redis 6 keeps the '-' of the error that the script met: "ERR Error running script ...: -READONLY ...".
bool holds_code(std::string_view text, std::string_view code) {
  for (auto at = text.find('-'); at != std::string_view::npos; at = text.find('-', at + 1)) {
    if (is_code(text.substr(at + 1), code)) return true;
  }
  return false;
}

bool matches(const Row& row, std::string_view error) {
  if (row.anywhere) return error.find(row.sign) != std::string_view::npos;
  return is_code(error, row.sign) || (error.starts_with(kWrapped) && holds_code(error, row.sign));
}

/// "ERR unknown command 'AUTH', with args beginning with: ..." would show the password.
std::string_view quotable(std::string_view error) {
  return error.substr(0, std::min(error.find(", with args"), kMaxQuoted));
}

}  // namespace

Meaning meaning_of(std::string_view error) noexcept {
  const auto* row = std::ranges::find_if(kTable, [&](const Row& each) { return matches(each, error); });
  return row == std::ranges::end(kTable) ? kOther : row->meaning;
}

void raise_error_reply(std::string_view error, const Endpoint& endpoint, bool maybe_charged) {
  const Meaning meaning = meaning_of(error);
  const std::string what = "redis at " + endpoint.describe() + " answered \"" + std::string(quotable(error)) +
                           "\"; " + std::string(meaning.advice);
  if (meaning.failure == Failure::unavailable) throw StoreUnavailable(what, maybe_charged);
  if (meaning.failure == Failure::config) throw StoreConfigError(what, maybe_charged);
  throw ScriptError(what, maybe_charged);
}

}  // namespace overlimit::redis::protocol
