// Connections against a real redis-server, directly and through a proxy that misbehaves on command.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "overlimit/errors.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/protocol/request.hpp"
#include "redis/transport/connections.hpp"
#include "redis/transport/socket.hpp"

extern char** environ;  // NOLINT: named by POSIX

namespace overlimit::redis::transport {
namespace {

using namespace std::chrono_literals;
using protocol::Failure;
using protocol::Reply;

constexpr auto kAmple = 5s;
/// How much later than its deadline a call may come back on a busy machine.
constexpr auto kGrace = 1s;

Reply call(Connections& connections, std::initializer_list<std::string_view> command,
           std::chrono::microseconds timeout = kAmple, const Interrupted& interrupted = {}) {
  std::string request;
  protocol::append_request(request, command);
  return connections.call(request, Deadline(timeout), interrupted);
}

std::string text(Connections& connections, std::initializer_list<std::string_view> command) {
  return std::string(call(connections, command).as_text());
}

std::int64_t integer(Connections& connections, std::initializer_list<std::string_view> command) {
  return call(connections, command).as_integer();
}

template <typename Error>
std::optional<Error> error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& other) {
    ADD_FAILURE() << "an error of another type: " << other.what();
    return std::nullopt;
  }
  ADD_FAILURE() << "no error";
  return std::nullopt;
}

bool eventually(const std::function<bool()>& condition) {
  const Deadline deadline(kAmple);
  while (!deadline.passed()) {
    if (condition()) return true;
    std::this_thread::sleep_for(2ms);
  }
  return false;
}

sockaddr_in loopback(std::uint16_t port) {
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

std::uint16_t free_port() { return Listener().port(); }

/// A redis-server of its own, on a unix socket and a port, stopped by its pid.
class Server {
 public:
  explicit Server(std::vector<std::string> options = {}) : port_(free_port()) {
    std::string pattern = (std::filesystem::temp_directory_path() / "overlimit-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no directory");
    directory_ = pattern;
    std::vector<std::string> words{"redis-server",
                                   "--port",
                                   std::to_string(port_),
                                   "--bind",
                                   "127.0.0.1",
                                   "--unixsocket",
                                   socket_path(),
                                   "--dir",
                                   directory_,
                                   "--save",
                                   "",
                                   "--daemonize",
                                   "no",
                                   "--logfile",
                                   directory_ + "/log",
                                   "--enable-debug-command",
                                   "yes"};
    words.insert(words.end(), options.begin(), options.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (::posix_spawnp(&pid_, "redis-server", nullptr, nullptr, arguments.data(), environ) != 0) {
      throw std::runtime_error("no redis-server");
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
    hold,  ///< nothing comes back, as from a black hole; passed on once the mode changes
    drip,  ///< one byte at a time
    cut,   ///< the connection is closed as soon as there is a reply
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
    const Socket::Transfer request = link.client.receive(buffer, sizeof buffer);
    if (request.end || request.error != 0) return false;
    if (request.count > 0) (void)link.server.send({buffer, request.count});
    const Socket::Transfer reply = link.server.receive(buffer, sizeof buffer);
    link.replies.append(buffer, reply.count);
    return (!reply.end && reply.error == 0) ? send_back(link) : false;
  }

  bool send_back(Link& link) {
    const Replies mode = mode_.load();
    if (mode == Replies::hold || link.replies.empty()) return true;
    if (mode == Replies::cut) return false;
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

class ConnectionsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<Server>(); }
  static void TearDownTestSuite() { server_.reset(); }

  [[nodiscard]] std::int64_t clients() {
    const std::string info = text(admin_, {"INFO", "clients"});
    constexpr std::string_view kField = "connected_clients:";
    return std::atoll(info.c_str() + info.find(kField) + kField.size());
  }

  static std::unique_ptr<Server> server_;  // NOLINT: of the suite
  Connections admin_{server_->unix_socket()};
};

std::unique_ptr<Server> ConnectionsTest::server_;

TEST_F(ConnectionsTest, AnswersOverEveryKindOfAddress) {
  Endpoint localhost = server_->tcp();
  localhost.host = "localhost";
  Endpoint by_name = server_->tcp();
  by_name.host = "LOCALHOST";  // resolved in a thread, as any name but localhost
  for (const Endpoint& endpoint : {server_->tcp(), server_->unix_socket(), localhost, by_name}) {
    Connections connections(endpoint);
    EXPECT_EQ(text(connections, {"ECHO", std::string_view("a\0b", 3)}), std::string("a\0b", 3))
        << endpoint.describe();
  }
}

TEST_F(ConnectionsTest, ConnectsToNothingBeforeTheFirstCall) {
  const std::int64_t before = clients();
  Connections connections(server_->tcp());
  EXPECT_EQ(clients(), before);
  (void)call(connections, {"PING"});
  EXPECT_EQ(clients(), before + 1);
}

TEST_F(ConnectionsTest, UsesOneConnectionForAllCallsOfAThread) {
  Connections connections(server_->tcp());
  const std::int64_t id = integer(connections, {"CLIENT", "ID"});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(integer(connections, {"CLIENT", "ID"}), id);
}

TEST_F(ConnectionsTest, MovesMegabytesBothWays) {
  Connections connections(server_->tcp());
  const std::string big(std::size_t{8} << 20U, 'x');
  EXPECT_EQ(text(connections, {"ECHO", big}), big);
}

TEST_F(ConnectionsTest, BringsEachThreadItsOwnRepliesAndClosesWithTheThread) {
  constexpr int kThreads = 8;
  const std::int64_t before = clients();
  Connections connections(server_->tcp());
  std::latch connected(kThreads);
  std::latch counted(1);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 200; ++i) {
        const std::string word = std::to_string(thread) + ":" + std::to_string(i);
        if (text(connections, {"ECHO", word}) != word) ++wrong;
      }
      connected.count_down();
      counted.wait();
    });
  }
  connected.wait();
  EXPECT_EQ(clients(), before + kThreads);
  counted.count_down();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_TRUE(eventually([&] { return clients() == before; }));
}

TEST_F(ConnectionsTest, MayBeDestroyedWhileItsThreadsLive) {
  const std::int64_t before = clients();
  auto connections = std::make_unique<Connections>(server_->tcp());
  std::latch called(1);
  std::latch destroyed(1);
  std::thread thread([&] {
    (void)call(*connections, {"PING"});
    called.count_down();
    destroyed.wait();
    Connections another(server_->tcp());
    (void)call(another, {"PING"});
  });
  called.wait();
  EXPECT_EQ(clients(), before + 1);
  connections.reset();
  EXPECT_TRUE(eventually([&] { return clients() == before; }));
  destroyed.count_down();
  thread.join();
}

TEST_F(ConnectionsTest, ClosesTheConnectionsOfAllThreadsAndOpensThemAgain) {
  const std::int64_t before = clients();
  Connections connections(server_->tcp());
  std::latch called(1);
  std::latch closed(1);
  std::thread thread([&] {
    (void)call(connections, {"PING"});
    called.count_down();
    closed.wait();
    EXPECT_EQ(text(connections, {"PING"}), "PONG");
  });
  (void)call(connections, {"PING"});
  called.wait();
  EXPECT_EQ(clients(), before + 2);
  connections.close();
  EXPECT_TRUE(eventually([&] { return clients() == before; }));
  closed.count_down();
  thread.join();
  EXPECT_EQ(text(connections, {"PING"}), "PONG");
}

TEST_F(ConnectionsTest, LetsACallFinishBeforeClosingUnderIt) {
  Connections connections(server_->tcp());
  std::atomic<std::int64_t> id{0};
  std::thread thread([&] {
    id.store(integer(connections, {"CLIENT", "ID"}));
    EXPECT_EQ(call(connections, {"BLPOP", "close:list", "0"}).as_array()[1].as_text(), "late");
    EXPECT_NE(integer(connections, {"CLIENT", "ID"}), id.load());
  });
  EXPECT_TRUE(eventually([&] {
    return text(admin_, {"CLIENT", "LIST"}).find("cmd=blpop") != std::string::npos;
  }));
  connections.close();
  (void)call(admin_, {"RPUSH", "close:list", "late"});
  thread.join();
}

TEST_F(ConnectionsTest, ReplacesAnIdleConnectionThatTheServerClosed) {
  for (const Endpoint& endpoint : {server_->tcp(), server_->unix_socket()}) {
    Connections connections(endpoint);
    const std::string id = std::to_string(integer(connections, {"CLIENT", "ID"}));
    EXPECT_EQ(integer(admin_, {"CLIENT", "KILL", "ID", id}), 1);
    EXPECT_NE(std::to_string(integer(connections, {"CLIENT", "ID"})), id);
  }
}

TEST_F(ConnectionsTest, FailsAtOnceWhenNobodyListens) {
  Endpoint nobody = server_->tcp();
  nobody.port = free_port();
  Connections connections(nobody);
  const Deadline ample(kAmple);
  const auto error = error_of<StoreUnavailable>([&] { (void)call(connections, {"PING"}); });
  ASSERT_TRUE(error.has_value());
  EXPECT_FALSE(error->maybe_charged());
  EXPECT_NE(std::string(error->what()).find(nobody.describe()), std::string::npos);
  EXPECT_FALSE(ample.passed());
}

TEST_F(ConnectionsTest, TellsAMissingSocketFromAPathThatCannotBeOne) {
  Endpoint endpoint;
  endpoint.unix_path = "/nonexistent/redis.sock";
  Connections missing(endpoint);
  error_of<StoreUnavailable>([&] { (void)call(missing, {"PING"}); });
  endpoint.unix_path = std::string(200, 'x');
  Connections too_long(endpoint);
  error_of<StoreConfigError>([&] { (void)call(too_long, {"PING"}); });
}

TEST_F(ConnectionsTest, FailsForAnUnknownHostWithinTheDeadline) {
  Endpoint unknown;
  unknown.host = "no-such-host.invalid";
  Connections connections(unknown);
  const auto start = Deadline::Clock::now();
  const auto error = error_of<StoreError>([&] { (void)call(connections, {"PING"}, 200ms); });
  EXPECT_LT(Deadline::Clock::now() - start, 200ms + kGrace);
  ASSERT_TRUE(error.has_value());
  EXPECT_FALSE(error->maybe_charged());
}

TEST_F(ConnectionsTest, TimesOutConnectingWithNothingCharged) {
  const Listener full(0);
  Endpoint endpoint = server_->tcp();
  endpoint.port = full.port();
  const Socket filler(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(full.port());
  ASSERT_EQ(::connect(filler.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  Connections connections(endpoint);
  const auto start = Deadline::Clock::now();
  const auto error = error_of<StoreTimeout>([&] { (void)call(connections, {"PING"}, 150ms); });
  const auto elapsed = Deadline::Clock::now() - start;
  EXPECT_GE(elapsed, 150ms);
  EXPECT_LT(elapsed, 150ms + kGrace);
  ASSERT_TRUE(error.has_value());
  EXPECT_FALSE(error->maybe_charged());
}

TEST_F(ConnectionsTest, SendsNothingAfterTheDeadline) {
  Connections connections(server_->tcp());
  const auto error = error_of<StoreTimeout>([&] {
    (void)call(connections, {"SET", "past:deadline", "1"}, 0us);
  });
  ASSERT_TRUE(error.has_value());
  EXPECT_FALSE(error->maybe_charged());
  EXPECT_EQ(integer(admin_, {"EXISTS", "past:deadline"}), 0);
}

TEST_F(ConnectionsTest, TimesOutInABlackHoleSayingItMayBeCharged) {
  Proxy proxy(server_->tcp().port);
  proxy.set(Proxy::Replies::hold);
  Connections connections(proxy.endpoint());
  const auto start = Deadline::Clock::now();
  const auto error = error_of<StoreTimeout>([&] { (void)call(connections, {"PING"}, 100ms); });
  const auto elapsed = Deadline::Clock::now() - start;
  EXPECT_GE(elapsed, 100ms);
  EXPECT_LT(elapsed, 100ms + kGrace);
  ASSERT_TRUE(error.has_value());
  EXPECT_TRUE(error->maybe_charged());
}

TEST_F(ConnectionsTest, NeverGivesALateReplyToTheNextCall) {
  Proxy proxy(server_->tcp().port);
  Connections connections(proxy.endpoint());
  for (int round = 0; round < 5; ++round) {
    const std::string late = "late " + std::to_string(round);
    proxy.set(Proxy::Replies::hold);
    error_of<StoreTimeout>([&] { (void)call(connections, {"ECHO", late}, 20ms); });
    proxy.set(Proxy::Replies::pass);
    EXPECT_EQ(text(connections, {"ECHO", "in time"}), "in time");
  }
  EXPECT_EQ(proxy.accepted(), 1);
}

TEST_F(ConnectionsTest, ReadsRepliesThatComeByteByByte) {
  Proxy proxy(server_->tcp().port);
  proxy.set(Proxy::Replies::drip);
  Connections connections(proxy.endpoint());
  EXPECT_EQ(text(connections, {"ECHO", "drop by drop"}), "drop by drop");
}

TEST_F(ConnectionsTest, NeverRepeatsARequestWhoseReplyWasLost) {
  Proxy proxy(server_->tcp().port);
  proxy.set(Proxy::Replies::cut);
  Connections connections(proxy.endpoint());
  (void)call(admin_, {"SET", "cut:counter", "0"});
  for (int i = 0; i < 3; ++i) {
    const auto error = error_of<StoreUnavailable>([&] { (void)call(connections, {"INCR", "cut:counter"}); });
    ASSERT_TRUE(error.has_value());
    EXPECT_TRUE(error->maybe_charged());
  }
  EXPECT_EQ(text(admin_, {"GET", "cut:counter"}), "3");
  proxy.set(Proxy::Replies::pass);
  EXPECT_EQ(integer(connections, {"INCR", "cut:counter"}), 4);
}

TEST_F(ConnectionsTest, LeavesASilentConnectionAfterOneSecondAndNotBefore) {
  Proxy proxy(server_->tcp().port);
  proxy.set(Proxy::Replies::hold);
  Connections connections(proxy.endpoint());
  const auto start = Deadline::Clock::now();
  while (proxy.accepted() < 2 && Deadline::Clock::now() - start < kAmple) {
    error_of<StoreTimeout>([&] { (void)call(connections, {"PING"}, 50ms); });
  }
  const auto elapsed = Deadline::Clock::now() - start;
  EXPECT_EQ(proxy.accepted(), 2);
  EXPECT_GE(elapsed, 1s);
  EXPECT_LT(elapsed, 1s + kGrace);
}

TEST_F(ConnectionsTest, LeavesAConnectionWithTooManyLateReplies) {
  Proxy proxy(server_->tcp().port);
  Connections connections(proxy.endpoint());
  (void)call(connections, {"PING"});
  proxy.set(Proxy::Replies::hold);
  for (int i = 0; i < 65; ++i) error_of<StoreTimeout>([&] { (void)call(connections, {"PING"}, 1ms); });
  EXPECT_EQ(proxy.accepted(), 1);
  proxy.set(Proxy::Replies::hold);
  error_of<StoreTimeout>([&] { (void)call(connections, {"PING"}, 100ms); });
  EXPECT_EQ(proxy.accepted(), 2);
}

TEST_F(ConnectionsTest, GivesUpARequestItCouldNotSendInFull) {
  const Listener never_reading;
  Endpoint endpoint = server_->tcp();
  endpoint.port = never_reading.port();
  Connections connections(endpoint);
  const std::string big(std::size_t{64} << 20U, 'x');
  const auto error = error_of<StoreTimeout>([&] { (void)call(connections, {"ECHO", big}, 300ms); });
  ASSERT_TRUE(error.has_value());
  EXPECT_TRUE(error->maybe_charged());
}

TEST_F(ConnectionsTest, CountsEveryCallOnceUnderFaults) {
  Proxy proxy(server_->tcp().port);
  Connections connections(proxy.endpoint());
  (void)call(admin_, {"SET", "faults:counter", "0"});
  int acknowledged = 0;
  int unknown = 0;
  constexpr Proxy::Replies kModes[] = {Proxy::Replies::pass, Proxy::Replies::hold, Proxy::Replies::drip,
                                       Proxy::Replies::cut};
  for (int i = 0; i < 200; ++i) {
    proxy.set(kModes[(i / 3) % 4]);
    try {
      (void)call(connections, {"INCR", "faults:counter"}, 20ms);
      ++acknowledged;
    } catch (const StoreError& error) {
      if (error.maybe_charged()) ++unknown;
    }
  }
  EXPECT_TRUE(eventually([&] { return std::stoi(text(admin_, {"GET", "faults:counter"})) >= acknowledged; }));
  EXPECT_LE(std::stoi(text(admin_, {"GET", "faults:counter"})), acknowledged + unknown);
  EXPECT_GT(acknowledged, 40);
  EXPECT_GT(unknown, 40);
}

// Interrupted waits

extern "C" void ignore_signal(int /*number*/) {}

/// Sends signals to the thread that made it until it is destroyed.
class Signals {
 public:
  Signals() : target_(::pthread_self()) {
    struct sigaction action {};
    action.sa_handler = ignore_signal;
    ::sigaction(SIGUSR1, &action, nullptr);
    thread_ = std::thread([this] {
      while (!stop_.load()) {
        ::pthread_kill(target_, SIGUSR1);
        std::this_thread::sleep_for(5ms);
      }
    });
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() {
    stop_.store(true);
    thread_.join();
  }

 private:
  pthread_t target_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_F(ConnectionsTest, AnInterruptionEndsTheWaitAndLeavesTheConnectionUsable) {
  Connections connections(server_->tcp());
  const std::int64_t id = integer(connections, {"CLIENT", "ID"});
  {
    const Signals signals;
    const Deadline ample(kAmple);
    EXPECT_THROW((void)call(connections, {"BLPOP", "nothing:here", "0.3"}, kAmple, [] { return true; }),
                 WaitInterrupted);
    EXPECT_FALSE(ample.passed());
  }
  EXPECT_EQ(text(connections, {"ECHO", "mine"}), "mine");
  EXPECT_EQ(integer(connections, {"CLIENT", "ID"}), id);
}

TEST_F(ConnectionsTest, AnErrorOfTheInterruptionPassesThrough) {
  Connections connections(server_->tcp());
  {
    const Signals signals;
    EXPECT_THROW((void)call(connections, {"BLPOP", "nothing:here", "0.3"}, kAmple,
                            []() -> bool { throw std::domain_error("mine"); }),
                 std::domain_error);
  }
  EXPECT_EQ(text(connections, {"ECHO", "mine"}), "mine");
}

TEST_F(ConnectionsTest, SignalsThatDoNotInterruptNeitherEndNorExtendTheWait) {
  Connections connections(server_->tcp());
  const Signals signals;
  int asked = 0;
  const Interrupted go_on = [&asked] { return ++asked < 0; };
  EXPECT_TRUE(call(connections, {"BLPOP", "nothing:here", "0.2"}, kAmple, go_on).is_nil());
  EXPECT_GT(asked, 0);
  const auto start = Deadline::Clock::now();
  error_of<StoreTimeout>([&] { (void)call(connections, {"BLPOP", "nothing:here", "2"}, 100ms, go_on); });
  const auto elapsed = Deadline::Clock::now() - start;
  EXPECT_GE(elapsed, 100ms);
  EXPECT_LT(elapsed, 100ms + kGrace);
}

TEST_F(ConnectionsTest, ACallFromWithinAnInterruptionIsAnsweredToo) {
  Connections connections(server_->tcp());
  const Signals signals;
  std::string inner;
  const Interrupted call_inside = [&] {
    inner = text(connections, {"ECHO", "inner"});
    return false;
  };
  EXPECT_TRUE(call(connections, {"BLPOP", "nothing:here", "0.1"}, kAmple, call_inside).is_nil());
  EXPECT_EQ(inner, "inner");
}

// Forks

/// Runs `body` in a child; whether it returned true there.
bool in_child(const std::function<bool()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    bool good = false;
    try {
      good = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "in the child: %s\n", error.what());
    }
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

bool echoes(Connections& connections, const std::string& name, int times) {
  for (int i = 0; i < times; ++i) {
    const std::string word = name + std::to_string(i);
    if (text(connections, {"ECHO", word}) != word) return false;
  }
  return true;
}

TEST_F(ConnectionsTest, AChildUsesConnectionsOfItsOwn) {
  Connections connections(server_->tcp());
  const std::int64_t id = integer(connections, {"CLIENT", "ID"});
  EXPECT_TRUE(in_child([&] { return integer(connections, {"CLIENT", "ID"}) != id; }));
  EXPECT_EQ(integer(connections, {"CLIENT", "ID"}), id);
}

TEST_F(ConnectionsTest, ParentAndChildAreBothRightAfterAFork) {
  Connections connections(server_->tcp());
  (void)call(connections, {"PING"});
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(echoes(connections, "child", 500) ? 0 : 1);
  EXPECT_TRUE(echoes(connections, "parent", 500));
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(ConnectionsTest, DescriptorsDoNotGrowWithForksOfForks) {
  Connections connections(server_->tcp());
  (void)call(connections, {"PING"});
  const auto before = open_descriptors();
  const auto grandchild = [&] {
    return echoes(connections, "grandchild", 3) && open_descriptors() == before;
  };
  EXPECT_TRUE(in_child([&] {
    return echoes(connections, "child", 3) && open_descriptors() == before && in_child(grandchild);
  }));
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(ConnectionsTest, AChildLeavesAloneWhatTookTheNumberOfAnInheritedDescriptor) {
  const auto highest = open_descriptors() + 64;
  Connections connections(server_->tcp());
  (void)call(connections, {"PING"});
  EXPECT_TRUE(in_child([&] {
    std::vector<int> files;
    for (int fd = 3; fd < highest; ++fd) {
      if (::dup2(STDERR_FILENO, fd) == fd) files.push_back(fd);
    }
    connections.close();
    return std::ranges::all_of(files, [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; });
  }));
}

TEST_F(ConnectionsTest, AForkUnderOtherThreadsCallsDisturbsNobody) {
  Connections connections(server_->tcp());
  std::atomic<bool> stop{false};
  std::atomic<bool> right{true};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      while (!stop.load()) {
        if (!echoes(connections, "thread" + std::to_string(thread) + " ", 20)) right.store(false);
      }
    });
  }
  std::thread closer([&] {
    while (!stop.load()) connections.close();
  });
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(in_child([&] { return echoes(connections, "child", 10); }));
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  closer.join();
  EXPECT_TRUE(right.load());
}

/// What became of a call that forks at its first interruption; `pid` as fork() returned it.
struct ForkedCall {
  pid_t pid = -1;
  bool answered = false;
  bool maybe_charged = false;
};

ForkedCall call_that_forks(Connections& connections) {
  ForkedCall result;
  const Signals signals;
  const Interrupted fork_once = [&result] {
    if (result.pid == -1) result.pid = ::fork();
    return false;
  };
  try {
    result.answered = call(connections, {"BLPOP", "nothing:here", "0.2"}, kAmple, fork_once).is_nil();
  } catch (const StoreUnavailable& error) {
    result.maybe_charged = error.maybe_charged();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the call that forks: %s\n", error.what());
  }
  // The child has none of the parent's threads, so it ends before `signals` would join its one.
  if (result.pid == 0) ::_exit(result.maybe_charged && echoes(connections, "child", 10) ? 0 : 1);
  return result;
}

TEST_F(ConnectionsTest, AForkInTheMiddleOfItsOwnCallFailsInTheChildAlone) {
  Connections connections(server_->tcp());
  for (int i = 0; i < 5; ++i) {
    const ForkedCall result = call_that_forks(connections);
    EXPECT_TRUE(result.answered);
    EXPECT_TRUE(echoes(connections, "parent", 10));
    int status = -1;
    ::waitpid(result.pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

TEST_F(ConnectionsTest, AChildMayDestroyWhatItNeverUsed) {
  auto connections = std::make_unique<Connections>(server_->tcp());
  (void)call(*connections, {"PING"});
  const auto before = open_descriptors();
  EXPECT_TRUE(in_child([&] {
    connections.reset();
    return open_descriptors() == before - 1;
  }));
  EXPECT_EQ(text(*connections, {"PING"}), "PONG");
}

// What real servers answer

TEST_F(ConnectionsTest, SelectsTheDatabase) {
  Endpoint second = server_->tcp();
  second.database = 2;
  Connections connections(second);
  (void)call(connections, {"SET", "only:in:2", "1"});
  EXPECT_EQ(integer(connections, {"EXISTS", "only:in:2"}), 1);
  EXPECT_EQ(integer(admin_, {"EXISTS", "only:in:2"}), 0);
}

TEST_F(ConnectionsTest, ADatabaseThatIsNotThereIsAConfigError) {
  Endpoint endpoint = server_->tcp();
  endpoint.database = 99;
  Connections connections(endpoint);
  error_of<StoreConfigError>([&] { (void)call(connections, {"PING"}); });
}

TEST_F(ConnectionsTest, APasswordForAServerWithoutOneIsAConfigError) {
  Endpoint endpoint = server_->tcp();
  endpoint.password = "s3cret";
  Connections connections(endpoint);
  const auto error = error_of<StoreConfigError>([&] { (void)call(connections, {"PING"}); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(std::string(error->what()).find("s3cret"), std::string::npos);
}

Failure meaning_of_reply(Connections& connections, std::initializer_list<std::string_view> command) {
  const Reply reply = call(connections, command);
  EXPECT_TRUE(reply.is_error());
  return protocol::meaning_of(reply.as_text()).failure;
}

TEST(RealServer, WantsTheRightCredentials) {
  const Server server(
      {"--requirepass", "s3cret", "--user", "limiter", "on", ">pw", "~ol1:*", "+@all", "-set"});
  Connections without(server.tcp());
  EXPECT_EQ(meaning_of_reply(without, {"PING"}), Failure::config);

  Endpoint endpoint = server.tcp();
  endpoint.password = "wrong";
  Connections wrong(endpoint);
  const auto error = error_of<StoreConfigError>([&] { (void)call(wrong, {"INCR", "ol1:a"}); });
  ASSERT_TRUE(error.has_value());
  EXPECT_FALSE(error->maybe_charged());
  EXPECT_EQ(std::string(error->what()).find("wrong "), std::string::npos);

  endpoint.password = "s3cret";
  Connections right(endpoint);
  EXPECT_EQ(text(right, {"PING"}), "PONG");
  EXPECT_EQ(integer(right, {"EXISTS", "ol1:a"}), 0);

  endpoint.username = "limiter";
  endpoint.password = "pw";
  Connections limited(endpoint);
  EXPECT_EQ(integer(limited, {"INCR", "ol1:a"}), 1);
  EXPECT_EQ(meaning_of_reply(limited, {"INCR", "other:a"}), Failure::config);
  EXPECT_EQ(meaning_of_reply(limited, {"EVAL", "return redis.call('set', KEYS[1], 1)", "1", "ol1:a"}),
            Failure::config);
}

TEST(RealServer, SaysWhyItCannotServe) {
  const Server server;
  Connections connections(server.tcp());
  constexpr std::string_view kWrite = "return redis.call('set', KEYS[1], 1)";
  EXPECT_EQ(meaning_of_reply(connections, {"EVALSHA", std::string(40, '0'), "0"}), Failure::no_script);
  EXPECT_EQ(meaning_of_reply(connections, {"EVAL", "return nothing.here", "0"}), Failure::script);

  (void)call(connections, {"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(meaning_of_reply(connections, {"SET", "a", "1"}), Failure::unavailable);
  EXPECT_EQ(meaning_of_reply(connections, {"EVAL", kWrite, "1", "a"}), Failure::unavailable);
  (void)call(connections, {"CONFIG", "SET", "maxmemory", "0"});

  (void)call(connections, {"CONFIG", "SET", "min-replicas-to-write", "1"});
  EXPECT_EQ(meaning_of_reply(connections, {"SET", "a", "1"}), Failure::unavailable);
  (void)call(connections, {"CONFIG", "SET", "min-replicas-to-write", "0"});

  (void)call(connections, {"REPLICAOF", "127.0.0.1", "1"});
  EXPECT_EQ(meaning_of_reply(connections, {"EVAL", kWrite, "1", "a"}), Failure::unavailable);
  EXPECT_EQ(meaning_of_reply(connections, {"SET", "a", "1"}), Failure::unavailable);
}

TEST(RealServer, SaysThatItIsFull) {
  const Server server;
  Connections admin(server.tcp());
  (void)call(admin, {"CONFIG", "SET", "maxclients", "1"});
  for (Endpoint endpoint : {server.tcp(), server.unix_socket()}) {
    Connections plain(endpoint);
    const Reply reply = call(plain, {"PING"});
    ASSERT_TRUE(reply.is_error());
    EXPECT_TRUE(protocol::meaning_of(reply.as_text()).retryable);
    endpoint.database = 1;
    Connections with_handshake(endpoint);
    const auto error = error_of<StoreUnavailable>([&] { (void)call(with_handshake, {"PING"}); });
    ASSERT_TRUE(error.has_value());
    EXPECT_FALSE(error->maybe_charged());
  }
}

TEST(RealServer, ThatIsStoppedAndGoesOnLosesNoReply) {
  const Server server;
  Connections connections(server.tcp());
  (void)call(connections, {"PING"});
  ::kill(server.pid(), SIGSTOP);
  const auto error = error_of<StoreTimeout>([&] { (void)call(connections, {"INCR", "a"}, 50ms); });
  ::kill(server.pid(), SIGCONT);
  ASSERT_TRUE(error.has_value());
  EXPECT_TRUE(error->maybe_charged());
  EXPECT_EQ(integer(connections, {"INCR", "a"}), 2);
}

TEST(RealServer, ThatDiesIsUnavailableAndRaisesNoSignal) {
  auto server = std::make_unique<Server>();
  Connections connections(server->tcp());
  (void)call(connections, {"PING"});
  server.reset();
  for (int i = 0; i < 3; ++i) {
    const auto error = error_of<StoreUnavailable>([&] { (void)call(connections, {"PING"}); });
    ASSERT_TRUE(error.has_value());
    EXPECT_FALSE(error->maybe_charged());
  }
}

}  // namespace
}  // namespace overlimit::redis::transport
