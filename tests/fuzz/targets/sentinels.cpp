// What sentinels say: who the master of a service is, and who has replaced it.
#include "redis/protocol/sentinel.hpp"

#include "redis/protocol/replies.hpp"
#include "resp.hpp"
#include "target.hpp"

namespace overlimit::fuzz {
namespace {

using namespace redis::protocol;
using redis::HostPort;

void check_address(const HostPort& address) {
  check(!address.host.empty() && address.port > 0, "whoever is named has an address");
}

Reply announced(const std::string& service, const HostPort& from, const HostPort& to) {
  return words({"message", "+switch-master",
                service + ' ' + from.host + ' ' + std::to_string(from.port) + ' ' + to.host + ' ' +
                    std::to_string(to.port)});
}

void read_sentinels(std::string_view input) {
  const std::optional<Reply> reply = first_reply(input);
  if (!reply) return;
  if (const auto master = named_master(*reply)) {
    check_address(*master);
    const auto again = named_master(words({master->host, std::to_string(master->port)}));
    check(again && *again == *master, "a master that was read can be told again");
  }
  if (const auto change = switch_of(*reply, "limits")) {
    check_address(change->from);
    check_address(change->to);
    const auto again = switch_of(announced("limits", change->from, change->to), "limits");
    check(again && again->from == change->from && again->to == change->to,
          "a change that was read can be told again");
    check(!switch_of(*reply, "others"), "no other service is concerned");
  }
}

std::vector<std::string> sentinel_replies() {
  return {written(words({"127.0.0.1", "6379"})),
          written(announced("limits", {"10.0.0.1", 6379}, {"10.0.0.2", 6380})),
          written(announced("others", {"10.0.0.1", 6379}, {"10.0.0.2", 6380})), written(Reply::nil())};
}

const Registration kSentinels("sentinels", {read_sentinels, sentinel_replies});

}  // namespace
}  // namespace overlimit::fuzz
