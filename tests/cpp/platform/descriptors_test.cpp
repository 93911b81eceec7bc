#include "platform/descriptors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace overlimit::platform {
namespace {

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

}  // namespace
}  // namespace overlimit::platform
