// Asking a redis-server through Connections, in the words of a test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "connections.hpp"
#include "overlimit/errors.hpp"
#include "redis/protocol/command.hpp"

namespace overlimit::redis::transport {

using namespace std::chrono_literals;
using protocol::Reply;

constexpr auto kAmple = 30s;
/// How much later than its deadline a call may come back on a busy machine.
constexpr auto kGrace = 1s;

inline Reply call(Connections& connections, std::initializer_list<std::string_view> command,
                  std::chrono::microseconds timeout = kAmple, const Interrupted& interrupted = {}) {
  std::string request;
  protocol::append_command(request, command);
  return connections.call(request, {Deadline(timeout), interrupted});
}

inline std::string text(Connections& connections, std::initializer_list<std::string_view> command) {
  return std::string(call(connections, command).as_text());
}

inline std::int64_t integer(Connections& connections, std::initializer_list<std::string_view> command) {
  return call(connections, command).as_integer();
}

/// How many clients a server has.
inline std::int64_t clients_of(Connections& admin) {
  const std::string info = text(admin, {"INFO", "clients"});
  constexpr std::string_view kField = "connected_clients:";
  return std::atoll(info.c_str() + info.find(kField) + kField.size());
}

inline bool answers(Connections& connections) {
  try {
    return text(connections, {"PING"}) == "PONG";
  } catch (const StoreError&) {
    return false;
  }
}

/// Whether so many different questions in turn each got its own answer.
inline bool echoes(Connections& connections, const std::string& name, int times) {
  for (int i = 0; i < times; ++i) {
    const std::string word = name + std::to_string(i);
    if (text(connections, {"ECHO", word}) != word) return false;
  }
  return true;
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

inline bool eventually(const std::function<bool()>& condition) {
  const Deadline deadline(kAmple);
  while (!deadline.passed()) {
    if (condition()) return true;
    std::this_thread::sleep_for(2ms);
  }
  return false;
}

}  // namespace overlimit::redis::transport
