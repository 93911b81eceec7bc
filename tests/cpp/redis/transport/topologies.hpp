// Clusters and sentinels of a test's own, and asking through a topology in the words of a test.
#pragma once

#include <fstream>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../servers.hpp"
#include "redis/protocol/cluster_slots.hpp"
#include "redis/transport/topology.hpp"

namespace overlimit::redis::transport {

/// The first argument of the command is its key.
inline Reply call(Topology& topology, std::initializer_list<std::string_view> command,
                  std::chrono::microseconds timeout = kAmple) {
  std::string request;
  protocol::append_command(request, command);
  return topology.call(request, protocol::key_slot(command.begin()[1]), {Deadline(timeout)});
}

inline std::int64_t integer(Topology& topology, std::initializer_list<std::string_view> command) {
  const Reply reply = call(topology, command);
  if (!reply.is_integer()) throw std::runtime_error("no integer: " + std::string(reply.as_text()));
  return reply.as_integer();
}

/// Runs `body` in so many threads.
inline void in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

/// Masters with the slots shared evenly among them.
class ClusterServers {
 public:
  explicit ClusterServers(int masters) {
    for (int i = 0; i < masters; ++i) start();
    share_slots();
    introduce();
    const auto forms = [this] { return eventually([this] { return is_ready(); }); };
    if (!forms() && !forms() && !forms()) throw std::runtime_error("the cluster does not form");
  }

  [[nodiscard]] std::size_t size() const { return servers_.size(); }

  [[nodiscard]] ClusterLocation location() const {
    ClusterLocation location;
    for (const auto& each : servers_) location.seeds.push_back({each->tcp().host, each->tcp().port});
    return location;
  }

  /// Gives an empty slot to another master.
  void move(protocol::Slot slot, std::size_t to) {
    for (const auto& admin : admins_) {
      (void)call(*admin, {"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", ids_[to]});
    }
  }

 private:
  /// The nodes' own port would be beyond the last one for half of the free ports.
  void start() {
    bus_ports_.push_back(std::to_string(free_port()));
    servers_.push_back(std::make_unique<Server>(
        std::vector<std::string>{"--cluster-enabled", "yes", "--cluster-port", bus_ports_.back(),
                                 "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no"}));
    admins_.push_back(std::make_unique<Connections>(servers_.back()->unix_socket()));
    ids_.push_back(text(*admins_.back(), {"CLUSTER", "MYID"}));
  }

  void share_slots() {
    for (std::size_t i = 0; i < size(); ++i) {
      const std::size_t first = (protocol::kSlots * i + size() - 1) / size();
      const std::size_t end = (protocol::kSlots * (i + 1) + size() - 1) / size();
      (void)call(*admins_[i], {"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
      (void)call(*admins_[i], {"CLUSTER", "ADDSLOTSRANGE", std::to_string(first), std::to_string(end - 1)});
    }
  }

  /// All to each other, as gossip takes its time.
  void introduce() {
    for (std::size_t from = 0; from < size(); ++from) {
      for (std::size_t i = 0; i < size(); ++i) {
        if (i == from) continue;
        const std::string port = std::to_string(servers_[i]->tcp().port);
        (void)call(*admins_[from], {"CLUSTER", "MEET", "127.0.0.1", port, bus_ports_[i]});
      }
    }
  }

  [[nodiscard]] bool is_ready() {
    for (const auto& admin : admins_) {
      if (call(*admin, {"CLUSTER", "SLOTS"}).as_array().size() != size()) return false;
      if (text(*admin, {"CLUSTER", "INFO"}).find("cluster_state:ok") == std::string::npos) return false;
    }
    return true;
  }

  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<Connections>> admins_;
  std::vector<std::string> bus_ports_;
  std::vector<std::string> ids_;
};

/// A sentinel of its own that watches one master, stopped by its pid.
class SentinelServer {
 public:
  explicit SentinelServer(std::uint16_t master_port) {
    std::string pattern = (std::filesystem::temp_directory_path() / "overlimit-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no directory");
    directory_ = pattern;
    std::string path = directory_ + "/sentinel.conf";
    std::ofstream(path) << "port " << port_ << "\nbind 127.0.0.1\ndir " << directory_ << "\nlogfile "
                        << directory_ << "/log\nsentinel monitor watched 127.0.0.1 " << master_port
                        << " 1\nsentinel down-after-milliseconds watched 2000\n";
    std::string program = redis_server();
    std::string option = "--sentinel";
    char* const arguments[] = {program.data(), path.data(), option.data(), nullptr};
    if (::posix_spawnp(&pid_, arguments[0], nullptr, nullptr, arguments, environ) != 0) {
      throw std::runtime_error("no " + program);
    }
  }
  SentinelServer(const SentinelServer&) = delete;
  SentinelServer& operator=(const SentinelServer&) = delete;
  ~SentinelServer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    std::filesystem::remove_all(directory_);
  }

  [[nodiscard]] HostPort address() const { return {"127.0.0.1", port_}; }

 private:
  const std::uint16_t port_ = free_port();
  std::string directory_;
  pid_t pid_ = -1;
};

/// A master, a replica and a sentinel.
class WatchedServers {
 public:
  WatchedServers() {
    (void)call(replica_admin_, {"REPLICAOF", "127.0.0.1", std::to_string(master_.tcp().port)});
    if (!eventually([this] { return is_ready(); })) throw std::runtime_error("the sentinel does not watch");
  }

  [[nodiscard]] SentinelLocation location() const { return {{sentinel_.address()}, "watched", {}}; }
  [[nodiscard]] Connections& replica() { return replica_admin_; }

  /// Releases when the sentinel has announced it.
  void fail_over() {
    const bool done = eventually([this] {
      if (field("flags").find("failover") != std::string::npos) return false;
      if (field("port") == std::to_string(replica_.tcp().port)) return true;
      // Once, and again if a busy machine made the sentinel give up.
      (void)call(sentinel_admin_, {"SENTINEL", "FAILOVER", "watched"});
      return false;
    });
    if (!done) throw std::runtime_error("the sentinel does not fail over");
  }

 private:
  [[nodiscard]] bool is_ready() {
    try {
      (void)call(sentinel_admin_, {"SENTINEL", "DEBUG", "info-period", "100", "ping-period", "100"});
      const std::string replication = text(replica_admin_, {"INFO", "replication"});
      return field("num-slaves") == "1" && replication.find("link_status:up") != std::string::npos;
    } catch (const StoreUnavailable&) {
      return false;
    }
  }

  std::string field(std::string_view name) {
    const Reply reply = call(sentinel_admin_, {"SENTINEL", "MASTER", "watched"});
    const std::span<const Reply> pairs = reply.as_array();
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      if (pairs[i].as_text() == name) return std::string(pairs[i + 1].as_text());
    }
    return {};
  }

  Server master_{{"--repl-diskless-sync-delay", "0"}};
  Server replica_{{"--repl-diskless-sync-delay", "0"}};
  SentinelServer sentinel_{master_.tcp().port};
  Connections replica_admin_{replica_.unix_socket()};
  Connections sentinel_admin_{endpoint_at(sentinel_.address(), Endpoint())};
};

}  // namespace overlimit::redis::transport
