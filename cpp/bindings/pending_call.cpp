// Calls to stores whose answers are awaited on an event loop.
#include <pybind11/stl.h>

#include <exception>
#include <memory>
#include <unordered_map>
#include <vector>

#include "given.hpp"
#include "module.hpp"
#include "overlimit/fibers.hpp"
#include "overlimit/forks.hpp"
#include "store_calls.hpp"
#include "store_task.hpp"

namespace overlimit::python {
namespace {

/// After so long the loop looks again whether another process has left the shared memory that a call needs.
constexpr std::chrono::microseconds kPauseWhileOthersAreInside{500};

/// A task that is prepared, then asked on a fiber of an event loop, then answered.
class PendingCall : NonCopyable {
 public:
  explicit PendingCall(std::unique_ptr<StoreTask> task) : task_(std::move(task)) {}

  /// Asks if that certainly does not wait; then it is done.
  void ask_at_once() {
    if (task_->is_nothing()) {
      stage_ = Stage::done;
      return;
    }
    Store& store = task_->store();
    const bool waits = store.waits() && !store.waits_seldom();
    if (waits && !task_->decide_here(store)) return;
    count();
    try {
      if (!waits) task_->ask(store, kDontWait);
    } catch (const WouldWait&) {
      return;
    } catch (const PythonError&) {  // which others would find set before somebody asks for the answer
      failure_ = std::make_exception_ptr(TakenError());
    } catch (...) {
      failure_ = std::current_exception();
      breaker_ = store.breaker();
    }
    stage_ = Stage::done;
  }

  [[nodiscard]] bool has_begun() const { return stage_ != Stage::prepared; }

  /// Asks as far as that goes without waiting. Is added to `done` when it is done later.
  void begin(Fibers& fibers, std::vector<PendingCall*>& done) {
    ask_at_once();
    if (is_done()) return;
    count();
    stage_ = Stage::under_way;
    began_ = Stopwatch::Clock::now();
    // The task runs on a fiber from here on, whose captures live there.
    fiber_ = &fibers.start([this, &fibers, &done] {
      ask(fibers);
      stage_ = Stage::done;
      done.push_back(this);
    });
  }

  /// Has it end at the next run of the fibers, if it is under way.
  void cancel(Fibers& fibers) {
    if (stage_ == Stage::under_way) fibers.interrupt(*fiber_);
  }
  [[nodiscard]] bool is_done() const { return stage_ == Stage::done; }

  /// Nobody wants its answer: what it keeps is free, such as the right to a refund, whoever still refers to
  /// it.
  void drop() {
    if (!is_done()) return;
    stage_ = Stage::answered;
    task_.reset();
  }

  /// What the method that prepared it returns or throws, in place of which it is awaited.
  Object answer() {
    if (stage_ != Stage::done) throw std::logic_error("a pending call is answered once it is done, and once");
    stage_ = Stage::answered;
    const std::unique_ptr<StoreTask> task = std::move(task_);
    if (!is_counted_) return task->answer();
    try {
      note_end(*task);
    } catch (const StoreError& error) {
      return task->answer_without(error);
    }
    return task->answer();
  }

 private:
  enum class Stage : std::uint8_t { prepared, under_way, done, answered };

  void count() {
    if (!std::exchange(is_counted_, true)) count_call(task_->limiters());
  }

  void ask(Fibers& fibers) {
    Store& store = task_->store();
    try {
      store.waits_seldom() ? ask_until_others_leave(fibers, store) : task_->ask(store, Interrupted());
    } catch (...) {
      failure_ = std::current_exception();
      breaker_ = store.breaker();
    }
    ended_ = Stopwatch::Clock::now();
  }

  void ask_until_others_leave(Fibers& fibers, Store& store) {
    const Interrupted come_back =
        ComeBack{Stopwatch::Clock::now() + std::chrono::microseconds(store.timeout().micros())};
    for (;;) {
      try {
        return task_->ask(store, come_back);
      } catch (const WouldWait&) {
      }
      const auto until = Stopwatch::Clock::now() + kPauseWhileOthersAreInside;
      if (fibers.wait(-1, 0, until) == Fibers::Woken::by_signal) throw WaitInterrupted();
    }
  }

  void note_end(const StoreTask& task) const {
    const std::span<LimiterState* const> limiters = task.limiters();
    if (fiber_ != nullptr) count_latency(limiters, ended_ - began_);
    if (failure_ == nullptr) return count_answer(limiters);
    try {
      std::rethrow_exception(failure_);
    } catch (const StoreError& error) {
      count_failure(limiters, error, breaker_);
      throw;
    } catch (TakenError& error) {
      error.set();
      throw PythonError{};
    } catch (const OutOfMemory&) {
      if (limiters.empty()) throw;
      naming_full_store(*limiters.front(), [] { throw; });
    }
  }

  Stage stage_ = Stage::prepared;
  bool is_counted_ = false;
  std::unique_ptr<StoreTask> task_;
  std::exception_ptr failure_;
  BreakerState breaker_ = BreakerState::closed;  // of the loop, after a failure
  Fibers::Task* fiber_ = nullptr;                // valid while it is under way; set if it ever was
  Stopwatch::Clock::time_point began_{};
  Stopwatch::Clock::time_point ended_{};
};

/// The calls that one event loop awaits. It refers to nothing of Python that may refer to it.
class CallsOfLoop : NonCopyable {
 public:
  using Pointer = std::shared_ptr<PendingCall>;
  using Pointers = std::vector<Pointer>;

  [[nodiscard]] int fd() const { return fibers_.fd(); }
  [[nodiscard]] bool needs_run() const { return fibers_.has_yielded(); }

  Pointers begin(const Pointer& call) {
    if (is_of_parent())
      throw StoreUnavailable("the process was forked: a child needs an event loop of its own");
    if (given(call).has_begun()) return {};
    under_way_[call.get()] = call;
    call->begin(fibers_, done_);
    if (call->is_done()) under_way_.erase(call.get());
    return take_done();
  }

  Pointers run() {
    if (is_of_parent()) return {};
    fibers_.run();
    return take_done();
  }

  /// Goes on with the call that waits for this object.
  Pointers notify(const pybind11::object& event) {
    if (is_of_parent()) return {};
    fibers_.notify(event.ptr(), 1);
    return run();
  }

  Pointers cancel(const Pointer& call) {
    if (is_of_parent()) return {};
    given(call).cancel(fibers_);
    Pointers done = run();
    call->drop();
    return done;
  }

 private:
  /// A forked child shares what its parent waits by, and must leave it alone.
  [[nodiscard]] bool is_of_parent() const { return made_after_ != fork_generation(); }

  /// Those that were begun earlier, and are done by now.
  Pointers take_done() {
    Pointers done;
    for (PendingCall* const each : std::exchange(done_, {})) {
      const auto found = under_way_.find(each);
      if (found == under_way_.end()) continue;
      done.push_back(std::move(found->second));
      under_way_.erase(found);
    }
    return done;
  }

  const std::uint64_t made_after_ = fork_generation();
  std::vector<PendingCall*> done_;
  std::unordered_map<PendingCall*, Pointer> under_way_;
  Fibers fibers_;  // ends first: what it ends is noted above
};

}  // namespace

Object answer_or_pending(std::unique_ptr<StoreTask> task) {
  if (!task->store().waits() && !task->limiters().empty()) return perform(*task);
  auto call = std::make_shared<PendingCall>(std::move(task));
  call->ask_at_once();
  if (call->is_done()) return call->answer();
  return Object::steal(pybind11::cast(std::move(call)).release().ptr());
}

Object pending(std::unique_ptr<StoreTask> task) {
  return Object::steal(pybind11::cast(std::make_shared<PendingCall>(std::move(task))).release().ptr());
}

void bind_pending_calls(pybind11::module_& module) {
  namespace py = pybind11;
  py::class_<PendingCall, CallsOfLoop::Pointer>(module, "PendingCall", "A call to a store that is awaited.")
      .def("answer", bound(&PendingCall::answer),
           "Return what the call answered, or raise what it raised; once, when it is done.")
      .def_property_readonly("is_done", bound(&PendingCall::is_done), "Whether it can be answered.");
  py::class_<CallsOfLoop, std::shared_ptr<CallsOfLoop>>(module, "CallsOfLoop",
                                                        "The calls to stores that one event loop awaits.")
      .def(py::init<>())
      .def("fileno", bound(&CallsOfLoop::fd),
           "Return the descriptor to watch: run() is to be called when it is readable.")
      .def_property_readonly("needs_run", bound(&CallsOfLoop::needs_run),
                             "Whether run() is to be called once all tasks that are due have run.")
      .def("begin", bound(&CallsOfLoop::begin), py::arg("call"),
           "Begin a call that has not begun; it may be done at once. Return those begun before that are done "
           "now.")
      .def("run", bound(&CallsOfLoop::run),
           "Go on with the calls that can go on; return those that are done.")
      .def("notify", bound(&CallsOfLoop::notify), py::arg("event"),
           "Go on with the call that waits for this object; return those that are done.")
      .def("cancel", bound(&CallsOfLoop::cancel), py::arg("call"),
           "End a call, which charges nothing if nothing of it was sent; return those that are done.");
}

}  // namespace overlimit::python
