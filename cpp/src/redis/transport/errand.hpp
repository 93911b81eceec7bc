// Work that is left to a short-lived thread, as it has no deadline or takes long.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "redis/transport/per_process.hpp"

namespace overlimit::redis::transport {

/// One piece of work, and when it is done. Thread-safe.
class Errand {
 public:
  /// Begins. The thread keeps what `work` holds; what that throws ends the process. Throws std::system_error
  /// when there is no thread or descriptor left, and has then begun nothing.
  [[nodiscard]] static std::shared_ptr<Errand> begun(std::function<void()> work);
  [[nodiscard]] bool is_done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// A descriptor that becomes and stays readable once it is done.
  [[nodiscard]] int event() const noexcept { return event_.fd(); }

 private:
  Errand();
  void end() noexcept;

  OwnDescriptor event_;  // both ends of a pipe
  OwnDescriptor writer_;
  std::atomic<bool> done_{false};
};

}  // namespace overlimit::redis::transport
