#include "platform/sending.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string>

namespace overlimit::platform {
namespace {

struct Peers {
  Peers() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds.data()), 0); }
  ~Peers() {
    ::close(fds[0]);
    ::close(fds[1]);
  }
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  std::array<int, 2> fds{};
};

bool is_sigpipe_pending() {
  sigset_t pending;
  ::sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

TEST(Sending, ToAPeerThatIsGoneRaisesNoSignal) {
  const Peers peers;
  ::shutdown(peers.fds[1], SHUT_RDWR);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(send(peers.fds[0], "x"), -1);
    EXPECT_EQ(errno, EPIPE);
  }
  EXPECT_FALSE(is_sigpipe_pending());
}

TEST(Sending, NeverWaits) {
  const Peers peers;
  const std::string much(std::size_t{1} << 16, 'x');
  ssize_t sent = 0;
  for (int i = 0; i < 1000 && sent >= 0; ++i) sent = send(peers.fds[0], much);
  EXPECT_EQ(sent, -1);
  EXPECT_TRUE(errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace
}  // namespace overlimit::platform
