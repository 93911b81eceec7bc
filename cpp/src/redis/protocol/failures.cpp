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
constexpr Meaning out_of_service(std::string_view advice) {
  return {Failure::unavailable, true, advice, true};
}
constexpr Meaning unavailable(std::string_view advice) { return {Failure::unavailable, false, advice}; }
constexpr Meaning config(std::string_view advice) { return {Failure::config, false, advice}; }

constexpr std::string_view kGrant =
    "grant the user of the URL what the documentation's page Operations lists under Permissions: the keys "
    "of the prefix and nine commands";
constexpr std::string_view kOneSlot =
    "the identifiers of one call are in several slots: give the store hash_tag=\"policy\" or "
    "hash_tag=\"prefix\"";
constexpr std::string_view kCluster =
    "the server is a node of a Redis Cluster: begin the store's URL with redis+cluster://";

constexpr Row kTable[] = {
    {"NOSCRIPT", false, {Failure::no_script, true, "send the text of the script"}},
    {"LOADING", false, out_of_service("wait until the server has loaded its data")},
    {"BUSY", false, out_of_service("find the script that blocks the server, SCRIPT KILL ends it")},
    {"MASTERDOWN",
     false,
     {Failure::replica, true, "the replica has lost its master: connect to the master", true}},
    {"NOREPLICAS", false, out_of_service("bring back the replicas that min-replicas-to-write asks for")},
    {"CLUSTERDOWN", false, retryable("check the cluster with CLUSTER INFO")},
    {"TRYAGAIN", false, retryable("wait until the slot has moved")},
    {"READONLY", false, {Failure::replica, true, "connect to the master, this server is a replica", true}},
    {"OOM", false, unavailable("raise maxmemory, or find what fills it: a limiter's keys expire")},
    {"MISCONF", false, unavailable("the server cannot save to disk: see its log")},
    {"NOAUTH", false, config("give the password in the URL")},
    {"WRONGPASS", false, config("check user and password in the URL")},
    {"NOPERM", false, config(kGrant)},
    {"CROSSSLOT", false, {Failure::cross_slot, false, kOneSlot}},
    {"MOVED", false, {Failure::moved, true, kCluster}},
    {"ASK", false, {Failure::ask, true, kCluster}},
    {"DENIED", false, config("set a password or the bind addresses on the server")},
    {"max number of clients", true, retryable("raise maxclients or close idle clients")},
    {"non local key", true, {Failure::cross_slot, false, kOneSlot}},
    {"DB index is out of range", true,
     config("choose a database the server has, see its setting `databases`")},
    {"SELECT is not allowed in cluster mode", true, config("use database 0")},
    {"cluster support disabled", true,
     config("the server is in no cluster: begin the store's URL with redis://")},
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

bool is_redirection(const Meaning& meaning) noexcept {
  return meaning.failure == Failure::moved || meaning.failure == Failure::ask;
}

bool is_worth_retrying(const Meaning& meaning) noexcept {
  return meaning.retryable &&
         (meaning.failure == Failure::unavailable || meaning.failure == Failure::replica);
}

bool is_worth_retrying(const Reply& reply) noexcept {
  return reply.is_error() && is_worth_retrying(meaning_of(reply.as_text()));
}

bool is_out_of_service(const Reply& reply) noexcept {
  return reply.is_error() && meaning_of(reply.as_text()).is_for_all;
}

bool is_from_replica(const Reply& reply) noexcept {
  return reply.is_error() && meaning_of(reply.as_text()).failure == Failure::replica;
}

void raise_error_reply(std::string_view error, std::string_view who) {
  const Meaning meaning = meaning_of(error);
  const std::string what = "redis at " + std::string(who) + " answered \"" + std::string(quotable(error)) +
                           "\"; " + std::string(meaning.advice);
  if (meaning.failure == Failure::unavailable || meaning.failure == Failure::replica) {
    throw StoreUnavailable(what);
  }
  if (meaning.failure == Failure::cross_slot) throw CrossSlot(what);
  if (meaning.failure == Failure::config || is_redirection(meaning)) throw StoreConfigError(what);
  throw ScriptError(what);
}

void raise_error_reply(std::string_view error, const Endpoint& endpoint) {
  raise_error_reply(error, endpoint.describe());
}

Cause cause_of(const Reply& error, const Endpoint& endpoint) {
  try {
    raise_error_reply(error.as_text(), endpoint);
  } catch (const StoreError& raised) {
    return Cause::of(raised);
  }
}

}  // namespace overlimit::redis::protocol
