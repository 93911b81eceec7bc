// What the nodes of a cluster say: who serves which slot, and who serves this one.
#include <algorithm>

#include "redis/protocol/addresses.hpp"
#include "redis/protocol/cluster_slots.hpp"
#include "redis/protocol/replies.hpp"
#include "resp.hpp"
#include "target.hpp"

namespace overlimit::fuzz {
namespace {

using namespace redis::protocol;
using redis::HostPort;

const HostPort kAsked{"10.0.0.1", 7000};

Reply server_of(const HostPort& address) {
  return array_of(Reply::string(address.host), Reply::integer(address.port), Reply::string("id"));
}

Reply range_of(std::size_t first, std::size_t last, const HostPort& master) {
  return array_of(Reply::integer(static_cast<std::int64_t>(first)),
                  Reply::integer(static_cast<std::int64_t>(last)), server_of(master));
}

/// The ranges of one master after another, as a node would tell them.
Reply told(const SlotMap& map) {
  std::vector<Reply> ranges;
  for (std::size_t first = 0; first < kSlots;) {
    const HostPort* const master = map.master_of(static_cast<Slot>(first));
    std::size_t end = first + 1;
    while (end < kSlots && map.master_of(static_cast<Slot>(end)) == master) ++end;
    if (master != nullptr) ranges.push_back(range_of(first, end - 1, *master));
    first = end;
  }
  return Reply::array(std::move(ranges));
}

void check_map(const SlotMap& map) {
  for (const HostPort& master : map.masters()) {
    check(!master.host.empty(), "a master has a host");
    check(std::ranges::find(map.servers(), master) != map.servers().end(), "a master is a server");
  }
  check(map.servers().size() <= 10'000, "a map is of bounded size");
  const std::optional<SlotMap> again = SlotMap::read(told(map), kAsked);
  check(again && again->agrees_with(map), "what was read can be told again");
}

void check_completion(SlotMap map) {
  SlotMap other;
  other.learn(0, {"other", 1});
  other.learn(kSlots - 1, {"other", 1});
  const SlotMap before = map;
  map.complete(other, {});
  for (const Slot slot : {Slot{0}, Slot{1}, static_cast<Slot>(kSlots - 1)}) {
    const HostPort* const was = before.master_of(slot);
    const HostPort* const expected = was != nullptr ? was : other.master_of(slot);
    const HostPort* const is = map.master_of(slot);
    check((is == nullptr) == (expected == nullptr), "only gaps are filled");
    check(is == nullptr || *is == *expected, "by whom the other map names");
  }
}

void check_redirection(std::string_view text) {
  const std::optional<Redirection> redirection = redirection_of(text, kAsked);
  if (!redirection) return;
  check(redirection->slot < kSlots, "a slot is one of 16,384");
  check(!redirection->to.host.empty(), "somebody is named");
  const std::string again = "MOVED " + std::to_string(redirection->slot) + ' ' + redirection->to.host + ':' +
                            std::to_string(redirection->to.port);
  const std::optional<Redirection> same = redirection_of(again, kAsked);
  check(same && same->slot == redirection->slot && same->to == redirection->to, "what was read, told again");
}

void read_cluster(std::string_view input) {
  const std::optional<Reply> reply = first_reply(input);
  if (!reply) return;
  if (reply->is_error()) return check_redirection(reply->as_text());
  const std::optional<SlotMap> map = SlotMap::read(*reply, kAsked);
  if (!map) return;
  check_map(*map);
  check_completion(*map);
}

std::vector<std::string> cluster_replies() {
  const HostPort one{"10.0.0.2", 7001};
  const HostPort two{"::1", 7002};
  return {written(array_of(range_of(0, 8000, one), range_of(8001, 16'383, two))),
          written(array_of(range_of(5, 5, HostPort{"", 7003}),
                           array_of(Reply::integer(7), Reply::integer(9), server_of(one), server_of(two)))),
          written(Reply::error("MOVED 3999 127.0.0.1:6381")), written(Reply::error("ASK 16383 ::1:6381")),
          written(Reply::error("MOVED 1 :6381"))};
}

const Registration kCluster("cluster", {read_cluster, cluster_replies});

}  // namespace
}  // namespace overlimit::fuzz
