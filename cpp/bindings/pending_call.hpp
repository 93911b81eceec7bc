// Calls to stores whose answers are awaited on an event loop.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <memory>
#include <vector>

#include "overlimit/fibers.hpp"
#include "store_task.hpp"

namespace overlimit::python {

/// A task that is prepared, then asked on a fiber of an event loop, then answered.
class PendingCall : NonCopyable {
 public:
  explicit PendingCall(std::unique_ptr<StoreTask> task) : task_(std::move(task)) {}

  /// Asks if that certainly does not wait; then it is done.
  void ask_at_once();
  [[nodiscard]] bool has_begun() const { return stage_ != Stage::prepared; }
  /// Asks as far as that goes without waiting. Is added to `done` when it is done later.
  void begin(Fibers& fibers, std::vector<PendingCall*>& done);
  /// Has it end at the next run of the fibers, if it is under way.
  void cancel(Fibers& fibers);
  [[nodiscard]] bool is_done() const { return stage_ == Stage::done; }
  /// What the method that prepared it returns or throws, in place of which it is awaited.
  Object answer();

 private:
  enum class Stage : std::uint8_t { prepared, under_way, done, answered };

  void count();
  template <class Ask>
  void run(Fibers& fibers, std::vector<PendingCall*>& done, const Ask& ask);
  template <class Ask>
  void ask(const Ask& ask);
  void ask_until_others_leave(Fibers& fibers, Store& store);
  void note_end(const StoreTask& task) const;

  Stage stage_ = Stage::prepared;
  bool is_counted_ = false;
  std::unique_ptr<StoreTask> task_;
  std::exception_ptr failure_;
  BreakerState breaker_ = BreakerState::closed;  // of the loop, after a failure
  Fibers::Task* fiber_ = nullptr;                // valid while it is under way; set if it ever was
  Stopwatch::Clock::time_point began_{};
  Stopwatch::Clock::time_point ended_{};
};

}  // namespace overlimit::python
