// Forks in the middle of a call, and what children leave alone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include "../../forks.hpp"
#include "connections_fixture.hpp"
#include "overlimit/errors.hpp"
#include "redis/transport/per_process.hpp"
#include "signals.hpp"

namespace overlimit::redis::transport {
namespace {

using overlimit::testing::in_child;

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

TEST(OwnDescriptor, IsClosedInAChildWhichThenLeavesItsNumberAlone) {
  std::optional own(OwnDescriptor::opened([] { return ::dup(STDERR_FILENO); }));
  const int number = own->fd();
  const auto is_open = [number] { return ::fcntl(number, F_GETFD) >= 0; };
  ASSERT_TRUE(is_open());
  EXPECT_TRUE(in_child([&] {
    const bool was_open = is_open();
    ::dup2(STDERR_FILENO, number);
    own.reset();
    return !was_open && is_open();
  }));
  EXPECT_TRUE(is_open());
  own.reset();
  EXPECT_FALSE(is_open());
}

TEST_F(ConnectionsTest, AChildLeavesAloneWhatTookTheNumberOfAnInheritedDescriptor) {
  const auto highest = open_descriptors() + 64;
  Connections connections(server_->tcp());
  (void)call(connections, {"PING"});
  EXPECT_TRUE(in_child([&] {
    std::vector<int> files;
    for (int fd = 3; fd < highest; ++fd) {
      if (::dup2(STDERR_FILENO, fd) == fd) files.push_back(fd);
    }
    connections.close();
    return std::ranges::all_of(files, [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; });
  }));
}

/// What became of a call that forks at its first interruption; `pid` as fork() returned it.
struct ForkedCall {
  pid_t pid = -1;
  bool answered = false;
  bool maybe_charged = false;
};

ForkedCall call_that_forks(Connections& connections) {
  ForkedCall result;
  const Signals signals;
  const Interrupted fork_once = [&result] {
    if (result.pid == -1) result.pid = ::fork();
    return false;
  };
  try {
    result.answered = call(connections, {"BLPOP", "nothing:here", "0.2"}, kAmple, fork_once).is_nil();
  } catch (const StoreUnavailable& error) {
    result.maybe_charged = error.maybe_charged();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the call that forks: %s\n", error.what());
  }
  // The child has none of the parent's threads, so it ends before `signals` would join its one.
  if (result.pid == 0) ::_exit(result.maybe_charged && echoes(connections, "child", 10) ? 0 : 1);
  return result;
}

TEST_F(ConnectionsTest, AForkInTheMiddleOfItsOwnCallFailsInTheChildAlone) {
  Connections connections(server_->tcp());
  for (int i = 0; i < 5; ++i) {
    const ForkedCall result = call_that_forks(connections);
    EXPECT_TRUE(result.answered);
    EXPECT_TRUE(echoes(connections, "parent", 10));
    int status = -1;
    ::waitpid(result.pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

}  // namespace
}  // namespace overlimit::redis::transport
