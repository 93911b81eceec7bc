#include "platform/readiness.hpp"

#if defined(__linux__) && !defined(OVERLIMIT_PORTABLE)

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <new>
#include <system_error>

namespace overlimit::platform {
namespace {

constexpr std::size_t kMostAtOnce = 64;

static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLPRI == POLLPRI);

}  // namespace

Readiness::Readiness() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ >= 0) timer_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  epoll_event event{.events = EPOLLIN, .data = {.fd = timer_}};
  if (timer_ >= 0 && ::epoll_ctl(epoll_, EPOLL_CTL_ADD, timer_, &event) == 0) return;
  const int error = errno;
  if (timer_ >= 0) ::close(timer_);
  if (epoll_ >= 0) ::close(epoll_);
  throw std::system_error(error, std::system_category(), "epoll");
}

Readiness::~Readiness() {
  ::close(timer_);
  ::close(epoll_);
}

int Readiness::fd() const noexcept { return epoll_; }

// A descriptor that was closed since it was watched is no longer known, and another one may have its number.
void Readiness::watch(int fd, short events) {
  epoll_event event{.events = static_cast<std::uint32_t>(events) | EPOLLONESHOT, .data = {.fd = fd}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event) == 0) return;
  if (errno == ENOENT && ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0) return;
  throw std::bad_alloc();
}

/// The steady clock is CLOCK_MONOTONIC.
void Readiness::wake_at(TimePoint instant) noexcept {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t at =
      std::max<std::int64_t>(1, std::chrono::nanoseconds(instant.time_since_epoch()).count());
  const itimerspec time{.it_interval = {}, .it_value = {at / kSecond, static_cast<long>(at % kSecond)}};
  ::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &time, nullptr);
}

std::size_t Readiness::take_ready(std::span<int> fds) noexcept {
  std::array<epoll_event, kMostAtOnce> events{};
  const int most = static_cast<int>(std::min(fds.size(), events.size()));
  const int count = ::epoll_wait(epoll_, events.data(), most, 0);
  std::size_t ready = 0;
  for (int i = 0; i < count; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    std::uint64_t expirations = 0;
    if (fd == timer_) {
      [[maybe_unused]] const auto read = ::read(timer_, &expirations, sizeof expirations);
    } else {
      fds[ready++] = fd;
    }
  }
  return ready;
}

}  // namespace overlimit::platform

#else

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "platform/descriptors.hpp"

namespace overlimit::platform {

/// POSIX has no descriptor that stands for others: a thread polls them all, and writes to a pipe.
class Readiness::Poller {
 public:
  Poller() {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  /// In a forked child there is no such thread.
  ~Poller() {
    if (owner_ == ::getpid()) {
      {
        const std::lock_guard lock(mutex_);
        ends_ = true;
      }
      changed_.fill();
      thread_.join();
    } else {
      thread_.detach();
    }
  }

  [[nodiscard]] int fd() const noexcept { return ready_.fd(); }

  void watch(int fd, short events) {
    {
      const std::lock_guard lock(mutex_);
      watched_[fd] = events;
    }
    changed_.fill();
  }

  void wake_at(TimePoint instant) noexcept {
    {
      const std::lock_guard lock(mutex_);
      instant_ = instant;
    }
    changed_.fill();
  }

  std::size_t take_ready(std::span<int> fds) noexcept {
    const std::lock_guard lock(mutex_);
    const std::size_t count = std::min(fds.size(), found_.size());
    std::copy_n(found_.begin(), count, fds.begin());
    found_.erase(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(count));
    if (found_.empty()) ready_.empty();
    return count;
  }

 private:
  /// A pipe, which is readable from fill() until empty().
  class Signal : NonCopyable {
   public:
    Signal() {
      if (!open_pipe(ends_)) throw std::system_error(errno, std::system_category(), "pipe");
      for (const int fd : ends_) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
    ~Signal() {
      for (const int fd : ends_) ::close(fd);
    }
    [[nodiscard]] int fd() const noexcept { return ends_[0]; }
    void fill() const noexcept { [[maybe_unused]] const auto written = ::write(ends_[1], "", 1); }
    void empty() const noexcept {
      std::array<char, 64> bytes{};
      while (::read(ends_[0], bytes.data(), bytes.size()) > 0) continue;
    }

   private:
    std::array<int, 2> ends_{-1, -1};
  };

  void run() {
    std::vector<pollfd> polled;
    for (;;) {
      std::optional<TimePoint> until;
      {
        const std::lock_guard lock(mutex_);
        if (ends_) return;
        polled.assign(1, {changed_.fd(), POLLIN, 0});
        for (const auto& [fd, events] : watched_) polled.push_back({fd, events, 0});
        until = instant_;
      }
      ::poll(polled.data(), static_cast<nfds_t>(polled.size()), milliseconds_until(until));
      changed_.empty();
      note(polled);
    }
  }

  /// Rounded up.
  static int milliseconds_until(const std::optional<TimePoint>& instant) {
    constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
    if (!instant) return -1;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*instant - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp(left, std::chrono::milliseconds(0), kLongest).count());
  }

  void note(const std::vector<pollfd>& polled) {
    const std::lock_guard lock(mutex_);
    bool is_news = instant_ && std::chrono::steady_clock::now() >= *instant_;
    if (is_news) instant_.reset();
    for (const pollfd& each : std::span(polled).subspan(1)) {
      if (each.revents == 0 || watched_.erase(each.fd) == 0) continue;
      found_.push_back(each.fd);
      is_news = true;
    }
    if (is_news) ready_.fill();
  }

  const pid_t owner_ = ::getpid();
  Signal ready_;
  Signal changed_;
  std::mutex mutex_;
  std::map<int, short> watched_;  // guarded by mutex_, as all below
  std::vector<int> found_;
  std::optional<TimePoint> instant_;
  bool ends_ = false;
  std::thread thread_;
};

Readiness::Readiness() : poller_(std::make_unique<Poller>()) {}
Readiness::~Readiness() = default;
int Readiness::fd() const noexcept { return poller_->fd(); }
void Readiness::watch(int fd, short events) { poller_->watch(fd, events); }
void Readiness::wake_at(TimePoint instant) noexcept { poller_->wake_at(instant); }
std::size_t Readiness::take_ready(std::span<int> fds) noexcept { return poller_->take_ready(fds); }

}  // namespace overlimit::platform

#endif
