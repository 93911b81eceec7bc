#include "pending_call.hpp"

#include <pybind11/stl.h>

#include <exception>
#include <unordered_map>
#include <vector>

#include "given.hpp"
#include "module.hpp"
#include "overlimit/fibers.hpp"
#include "overlimit/forks.hpp"

namespace overlimit::python {
namespace {

/// After so long the loop looks again whether another process has left the shared memory that a call needs.
constexpr std::chrono::microseconds kPauseWhileOthersAreInside{500};

}  // namespace

void PendingCall::ask_at_once() {
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
  } catch (...) {
    failure_ = std::current_exception();
  }
  stage_ = Stage::done;
}

void PendingCall::begin(Fibers& fibers, std::vector<PendingCall*>& done) {
  ask_at_once();
  if (is_done()) return;
  count();
  Store& store = task_->store();
  if (store.waits_seldom()) {
    run(fibers, done, [&] { ask_until_others_leave(fibers, store); });
  } else {
    run(fibers, done, [&] { task_->ask(store, Interrupted()); });
  }
}

void PendingCall::count() {
  if (is_counted_) return;
  is_counted_ = true;
  count_call(task_->limiters());
}

/// The task runs on a fiber from here on, whose captures live there.
template <class Ask>
void PendingCall::run(Fibers& fibers, std::vector<PendingCall*>& done, const Ask& ask) {
  stage_ = Stage::under_way;
  began_ = Stopwatch::Clock::now();
  Fibers::Task& fiber = fibers.start([this, &done, ask] {
    this->ask(ask);
    stage_ = Stage::done;
    done.push_back(this);
  });
  fiber_ = &fiber;
}

template <class Ask>
void PendingCall::ask(const Ask& ask) {
  try {
    ask();
  } catch (...) {
    failure_ = std::current_exception();
    breaker_ = task_->store().breaker();
  }
  ended_ = Stopwatch::Clock::now();
}

void PendingCall::ask_until_others_leave(Fibers& fibers, Store& store) {
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

void PendingCall::cancel(Fibers& fibers) {
  if (stage_ == Stage::under_way) fibers.interrupt(*fiber_);
}

Object PendingCall::answer() {
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

void PendingCall::note_end(const StoreTask& task) const {
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

namespace {

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

  Pointers cancel(const Pointer& call) {
    if (is_of_parent()) return {};
    given(call).cancel(fibers_);
    return run();
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
      .def("cancel", bound(&CallsOfLoop::cancel), py::arg("call"),
           "End a call, which charges nothing if nothing of it was sent; return those that are done.");
}

}  // namespace overlimit::python
