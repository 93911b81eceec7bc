#include "overlimit/fibers.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "overlimit/forks.hpp"
#include "platform/fiber.hpp"
#include "platform/readiness.hpp"

namespace overlimit {

using platform::Fiber;

namespace {

thread_local Fibers* running = nullptr;

constexpr std::size_t kMostStacksKept = 32;
/// For so long a turn of an event loop may last (docs/guides/asyncio.md).
constexpr std::chrono::milliseconds kLongestTurn{20};

template <class Key, class Value>
using Waiting = std::unordered_map<Key, std::vector<Value*>>;

}  // namespace

class Fibers::Task : NonCopyable {
 public:
  Task(std::unique_ptr<Fiber::Stack> stack, std::function<void()> action)
      : fiber(std::move(stack), std::move(action)) {}

  Fiber fiber;
  bool is_interrupted = false;
  bool is_waiting = false;
  Woken woken = Woken::by_event;
  int fd = -1;  // while it waits for one, as the next one
  short events = 0;
  const void* event = nullptr;  // while it waits for one
  std::uint32_t waiters = 0;
  std::multimap<TimePoint, Task*>::iterator deadline;  // while it waits
  const std::function<void()>* outside = nullptr;      // while that is to be run
  std::list<Task>::iterator place;
};

struct Fibers::Impl {
  explicit Impl(Fibers& owner) : fibers(owner) {}

  void resume(Task& task) {
    enter(task);
    while (task.outside != nullptr) {
      (*std::exchange(task.outside, nullptr))();
      enter(task);
    }
    if (!task.fiber.has_ended()) return;
    if (stacks.size() < kMostStacksKept) stacks.push_back(task.fiber.release_stack());
    tasks.erase(task.place);
  }

  void enter(Task& task) {
    Fibers* const before = std::exchange(running, &fibers);
    current = &task;
    task.fiber.resume();
    current = nullptr;
    running = before;
  }

  void resume_all() {
    while (!ready.empty()) {
      Task& task = *ready.front();
      ready.pop_front();
      resume(task);
    }
  }

  /// Suspends the fiber that runs, which waits for something by now.
  [[nodiscard]] Woken suspend(TimePoint until) {
    Task& task = *current;
    task.deadline = deadlines.emplace(until, &task);
    task.is_waiting = true;
    task.fiber.suspend();
    return task.woken;
  }

  void wake(Task& task, Woken by) noexcept {
    task.is_waiting = false;
    task.woken = by;
    deadlines.erase(task.deadline);
    if (task.fd >= 0) leave(by_fd, std::exchange(task.fd, -1), task);
    if (task.event != nullptr) leave(by_event, std::exchange(task.event, nullptr), task);
    std::erase(yielded, &task);
    ready.push_back(&task);
  }

  template <class Key>
  static void leave(Waiting<Key, Task>& waiting, Key key, Task& task) noexcept {
    const auto found = waiting.find(key);
    std::erase(found->second, &task);
    if (found->second.empty()) waiting.erase(found);
  }

  [[nodiscard]] TimePoint own_time(TimePoint real) const noexcept { return real - away; }

  /// Leaves out of this loop's time by how much run() is late, but for what is promised of a turn anyway.
  /// What is due by then gets another moment, as its answer may need one more turn.
  void leave_out_lateness() noexcept {
    const TimePoint real = std::chrono::steady_clock::now();
    const TimePoint due = std::min(armed.value_or(TimePoint::max()), yielded_at.value_or(TimePoint::max()));
    if (due == TimePoint::max() || real - due <= kLongestTurn) return;
    away = real - std::max(seen, own_time(due) - kLongestTurn);
  }

  void wake_yielded() {
    yielded_at.reset();
    for (Task* const task : std::exchange(yielded, {})) {
      if (task->is_waiting) wake(*task, Woken::by_event);
    }
  }

  void wake_ready() {
    std::array<int, 64> fds{};
    const std::size_t count = readiness.take_ready(fds);
    for (std::size_t i = 0; i < count; ++i) wake_all_of(fds[i]);
    const TimePoint now = own_time(std::chrono::steady_clock::now());
    while (!deadlines.empty() && deadlines.begin()->first <= now) {
      wake(*deadlines.begin()->second, Woken::by_deadline);
    }
  }

  void wake_all_of(int fd) {
    const auto found = by_fd.find(fd);
    if (found == by_fd.end()) return;
    for (Task* const task : std::vector(found->second)) wake(*task, Woken::by_event);
  }

  /// Timers that are too early do no harm, so there is no new one while another is earlier.
  void set_timer() noexcept {
    const TimePoint real = std::chrono::steady_clock::now();
    seen = own_time(real);
    if (armed && real >= *armed) armed.reset();
    if (deadlines.empty() || deadlines.begin()->first == TimePoint::max()) return;
    const TimePoint first = deadlines.begin()->first + away;
    if (armed && *armed <= first) return;
    armed = first;
    readiness.wake_at(first);
  }

  void end_all() {
    while (!tasks.empty()) {
      for (Task& task : tasks) fibers.interrupt(task);
      resume_all();
    }
  }

  Fibers& fibers;
  const std::uint64_t generation = fork_generation();
  std::map<const void*, std::shared_ptr<void>> slots;
  platform::Readiness readiness;
  std::list<Task> tasks;
  std::vector<std::unique_ptr<Fiber::Stack>> stacks;
  std::deque<Task*> ready;
  std::vector<Task*> yielded;
  std::optional<TimePoint> yielded_at;  // the first of these
  TimePoint::duration away{};           // what is left out of this loop's time
  TimePoint seen{};                     // by this loop's time, at the end of the last turn
  std::uint64_t turn = 0;
  std::multimap<TimePoint, Task*> deadlines;
  Waiting<int, Task> by_fd;
  Waiting<const void*, Task> by_event;
  std::optional<TimePoint> armed;
  Task* current = nullptr;
};

Fibers::Fibers() : impl_(std::make_unique<Impl>(*this)) {}

// What the parent has suspended in the middle is left as it is, with all that it uses.
Fibers::~Fibers() {
  if (impl_->generation == fork_generation()) {
    impl_->end_all();
  } else {
    for (Task& task : impl_->tasks) (void)task.fiber.release_stack().release();
    // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): without memory nothing helps
    [[maybe_unused]] const auto* leaked = new auto(std::move(impl_->slots));
  }
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): meant

int Fibers::fd() const noexcept { return impl_->readiness.fd(); }

Fibers::Task& Fibers::start(std::function<void()> action) {
  std::unique_ptr<Fiber::Stack> stack;
  if (impl_->stacks.empty()) {
    stack = std::make_unique<Fiber::Stack>();
  } else {
    stack = std::move(impl_->stacks.back());
    impl_->stacks.pop_back();
  }
  Task& task = impl_->tasks.emplace_back(std::move(stack), std::move(action));
  task.place = std::prev(impl_->tasks.end());
  impl_->ready.push_back(&task);
  impl_->resume_all();
  impl_->set_timer();
  return task;
}

void Fibers::run() {
  ++impl_->turn;
  impl_->leave_out_lateness();
  impl_->wake_yielded();
  impl_->wake_ready();
  impl_->resume_all();
  impl_->set_timer();
}

bool Fibers::has_yielded() const noexcept { return !impl_->yielded.empty(); }

std::uint64_t Fibers::turn() const noexcept { return impl_->turn; }

void Fibers::interrupt(Task& task) {
  task.is_interrupted = true;
  if (task.is_waiting) impl_->wake(task, Woken::by_signal);
}

Fibers* Fibers::current() noexcept { return running; }

Fibers::TimePoint Fibers::now() noexcept {
  const TimePoint real = std::chrono::steady_clock::now();
  return running == nullptr ? real : running->impl_->own_time(real);
}

bool Fibers::is_interrupted() const noexcept { return impl_->current->is_interrupted; }

Fibers::Woken Fibers::wait(int fd, short events, TimePoint until) {
  Task& task = *impl_->current;
  if (task.is_interrupted) return Woken::by_signal;
  if (fd >= 0) {
    std::vector<Task*>& waiting = impl_->by_fd[fd];
    for (const Task* other : waiting) events = static_cast<short>(events | other->events);
    impl_->readiness.watch(fd, events);
    waiting.push_back(&task);
    task.fd = fd;
    task.events = events;
  }
  return impl_->suspend(until);
}

Fibers::Woken Fibers::wait(const void* event, std::uint32_t waiters, TimePoint until) {
  Task& task = *impl_->current;
  if (task.is_interrupted) return Woken::by_signal;
  impl_->by_event[event].push_back(&task);
  task.event = event;
  task.waiters = waiters;
  return impl_->suspend(until);
}

void Fibers::yield() {
  Task& task = *impl_->current;
  if (task.is_interrupted) return;
  if (impl_->yielded.empty()) impl_->yielded_at = std::chrono::steady_clock::now();
  impl_->yielded.push_back(&task);
  (void)impl_->suspend(TimePoint::max());
}

void Fibers::notify(const void* event, std::uint32_t waiters) noexcept {
  const auto found = impl_->by_event.find(event);
  if (found == impl_->by_event.end()) return;
  for (std::size_t i = 0; i < found->second.size();) {
    Task& task = *found->second[i];
    if ((task.waiters & waiters) == 0) {
      ++i;
      continue;
    }
    const bool was_last = found->second.size() == 1;
    impl_->wake(task, Woken::by_event);
    if (was_last) return;
  }
}

void Fibers::run_outside(const std::function<void()>& action) {
  std::exception_ptr failure;
  const std::function<void()> run = [&] {
    try {
      action();
    } catch (...) {
      failure = std::current_exception();
    }
  };
  Task& task = *impl_->current;
  task.outside = &run;
  task.fiber.suspend();
  if (failure) std::rethrow_exception(failure);
}

std::shared_ptr<void>& Fibers::slot(const void* key) { return impl_->slots[key]; }

}  // namespace overlimit
