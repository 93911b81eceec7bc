#include "redis/protocol/addresses.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace overlimit::redis::protocol {
namespace {

const HostPort kRedirecting{"10.0.0.1", 7000};

TEST(Redirection, SaysWhichSlotIsWhere) {
  for (const std::string_view error : {"MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381"}) {
    const auto redirection = redirection_of(error, kRedirecting);
    ASSERT_TRUE(redirection.has_value());
    EXPECT_EQ(redirection->slot, 3999);
    EXPECT_EQ(redirection->to, (HostPort{"127.0.0.1", 6381}));
  }
}

TEST(Redirection, TakesNamesAndIpv6) {
  EXPECT_EQ(redirection_of("MOVED 0 node-1.example:1", kRedirecting)->to, (HostPort{"node-1.example", 1}));
  EXPECT_EQ(redirection_of("MOVED 16383 2001:db8::1:65535", kRedirecting)->to,
            (HostPort{"2001:db8::1", 65535}));
}

TEST(Redirection, ToNoHostIsToTheOneThatWasAsked) {
  EXPECT_EQ(redirection_of("MOVED 1 :7001", kRedirecting)->to, (HostPort{"10.0.0.1", 7001}));
}

TEST(Redirection, ThatIsMalformedIsNone) {
  for (const std::string_view error : {"",
                                       "MOVED",
                                       "MOVED ",
                                       "MOVED 1",
                                       "MOVED 1 ",
                                       "MOVED 1 a",
                                       "MOVED 1 a:",
                                       "MOVED 1 a:0",
                                       "MOVED 1 a:65536",
                                       "MOVED 1 a:-1",
                                       "MOVED 1 a:1x",
                                       "MOVED x a:1",
                                       "MOVED -1 a:1",
                                       "MOVED 16384 a:1",
                                       "MOVED 99999 a:1",
                                       "MOVED  a:1",
                                       "MOVED a:1",
                                       "MOVED 1 ?:7000",
                                       ":1",
                                       " :1",
                                       "  :1"}) {
    EXPECT_FALSE(redirection_of(error, kRedirecting).has_value()) << error;
  }
}

}  // namespace
}  // namespace overlimit::redis::protocol
