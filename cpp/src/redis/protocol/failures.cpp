#include "redis/protocol/failures.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace overlimit::redis::protocol {
namespace {

/// A row matches a text that starts with `sign` as its error code or, when `anywhere`, contains it.
struct Row {
  std::string_view sign;
  bool anywhere;
  Classified classified;
};

constexpr Classified try_again(std::string_view advice) { return {Outcome::try_again, advice}; }
constexpr Classified out_of_service(std::string_view advice) { return {Outcome::out_of_service, advice}; }
constexpr Classified not_master(std::string_view advice) { return {Outcome::not_master, advice}; }
constexpr Classified unavailable(std::string_view advice) { return {Outcome::unavailable, advice}; }
constexpr Classified misconfigured(std::string_view advice) { return {Outcome::misconfigured, advice}; }

constexpr std::string_view kGrant =
    "grant the user of the URL what the documentation's page Operating overlimit lists under Permissions: "
    "the keys of the prefix and each command that the store sends";
constexpr std::string_view kCredentials =
    "check user and password in the URL: a password without a user has a colon before it, as in "
    ":password@host, and all but letters and digits is percent-encoded";
constexpr std::string_view kOneSlot =
    "the server is a node of a Redis Cluster: begin the store's URL with redis+cluster://, or, if a proxy "
    "stands before the cluster, give the store hash_tag=\"policy\" or hash_tag=\"prefix\"";
constexpr std::string_view kCluster =
    "the server is a node of a Redis Cluster: begin the store's URL with redis+cluster://";
constexpr std::string_view kScripts =
    "the server runs no Lua scripts, which decide calls: load its module `lua` (Valkey), allow EVAL and "
    "EVALSHA "
    "(rename-command), or use another server";

constexpr Row kTable[] = {
    {"NOSCRIPT", false, {Outcome::no_script, "send the text of the script"}},
    {"LOADING", false, out_of_service("wait until the server has loaded its data")},
    {"BUSY", false, out_of_service("find the script that blocks the server, SCRIPT KILL ends it")},
    {"MASTERDOWN", false, not_master("the replica has lost its master: connect to the master")},
    {"NOREPLICAS", false, out_of_service("bring back the replicas that min-replicas-to-write asks for")},
    {"CLUSTERDOWN", false, try_again("check the cluster with CLUSTER INFO")},
    {"TRYAGAIN", false, try_again("wait until the slot has moved")},
    {"READONLY", false, not_master("connect to the master, this server is a replica")},
    {"OOM", false, unavailable("raise maxmemory, or find what fills it: a limiter's keys expire")},
    {"MISCONF", false, unavailable("the server cannot save to disk: see its log")},
    {"NOAUTH", false, misconfigured("give the password in the URL, before the host, as in :password@host")},
    {"WRONGPASS", false, misconfigured(kCredentials)},
    {"NOPERM", false, misconfigured(kGrant)},
    {"CROSSSLOT", false, {Outcome::cross_slot, kOneSlot}},
    {"MOVED", false, {Outcome::moved, kCluster}},
    {"ASK", false, {Outcome::ask, kCluster}},
    {"DENIED", false, misconfigured("set a password or the bind addresses on the server")},
    {"max number of clients", true, try_again("raise maxclients or close idle clients")},
    {"non local key", true, {Outcome::cross_slot, kOneSlot}},
    {"DB index is out of range", true,
     misconfigured("choose a database the server has, see its setting `databases`")},
    {"SELECT is not allowed in cluster mode", true, misconfigured("use database 0")},
    {"cluster support disabled", true,
     misconfigured("the server is in no cluster: begin the store's URL with redis://")},
    {"Could not find scripting engine", true, misconfigured(kScripts)},
    {"unknown command 'EVAL", true, misconfigured(kScripts)},
    {"unknown command `EVAL", true, misconfigured(kScripts)},  // before Redis 7
    {"ACL failure in script", true, misconfigured(kGrant)},
    {"The user executing the script can't", true, misconfigured(kGrant)},
};

constexpr Classified kFailed{Outcome::failed, "see the log of the server"};
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

constexpr int kLeastMajor = 6;
constexpr int kLeastMinor = 2;

bool is_new_enough(std::string_view version) {
  int major = 0;
  int minor = 0;
  const char* const end = version.data() + version.size();
  const auto [dot, error] = std::from_chars(version.data(), end, major);
  if (error != std::errc() || dot == end) return false;
  std::from_chars(dot + 1, end, minor);
  return major > kLeastMajor || (major == kLeastMajor && minor >= kLeastMinor);
}

StoreConfigError too_old(std::string_view version, const Endpoint& endpoint) {
  return StoreConfigError("redis at " + endpoint.describe() + " is " + std::string(version) +
                          "; overlimit needs Redis 6.2 or Valkey 7.2 at least");
}

}  // namespace

Classified classify_error(std::string_view error) noexcept {
  const auto* row = std::ranges::find_if(kTable, [&](const Row& each) { return matches(each, error); });
  return row == std::ranges::end(kTable) ? kFailed : row->classified;
}

void raise_error_reply(std::string_view error, std::string_view server) {
  const Classified classified = classify_error(error);
  const std::string what = "redis at " + std::string(server) + " answered \"" + std::string(quotable(error)) +
                           "\"; " + std::string(classified.advice);
  if (classified.is_unavailable()) throw StoreUnavailable(what);
  if (classified.outcome == Outcome::cross_slot) throw CrossSlot(what);
  if (classified.outcome == Outcome::misconfigured || classified.is_redirection()) {
    throw StoreConfigError(what);
  }
  throw ScriptError(what);
}

Cause cause_of(const Reply& error, const Endpoint& endpoint) {
  try {
    raise_error_reply(error.as_text(), endpoint.describe());
  } catch (const StoreError& raised) {
    return Cause::of(raised);
  }
}

std::optional<Cause> handshake_failure(const Reply& reply, const Endpoint& endpoint) {
  if (reply.is_error()) {
    const bool knows_no_hello = reply.as_text().starts_with("ERR unknown command");
    return knows_no_hello ? Cause::of(too_old("older than 6", endpoint)) : cause_of(reply, endpoint);
  }
  if (!reply.is_array()) return std::nullopt;
  const std::string_view version = reply.text_after("version");
  if (!is_new_enough(version)) return Cause::of(too_old("version '" + std::string(version) + "'", endpoint));
  if (endpoint.must_be_master && reply.text_after("role") != "master") {
    return Cause::unavailable("redis at " + endpoint.describe() + " is no longer a master");
  }
  return std::nullopt;
}

}  // namespace overlimit::redis::protocol
