#include "redis/transport/errand.hpp"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include "overlimit/forks.hpp"
#include "platform/descriptors.hpp"

namespace overlimit::redis::transport {
namespace {

/// Blocks signals in a new thread, so that they go to the threads of the program, whose waits they end.
class SignalsBlocked : NonCopyable {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

Errand::Errand() {
  const OutsideForks outside;
  std::array<int, 2> ends{};
  if (!platform::open_pipe(ends)) throw std::system_error(errno, std::system_category(), "pipe");
  event_ = OwnDescriptor::opened([&] { return ends[0]; });
  writer_ = OwnDescriptor::opened([&] { return ends[1]; });
}

std::shared_ptr<Errand> Errand::begun(std::function<void()> work) {
  std::shared_ptr<Errand> errand(new Errand);
  const SignalsBlocked blocked;
  std::thread([errand, work = std::move(work)] {
    work();
    errand->end();
  }).detach();
  return errand;
}

void Errand::end() noexcept {
  done_.store(true, std::memory_order_release);
  [[maybe_unused]] const auto written = ::write(writer_.fd(), "", 1);
}

}  // namespace overlimit::redis::transport
