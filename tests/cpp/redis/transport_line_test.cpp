// One line by itself, driven as a node drives it.
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <mutex>
#include <thread>

#include "asking.hpp"
#include "overlimit/errors.hpp"
#include "redis/transport/dialer.hpp"
#include "redis/transport/line.hpp"
#include "redis/transport/turn.hpp"
#include "servers.hpp"

namespace overlimit::redis::transport {
namespace {

constexpr std::string_view kPingRequest = "*1\r\n$4\r\nPING\r\n";

/// A caller whose own code runs, during its call, from `away` until `back`; it holds the line meanwhile.
class AwayCaller {
 public:
  AwayCaller(std::shared_ptr<Line> line, std::mutex& mutex)
      : thread_([this, &mutex, line = std::move(line)] { call(*line, mutex); }) {
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
  void call(Line& line, std::mutex& mutex) {
    Turn turn(mutex);
    bool is_first = true;
    const Interrupted stays_away = [&] {
      if (std::exchange(is_first, false)) away_.count_down();
      back_.wait();
      return false;
    };
    try {
      (void)line.call(turn, {kPingRequest}, Deadline(kAmple), stays_away);
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
TEST(Line, MayBeGoneWhenThoseWhoWaitedOnItAreWoken) {
  auto listener = std::make_unique<Listener>();
  Endpoint endpoint;
  endpoint.host = "127.0.0.1";
  endpoint.port = listener->port();
  auto line = std::make_shared<Line>(std::make_shared<Dialer>(endpoint), Deadline(kAmple));
  std::mutex mutex;
  AwayCaller caller(line, mutex);
  listener.reset();
  {
    Turn turn(mutex);
    EXPECT_TRUE(line->pump(turn, Deadline(kAmple)));
    EXPECT_FALSE(line->alive());
    line.reset();
    turn.without([&] { caller.come_back_and_leave(); });
  }
  EXPECT_TRUE(caller.has_failed());
}

}  // namespace
}  // namespace overlimit::redis::transport
