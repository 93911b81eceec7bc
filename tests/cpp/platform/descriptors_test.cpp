#include "platform/descriptors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "../descriptors.hpp"

namespace overlimit::platform {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using namespace testing;

TEST(Descriptors, AreNotInheritedByOtherPrograms) {
  std::array<int, 2> ends{};
  ASSERT_TRUE(open_pipe(ends));
  const int socket = open_stream_socket(AF_UNIX);
  ASSERT_GE(socket, 0);
  for (const int fd : {ends[0], ends[1], socket}) {
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    ::close(fd);
  }
}

TEST(Descriptors, OfSocketsNeverWait) {
  const int socket = open_stream_socket(AF_INET);
  EXPECT_NE(::fcntl(socket, F_GETFL) & O_NONBLOCK, 0);
  ::close(socket);
}

TEST(Descriptors, SayWhyThereAreNone) {
  EXPECT_LT(open_stream_socket(-1), 0);
  EXPECT_NE(errno, 0);
}

TEST(Polls, LastAsLongAsTheyMay) {
  for (const auto longest : {0us, 1us, 400us, 1'000us, 2'500us}) {
    pollfd none{-1, 0, 0};
    const auto begin = Clock::now();
    EXPECT_EQ(poll(none, longest), 0);
    EXPECT_GE(Clock::now() - begin, longest) << "the rest of it would be spun away";
    EXPECT_LT(Clock::now() - begin, longest + 100ms);
  }
}

TEST(Polls, EndWithWhatComes) {
  const SocketPair pair;
  pollfd polled{pair.fd(), POLLIN, 0};
  EXPECT_EQ(poll(polled, 0ns), 0);
  pair.send();
  EXPECT_EQ(poll(polled, 1h), 1);
  EXPECT_EQ(polled.revents, POLLIN);
}

bool is_sigpipe_pending() {
  sigset_t pending;
  ::sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

TEST(Sending, ToAPeerThatIsGoneRaisesNoSignal) {
  SocketPair pair;
  pair.close_peer();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(send(pair.fd(), "x"), -1);
    EXPECT_EQ(errno, EPIPE);
  }
  EXPECT_FALSE(is_sigpipe_pending());
}

TEST(Sending, NeverWaits) {
  const SocketPair pair;
  const std::string much(std::size_t{1} << 16, 'x');
  ssize_t sent = 0;
  for (int i = 0; i < 1000 && sent >= 0; ++i) sent = send(pair.fd(), much);
  EXPECT_EQ(sent, -1);
  EXPECT_TRUE(errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace
}  // namespace overlimit::platform
