// A thread under a rain of signals.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace overlimit::redis::transport {

extern "C" inline void ignore_signal(int /*number*/) {}

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
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
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

}  // namespace overlimit::redis::transport
