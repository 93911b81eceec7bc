// One line by itself, driven as a node drives it.
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <mutex>
#include <thread>

#include "../asking.hpp"
#include "../servers.hpp"
#include "overlimit/errors.hpp"
#include "redis/transport/connection.hpp"
#include "redis/transport/connector.hpp"
#include "redis/transport/synchronization.hpp"

namespace overlimit::redis::transport {
namespace {

constexpr std::string_view kPingRequest = "*1\r\n$4\r\nPING\r\n";

/// A caller whose own code runs, during its call, from `away` until `back`; it holds the line meanwhile.
class AwayCaller {
 public:
  AwayCaller(std::shared_ptr<Connection> connection, std::mutex& mutex)
      : thread_([this, &mutex, connection = std::move(connection)] { call(*connection, mutex); }) {
    away_.wait();
  }
  AwayCaller(const AwayCaller&) = delete;
  AwayCaller& operator=(const AwayCaller&) = delete;
  ~AwayCaller() = default;

  void come_back_and_leave() {
    back_.count_down();
    thread_.join();
  }
  [[nodiscard]] bool has_failed() const { return has_failed_; }

 private:
  void call(Connection& connection, std::mutex& mutex) {
    UnlockableGuard guard(mutex);
    bool is_first = true;
    const Interrupted stays_away = [&] {
      if (std::exchange(is_first, false)) away_.count_down();
      back_.wait();
      return false;
    };
    try {
      (void)connection.call(guard, {kPingRequest}, {Deadline(kAmple), stays_away});
    } catch (const StoreUnavailable&) {
      has_failed_ = true;
    }
  }

  std::latch away_{1};
  std::latch back_{1};
  bool has_failed_ = false;
  std::thread thread_;
};

// Whoever looks for the answer of a probe wakes those who call on the same line as the last thing it does.
// They may all have gone by then, and the line with them.
TEST(Connection, MayBeGoneWhenThoseWhoWaitedOnItAreWoken) {
  auto listener = std::make_unique<Listener>();
  Endpoint endpoint;
  endpoint.host = "127.0.0.1";
  endpoint.port = listener->port();
  auto connection = std::make_shared<Connection>(std::make_shared<Connector>(endpoint), Deadline(kAmple));
  std::mutex mutex;
  AwayCaller caller(connection, mutex);
  listener.reset();
  {
    UnlockableGuard guard(mutex);
    EXPECT_TRUE(connection->poll(guard, Deadline(kAmple)));
    EXPECT_FALSE(connection->alive());
    connection.reset();
    guard.unlocked([&] { caller.come_back_and_leave(); });
  }
  EXPECT_TRUE(caller.has_failed());
}

}  // namespace
}  // namespace overlimit::redis::transport
