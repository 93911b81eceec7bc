#include "platform/poll.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "platform/descriptors.hpp"

namespace overlimit::platform {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

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
  std::array<int, 2> ends{};
  ASSERT_TRUE(open_pipe(ends));
  pollfd polled{ends[0], POLLIN, 0};
  EXPECT_EQ(poll(polled, 0ns), 0);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_EQ(poll(polled, 1h), 1);
  EXPECT_EQ(polled.revents, POLLIN);
  for (const int fd : ends) ::close(fd);
}

}  // namespace
}  // namespace overlimit::platform
