// Peers for the transport's tests: a real redis-server, and a proxy that treats its replies badly.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "asking.hpp"
#include "overlimit/errors.hpp"
#include "redis/transport/socket.hpp"

extern char** environ;  // NOLINT: named by POSIX

namespace overlimit::redis::transport {

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// A listening socket on a free port; nothing is accepted.
class Listener {
 public:
  explicit Listener(int backlog = 64) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (::bind(socket_.fd(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(socket_.fd(), backlog) != 0 ||
        ::getsockname(socket_.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw std::runtime_error("no listener");
    }
    port_ = ntohs(address.sin_port);
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] int fd() const { return socket_.fd(); }

 private:
  Socket socket_;
  std::uint16_t port_ = 0;
};

/// A port that nobody listens on. Those that the kernel hands out to clients begin above, so that none of
/// them takes it before the server does; each process begins elsewhere, and no port comes again soon.
inline std::uint16_t free_port() {
  constexpr unsigned kFirst = 30'000;
  constexpr unsigned kPorts = 2'700;
  static std::atomic<unsigned> next{std::random_device{}()};
  for (;;) {
    const sockaddr_in address = loopback(static_cast<std::uint16_t>(kFirst + next++ % kPorts));
    const Socket probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(probe.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      return ntohs(address.sin_port);
    }
  }
}

/// The program, REDIS_SERVER of the environment or the one of the path.
inline std::string redis_server() {
  const char* const named = std::getenv("REDIS_SERVER");
  return named == nullptr ? "redis-server" : named;
}

/// A redis-server of its own, on a unix socket and a port, stopped by its pid.
class Server {
 public:
  explicit Server(std::vector<std::string> options = {}) : port_(free_port()) {
    std::string pattern = (std::filesystem::temp_directory_path() / "overlimit-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no directory");
    directory_ = pattern;
    std::vector<std::string> words{redis_server(), "--port",    std::to_string(port_),
                                   "--bind",       "127.0.0.1", "--unixsocket",
                                   socket_path(),  "--dir",     directory_,
                                   "--save",       "",          "--daemonize",
                                   "no",           "--logfile", directory_ + "/log"};
    words.insert(words.end(), options.begin(), options.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (::posix_spawnp(&pid_, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) {
      throw std::runtime_error("no " + redis_server());
    }
    wait_until_it_answers();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    std::filesystem::remove_all(directory_);
  }

  [[nodiscard]] Endpoint tcp() const {
    Endpoint endpoint;
    endpoint.host = "127.0.0.1";
    endpoint.port = port_;
    return endpoint;
  }
  [[nodiscard]] Endpoint unix_socket() const {
    Endpoint endpoint;
    endpoint.unix_path = socket_path();
    return endpoint;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  [[nodiscard]] std::string socket_path() const { return directory_ + "/socket"; }

  void wait_until_it_answers() const {
    Connections connections(unix_socket());
    const bool answers = eventually([&] {
      try {
        (void)call(connections, {"PING"});
        return true;
      } catch (const StoreConfigError&) {
        return true;  // it wants a password
      } catch (const StoreUnavailable&) {
        return false;
      }
    });
    if (!answers) throw std::runtime_error("redis-server does not answer");
  }

  std::uint16_t port_;
  std::string directory_;
  pid_t pid_ = -1;
};

/// Stands between a client and a server and treats the replies as it is told to.
class Proxy {
 public:
  enum class Replies : std::uint8_t {
    pass,
    hold,      ///< nothing comes back, as from a black hole; passed on once the mode changes
    drip,      ///< one byte at a time
    cut,       ///< the connection is closed as soon as there is a reply
    cut_once,  ///< that of the first reply; all others pass
  };

  explicit Proxy(std::uint16_t upstream)
      : upstream_(upstream), stop_(::eventfd(0, EFD_CLOEXEC)), thread_([this] { run(); }) {}
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;
  ~Proxy() {
    ::eventfd_write(stop_.fd(), 1);
    thread_.join();
  }

  [[nodiscard]] Endpoint endpoint() const {
    Endpoint endpoint;
    endpoint.host = "127.0.0.1";
    endpoint.port = listener_.port();
    return endpoint;
  }
  void set(Replies mode) { mode_.store(mode); }
  [[nodiscard]] int accepted() const { return accepted_.load(); }

 private:
  struct Link {
    Socket client;
    Socket server;
    std::string replies;  // on their way back
  };

  void run() {
    for (;;) {
      std::vector<pollfd> polled{{stop_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
      for (const Link& link : links_) {
        polled.push_back({link.client.fd(), POLLIN, 0});
        polled.push_back({link.server.fd(), POLLIN, 0});
      }
      ::poll(polled.data(), polled.size(), 1);
      if (polled[0].revents != 0) return;
      std::erase_if(links_, [this](Link& link) { return !forward(link); });
      if (polled[1].revents != 0) accept_one();
    }
  }

  void accept_one() {
    Link link{Socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC)),
              Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
              {}};
    const sockaddr_in address = loopback(upstream_);
    ::connect(link.server.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    links_.push_back(std::move(link));
    accepted_.fetch_add(1);
  }

  bool forward(Link& link) {
    char buffer[4096];
    const Transfer request = link.client.receive(buffer, sizeof buffer);
    if (request.end || request.error) return false;
    if (request.count > 0) (void)link.server.send({buffer, request.count});
    const Transfer reply = link.server.receive(buffer, sizeof buffer);
    link.replies.append(buffer, reply.count);
    return (!reply.end && !reply.error) ? send_back(link) : false;
  }

  bool send_back(Link& link) {
    const Replies mode = mode_.load();
    if (mode == Replies::hold || link.replies.empty()) return true;
    if (mode == Replies::cut_once) mode_.store(Replies::pass);
    if (mode == Replies::cut || mode == Replies::cut_once) return false;
    const std::size_t count = mode == Replies::drip ? 1 : link.replies.size();
    link.replies.erase(0, link.client.send(std::string_view(link.replies).substr(0, count)).count);
    return true;
  }

  const std::uint16_t upstream_;
  const Listener listener_;
  const Socket stop_;
  std::atomic<Replies> mode_{Replies::pass};
  std::atomic<int> accepted_{0};
  std::vector<Link> links_;  // of thread_
  std::thread thread_;
};

}  // namespace overlimit::redis::transport
