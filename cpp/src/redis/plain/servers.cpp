#include "redis/plain/servers.hpp"

#include <map>
#include <sstream>

#include "overlimit/fibers.hpp"
#include "overlimit/stopwatch.hpp"
#include "redis/protocol/command.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/transport/tls.hpp"

namespace overlimit::redis {
namespace {

using protocol::Outcome;
using protocol::Reply;
using transport::Deadline;
using transport::Topology;

bool has_tls(const Location& location) {
  if (const auto* endpoint = std::get_if<Endpoint>(&location)) return endpoint->tls.has_value();
  if (const auto* sentinels = std::get_if<SentinelLocation>(&location))
    return sentinels->server.tls.has_value() || sentinels->sentinel.tls.has_value();
  return std::get<ClusterLocation>(location).server.tls.has_value();
}

std::string encoded(const std::vector<std::string>& words) {
  std::string command;
  protocol::append_command(command, std::vector<std::string_view>(words.begin(), words.end()));
  return command;
}

/// The topologies of the stores that are used on one event loop.
class TopologiesOfLoop {
 public:
  /// That of a store, which lives as long as the store does.
  [[nodiscard]] Topology& of(const std::shared_ptr<const Location>& store) {
    for (const auto& [known, topology] : topologies_) {
      if (known.lock() == store) return *topology;
    }
    std::erase_if(topologies_, [](const auto& each) { return each.first.expired(); });
    return *topologies_.emplace_back(store, transport::topology_of(*store)).second;
  }

 private:
  std::vector<std::pair<std::weak_ptr<const Location>, std::shared_ptr<Topology>>> topologies_;
};

}  // namespace

StoreTimeout naming(Duration timeout, const StoreTimeout& error) {
  std::ostringstream what;
  what << error.what() << " (timeout=" << timeout.seconds() << ")";
  return StoreTimeout(what.str(), error.maybe_charged(), error.retry_after());
}

bool is_final(const Reply& reply) {
  const Outcome outcome = protocol::classify(reply).outcome;
  return outcome == Outcome::answered || outcome == Outcome::failed;
}

Servers::Servers(Location location, Duration timeout)
    : location_(std::make_shared<const Location>(std::move(location))), timeout_(timeout), topology_([this] {
        return std::make_unique<std::shared_ptr<Topology>>(transport::topology_of(*location_));
      }) {
  if (has_tls(*location_)) transport::require_tls();
}

Topology& Servers::topology() {
  Fibers* const fibers = Fibers::current();
  return fibers == nullptr ? **topology_ : fibers->own<TopologiesOfLoop>().of(location_);
}

Deadline Servers::deadline() const { return Deadline(std::chrono::microseconds(timeout_.micros())); }

std::optional<Servers::Slot> Servers::slot_of(std::string_view key) {
  if (!topology().has_slots()) return std::nullopt;
  return protocol::key_slot(key);
}

// One whose user may not PING has answered as well.
transport::Link Servers::open_link_of(std::string_view key, const Wait& wait) {
  if (const transport::Link link = link_of(key); link.is_open) return link;
  try {
    (void)topology().call(encoded({"PING"}), slot_of(key), wait);
  } catch (const StoreTimeout& error) {
    throw StoreTimeout(error.what(), false, error.retry_after());
  } catch (const StoreUnavailable& error) {
    throw StoreUnavailable(error.what(), false, error.retry_after());
  } catch (const WaitInterrupted&) {
    throw WaitInterrupted();
  }
  return link_of(key);
}

Reply Servers::run(const ScriptCall& script, const Interrupted& interrupted) {
  Reply reply;
  naming_timeout(timeout_, [&] { reply = run(script, {deadline(), interrupted}); });
  return reply;
}

// A server that was restarted or flushed its scripts did not execute the call: send the text along.
Reply Servers::run(const ScriptCall& script, const Wait& wait) {
  const std::optional<Slot> slot = slot_of(script.keys.front());
  const auto call = [&](const std::string& command) { return topology().call(command, slot, wait); };
  Reply reply = call(script.evalsha());
  if (protocol::classify(reply).outcome == Outcome::no_script) reply = call(script.eval());
  return checked(std::move(reply));
}

void Servers::send(const std::string& command, std::string_view key, const Wait& wait) {
  topology().send(command, slot_of(key), wait);
}

Reply Servers::checked(Reply reply) const {
  if (!reply.is_error()) {
    answers_.fetch_add(1, std::memory_order_relaxed);
    return reply;
  }
  const std::string who = std::visit([](const auto& each) { return describe(each); }, *location_);
  protocol::raise_error_reply(reply.as_text(), who);
}

void Servers::reset(const std::vector<std::string>& keys, const Interrupted& interrupted) {
  naming_timeout(timeout_, [&] { remove("DEL", keys, {deadline(), interrupted}); });
}

void Servers::for_each_page(std::span<const std::string> patterns, const Action& action,
                            const Interrupted& interrupted) {
  const auto scan_server = [&](const Topology::Server& server) {
    for (const std::string& pattern : patterns) scan(server, pattern, action, interrupted);
  };
  naming_timeout(timeout_, [&] { topology().for_each_server(scan_server, {deadline(), interrupted}); });
}

void Servers::unlink(const std::vector<std::string>& keys, const Interrupted& interrupted) {
  remove("UNLINK", keys, {deadline(), interrupted});
}

Duration Servers::ping(const std::string& key, const Wait& wait) {
  const Duration slowest = topology().has_slots() ? ping_each_server(wait) : Duration{};
  return std::max(slowest, write_nothing(key, wait));
}

// Keys in several slots are removed by one command each.
void Servers::remove(std::string_view command, const std::vector<std::string>& keys, const Wait& wait) {
  std::map<std::optional<Slot>, std::vector<std::string>> commands;
  for (const std::string& key : keys) {
    std::vector<std::string>& words = commands[slot_of(key)];
    if (words.empty()) words.emplace_back(command);
    words.push_back(key);
  }
  for (const auto& [where, words] : commands) {
    (void)checked(topology().call(encoded(words), where, wait));
  }
}

void Servers::scan(const Topology::Server& server, const std::string& pattern, const Action& action,
                   const Interrupted& interrupted) {
  std::string cursor = "0";
  do {
    const std::string command = encoded({"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"});
    const Reply page = checked(server(command, {deadline(), interrupted}));
    if (!page.is_array() || page.as_array().size() != 2 || !page.as_array()[1].is_array()) {
      throw ScriptError(
          "the reply is not one that SCAN can give; check what stands between this process and the server",
          true);
    }
    std::vector<std::string> keys;
    for (const Reply& key : page.as_array()[1].as_array()) keys.emplace_back(key.as_text());
    if (!keys.empty()) action(keys);
    cursor = page.as_array()[0].as_text();
  } while (cursor != "0");
}

// XX finds no key, so nothing is written.
Duration Servers::write_nothing(const std::string& key, const Wait& wait) {
  const std::string command = encoded({"SET", key, "", "XX", "PX", "1"});
  const Stopwatch stopwatch;
  (void)checked(topology().call(command, slot_of(key), wait));
  return stopwatch.elapsed();
}

// The slowest of all servers. One whose user may not PING has answered as well.
Duration Servers::ping_each_server(const Wait& wait) {
  Duration slowest{};
  const auto ping = [&](const Topology::Server& server) {
    const Stopwatch stopwatch;
    Reply reply = server(encoded({"PING"}), wait);
    if (protocol::classify(reply).is_unavailable()) (void)checked(std::move(reply));
    slowest = std::max(slowest, stopwatch.elapsed());
  };
  topology().for_each_server(ping, wait);
  return slowest;
}

}  // namespace overlimit::redis
