#include "redis/transport/connections.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "overlimit/errors.hpp"
#include "redis/transport/dialer.hpp"
#include "redis/transport/fork_generation.hpp"
#include "redis/transport/open_descriptors.hpp"
#include "redis/transport/place.hpp"

namespace overlimit::redis::transport {

/// What belongs to one process and is replaced as a whole in its children. There, the one of the parent is
/// never destroyed and none of its locks is taken: other threads may have held them at the fork.
class Connections::Process {
 public:
  explicit Process(const Endpoint& endpoint) : dialer_(std::make_shared<Dialer>(endpoint)) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    for_each_place([](Place& place) { place.disown(); });
  }

  [[nodiscard]] bool is_this() const noexcept { return generation_ == fork_generation(); }

  [[nodiscard]] std::shared_ptr<Place> add_place() {
    auto place = std::make_shared<Place>(this, dialer_, open_);
    const std::lock_guard lock(mutex_);
    std::erase_if(places_, [](const auto& each) { return each.expired(); });
    places_.push_back(place);
    return place;
  }

  /// For a call made while the thread's own connection is in use, from interrupted() or a signal handler.
  [[nodiscard]] std::unique_ptr<Connection> spare() const {
    return std::make_unique<Connection>(dialer_, open_);
  }

  void close() {
    for_each_place([](Place& place) { place.close(); });
  }

  void close_descriptors_of_parent() noexcept { open_->close_all(); }

 private:
  template <typename Action>
  void for_each_place(Action action) {
    const std::lock_guard lock(mutex_);
    for (const auto& each : places_) {
      if (const std::shared_ptr<Place> place = each.lock()) action(*place);
    }
  }

  const std::uint64_t generation_ = fork_generation();
  const std::shared_ptr<Dialer> dialer_;
  const std::shared_ptr<OpenDescriptors> open_ = std::make_shared<OpenDescriptors>();
  std::mutex mutex_;
  std::vector<std::weak_ptr<Place>> places_;  // guarded by mutex_
};

namespace {

/// The places of one thread. Those of a parent process are let go of without being destroyed.
class ThreadPlaces {
 public:
  ThreadPlaces() = default;
  ThreadPlaces(const ThreadPlaces&) = delete;
  ThreadPlaces& operator=(const ThreadPlaces&) = delete;
  ~ThreadPlaces() { leave_parent(); }

  template <typename Owner>
  [[nodiscard]] std::shared_ptr<Place> of(Owner& owner) {
    leave_parent();
    for (const auto& place : places_) {
      if (place->owner() == &owner) return place;
    }
    std::erase_if(places_, [](const auto& place) { return place->owner() == nullptr; });
    return places_.emplace_back(owner.add_place());
  }

 private:
  using Places = std::vector<std::shared_ptr<Place>>;

  void leave_parent() {
    if (std::exchange(generation_, fork_generation()) == fork_generation()) return;
    // Destroying them would close numbers that may be other files by now.
    [[maybe_unused]] const auto* leaked = new Places(std::exchange(places_, {}));
  }  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): meant

  std::uint64_t generation_ = fork_generation();
  Places places_;
};

ThreadPlaces& thread_places() {
  thread_local ThreadPlaces places;
  return places;
}

/// `interrupted`, which may run a signal handler that forks. The child must not go on waiting for the reply
/// on the parent's socket, and the parent's call may be charged.
class UnlessForked {
 public:
  explicit UnlessForked(const Interrupted& interrupted) noexcept : interrupted_(&interrupted) {}

  bool operator()() const {
    const bool ends = *interrupted_ && (*interrupted_)();
    if (generation_ != fork_generation()) {
      throw StoreUnavailable("the process forked during a call to redis; its parent goes on with that call",
                             true);
    }
    return ends;
  }

 private:
  const Interrupted* interrupted_;
  std::uint64_t generation_ = fork_generation();
};

}  // namespace

Connections::Connections(Endpoint endpoint) : endpoint_(std::move(endpoint)), process_(nullptr) {
  watch_forks();
  process_.store(new Process(endpoint_));
}

Connections::~Connections() {
  Process* last = process_.load();
  if (last->is_this()) {
    delete last;
  } else {
    last->close_descriptors_of_parent();
  }
}

protocol::Reply Connections::call(std::string_view request, const Deadline& deadline,
                                  const Interrupted& interrupted) {
  if (deadline.passed())
    throw StoreTimeout("the timeout had passed before redis at " + endpoint_.describe() + " was asked");
  Process& mine = process();
  const std::shared_ptr<Place> place = thread_places().of(mine);
  const Place::Loan loan(*place);
  const Interrupted unless_forked = UnlessForked(interrupted);
  if (loan.get() != nullptr) return loan.get()->call(request, deadline, unless_forked);
  return mine.spare()->call(request, deadline, unless_forked);
}

void Connections::close() { process().close(); }

Connections::Process& Connections::process() {
  Process* current = process_.load(std::memory_order_acquire);
  return current->is_this() ? *current : renew(current);
}

Connections::Process& Connections::renew(Process* of_parent) {
  auto fresh = std::make_unique<Process>(endpoint_);
  if (!process_.compare_exchange_strong(of_parent, fresh.get())) return *of_parent;
  of_parent->close_descriptors_of_parent();
  return *fresh.release();
}

}  // namespace overlimit::redis::transport
