// Scripts that are under way at the same time, each at the server of its slot.
#pragma once

#include <optional>
#include <vector>

#include "redis/plain/servers.hpp"
#include "redis/protocol/reply.hpp"
#include "redis/wire/script_call.hpp"

namespace overlimit::redis {

/// To be filled, run once, and asked for its replies.
class Batch {
 public:
  using Wait = transport::Wait;

  /// How a script is sent that its server may lack. One that is sent by its name is not executed then, and
  /// sent again by reply() after all others: those of one slot stay in order if all of them are `in_order`.
  enum class By : std::uint8_t { name, text, in_order };

  explicit Batch(Servers& servers) : servers_(servers) {}

  /// Borrows the script.
  void add(const ScriptCall& script, By by);
  [[nodiscard]] std::size_t size() const { return scripts_.size(); }

  /// Sends all, and notes what fails. Throws in a child that was forked meanwhile.
  void run(const Wait& wait);
  [[nodiscard]] FirstError& failure() { return failure_; }

  /// What came for a script as it is, also errors; nothing if no reply came.
  [[nodiscard]] std::optional<protocol::Reply>& received(std::size_t i) { return replies_[i]; }
  /// Whether its slot was not where it was thought to be.
  [[nodiscard]] bool was_redirected(std::size_t i) const;
  /// The reply that came for a script; one that was certainly not executed runs again, by itself. Throws the
  /// error that it means.
  [[nodiscard]] protocol::Reply reply(std::size_t i, const Wait& wait);

 private:
  [[nodiscard]] bool goes_with_text(std::size_t i) const;

  Servers& servers_;
  std::vector<const ScriptCall*> scripts_;
  std::vector<By> by_;
  std::vector<std::optional<protocol::Slot>> slots_;
  std::vector<std::optional<protocol::Reply>> replies_;
  FirstError failure_;
};

}  // namespace overlimit::redis
