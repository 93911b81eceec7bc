// Many threads on few connections while everything goes wrong at once.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "connections_fixture.hpp"
#include "overlimit/errors.hpp"
#include "tls_fixture.hpp"

namespace overlimit::redis::transport {
namespace {

/// What many threads were told, and what the server counted.
struct Told {
  std::atomic<int> acknowledged{0};
  std::atomic<int> unknown{0};
  std::atomic<int> unsent{0};
  std::atomic<int> strange{0};

  void call_once(Connections& connections, int thread, int i) {
    try {
      if (i % 3 == 0) {
        const std::string word = std::to_string(thread) + ":" + std::to_string(i);
        if (text(connections, {"ECHO", word}) != word) ++strange;
        return;
      }
      (void)call(connections, {"INCR", "storm:counter"}, 30ms);
      ++acknowledged;
    } catch (const StoreError& error) {
      if (i % 3 != 0) ++(error.maybe_charged() ? unknown : unsent);
    }
  }

  void expect_to_agree_with(Connections& admin) const {
    EXPECT_EQ(strange.load(), 0) << "replies of others";
    std::this_thread::sleep_for(50ms);  // what was sent and not heard of
    const int counted = std::stoi(text(admin, {"GET", "storm:counter"}));
    EXPECT_GE(counted, acknowledged.load());
    EXPECT_LE(counted, acknowledged.load() + unknown.load());
    EXPECT_GT(acknowledged.load(), 300);
    EXPECT_GT(unknown.load() + unsent.load(), 0);
  }
};

/// Threads that call while the proxy does this and that, and connections are closed under them.
void storm(Connections& connections, Proxy& proxy, Told& told) {
  constexpr int kThreads = 8;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; !stop.load(); ++i) {
        told.call_once(connections, thread, i);
        if (connections.breaker() != protocol::Breaker::State::closed) std::this_thread::sleep_for(1ms);
      }
    });
  }
  constexpr std::array kModes{Proxy::Replies::pass, Proxy::Replies::hold, Proxy::Replies::pass,
                              Proxy::Replies::drip, Proxy::Replies::pass, Proxy::Replies::cut};
  for (std::size_t round = 0; round < 18; ++round) {
    proxy.set(kModes[round % kModes.size()]);
    std::this_thread::sleep_for(kModes[round % kModes.size()] == Proxy::Replies::pass ? 150ms : 50ms);
    if (round % 5 == 4) connections.close();
  }
  proxy.set(Proxy::Replies::pass);
  std::this_thread::sleep_for(300ms);
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ConnectionsTest, LosesAndInventsNothingInAStorm) {
  Proxy proxy(server_->tcp().port);
  Connections connections(proxy.endpoint());
  (void)call(admin_, {"SET", "storm:counter", "0"});
  Told told;
  storm(connections, proxy, told);
  told.expect_to_agree_with(admin_);
}

TEST_F(TlsTest, LosesAndInventsNothingInAStorm) {
  Proxy proxy(server_->port());
  Connections connections(behind(proxy));
  (void)call(admin_, {"SET", "storm:counter", "0"});
  Told told;
  storm(connections, proxy, told);
  told.expect_to_agree_with(admin_);
}

}  // namespace
}  // namespace overlimit::redis::transport
