#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "overlimit/errors.hpp"
#include "redis/protocol/session.hpp"

namespace overlimit::redis::protocol {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart{1000s};
constexpr auto kTimeout = 100ms;

class SessionTest : public testing::Test {
 protected:
  static Endpoint with_handshake() {
    Endpoint endpoint;
    endpoint.username = "alice";
    endpoint.password = "s3cret";
    endpoint.database = 2;
    return endpoint;
  }

  static Ticket submit(Session& session, std::string_view request) {
    return session.submit(request, kStart, kStart + kTimeout);
  }

  static void send_all(Session& session) { session.sent(session.outgoing().size()); }

  template <typename Error>
  static Error failure_of(Session& session, Ticket ticket) {
    try {
      (void)session.take(ticket);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no such error";
    return Error("none");
  }

  Session plain_{Endpoint{}};
};

TEST_F(SessionTest, SendsRequestsInOrderAndOnce) {
  EXPECT_EQ(plain_.outgoing(), "");
  (void)submit(plain_, "one");
  (void)submit(plain_, "two");
  EXPECT_EQ(plain_.outgoing(), "onetwo");
  plain_.sent(4);
  EXPECT_EQ(plain_.outgoing(), "wo");
  plain_.sent(2);
  EXPECT_EQ(plain_.outgoing(), "");
}

TEST_F(SessionTest, GivesEachTicketItsOwnReply) {
  const Ticket one = submit(plain_, "one");
  const Ticket two = submit(plain_, "two");
  EXPECT_FALSE(plain_.take(one).has_value());
  plain_.feed(":1\r\n:2\r\n", kStart);
  EXPECT_EQ(plain_.take(two).value().as_integer(), 2);
  EXPECT_EQ(plain_.take(one).value().as_integer(), 1);
  EXPECT_TRUE(plain_.alive());
}

TEST_F(SessionTest, ReturnsErrorRepliesLikeAnyOther) {
  const Ticket ticket = submit(plain_, "one");
  plain_.feed("-NOSCRIPT No matching script.\r\n", kStart);
  EXPECT_TRUE(plain_.take(ticket).value().is_error());
  EXPECT_TRUE(plain_.alive());
}

TEST_F(SessionTest, DropsTheReplyOfAnAbandonedRequest) {
  const Ticket gone = submit(plain_, "one");
  plain_.abandon(gone);
  EXPECT_EQ(plain_.tombstones(), 1U);
  const Ticket waiting = submit(plain_, "two");
  plain_.feed(":1\r\n", kStart);
  EXPECT_EQ(plain_.tombstones(), 0U);
  EXPECT_FALSE(plain_.take(waiting).has_value());
  plain_.feed(":2\r\n", kStart);
  EXPECT_EQ(plain_.take(waiting).value().as_integer(), 2);
}

TEST_F(SessionTest, ForgetsAnAnsweredRequestThatIsAbandoned) {
  const Ticket gone = submit(plain_, "one");
  plain_.feed(":1\r\n", kStart);
  plain_.abandon(gone);
  EXPECT_EQ(plain_.tombstones(), 0U);
  const Ticket next = submit(plain_, "two");
  plain_.feed(":2\r\n", kStart);
  EXPECT_EQ(plain_.take(next).value().as_integer(), 2);
}

TEST_F(SessionTest, KeepsTicketsApartOverThousandsOfCallsWithTombstones) {
  for (int call = 0; call < 3000; ++call) {
    const Ticket ticket = submit(plain_, "x");
    send_all(plain_);
    if (call % 3 == 0) plain_.abandon(ticket);
    plain_.feed(":" + std::to_string(call) + "\r\n", kStart);
    if (call % 3 != 0) {
      ASSERT_EQ(plain_.take(ticket).value().as_integer(), call);
    }
  }
  EXPECT_EQ(plain_.tombstones(), 0U);
}

TEST_F(SessionTest, HoldsRequestsBackUntilTheHandshakeIsGranted) {
  Session session(with_handshake());
  const Ticket ticket = submit(session, "request");
  EXPECT_EQ(session.outgoing(),
            "*3\r\n$4\r\nAUTH\r\n$5\r\nalice\r\n$6\r\ns3cret\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n");
  send_all(session);
  session.feed("+OK\r\n", kStart);
  EXPECT_TRUE(session.outgoing().empty());
  EXPECT_TRUE(session.has_unsent());
  EXPECT_FALSE(session.may_have_left(ticket));
  session.feed("+OK\r\n", kStart);
  EXPECT_EQ(session.outgoing(), "request");
  send_all(session);
  EXPECT_FALSE(session.has_unsent());
  (void)submit(session, "another");
  EXPECT_EQ(session.outgoing(), "another");
}

TEST_F(SessionTest, AsksOnlyForWhatTheEndpointNeeds) {
  Endpoint endpoint;
  endpoint.password = "pw";
  EXPECT_EQ(Session(endpoint).outgoing(), "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n");
}

TEST_F(SessionTest, HidesTheRepliesToTheHandshake) {
  Session session(with_handshake());
  const Ticket ticket = submit(session, "request");
  send_all(session);
  session.feed("+OK\r\n+OK\r\n", kStart);
  EXPECT_FALSE(session.take(ticket).has_value());
  send_all(session);
  session.feed(":7\r\n", kStart);
  EXPECT_EQ(session.take(ticket).value().as_integer(), 7);
}

TEST_F(SessionTest, FailsEveryRequestOfARefusedHandshakeWithItsFirstError) {
  for (const char* replies :
       {"-WRONGPASS invalid\r\n-NOAUTH x\r\n", "+OK\r\n-ERR DB index is out of range\r\n"}) {
    Session session(with_handshake());
    const Ticket one = submit(session, "one");
    const Ticket two = submit(session, "two");
    send_all(session);
    session.feed(replies, kStart);
    EXPECT_FALSE(session.alive());
    const auto error = failure_of<StoreConfigError>(session, one);
    EXPECT_NE(std::string(error.what()).find(replies[0] == '-' ? "WRONGPASS" : "DB index"),
              std::string::npos);
    EXPECT_FALSE(error.maybe_charged());
    EXPECT_FALSE(failure_of<StoreConfigError>(session, two).maybe_charged());
  }
}

TEST_F(SessionTest, KnowsThatAServerThatRefusesConnectionsExecutedNothing) {
  Session session(with_handshake());
  const Ticket ticket = submit(session, "one");
  send_all(session);
  session.feed("-ERR max number of clients reached\r\n", kStart);
  EXPECT_FALSE(failure_of<StoreUnavailable>(session, ticket).maybe_charged());
}

TEST_F(SessionTest, TellsWhetherBytesOfARequestHadLeftWhenTheConnectionWasLost) {
  const Ticket complete = submit(plain_, "one");
  const Ticket partly = submit(plain_, "two");
  const Ticket unsent = submit(plain_, "three");
  plain_.sent(4);
  EXPECT_TRUE(plain_.may_have_left(partly));
  EXPECT_FALSE(plain_.may_have_left(unsent));
  plain_.lost("reset by peer");
  EXPECT_TRUE(failure_of<StoreUnavailable>(plain_, complete).maybe_charged());
  EXPECT_TRUE(failure_of<StoreUnavailable>(plain_, partly).maybe_charged());
  EXPECT_FALSE(failure_of<StoreUnavailable>(plain_, unsent).maybe_charged());
}

TEST_F(SessionTest, StillHandsOutWhatCameBeforeTheLoss) {
  const Ticket answered = submit(plain_, "one");
  const Ticket outstanding = submit(plain_, "two");
  send_all(plain_);
  plain_.feed(":1\r\n", kStart);
  plain_.lost("reset by peer");
  EXPECT_EQ(plain_.take(answered).value().as_integer(), 1);
  const auto error = failure_of<StoreUnavailable>(plain_, outstanding);
  EXPECT_NE(std::string(error.what()).find("reset by peer"), std::string::npos);
}

TEST_F(SessionTest, BreaksOnMalformedBytes) {
  const Ticket ticket = submit(plain_, "one");
  send_all(plain_);
  plain_.feed("HTTP/1.1 200\r\n", kStart);
  EXPECT_FALSE(plain_.alive());
  EXPECT_TRUE(failure_of<StoreUnavailable>(plain_, ticket).maybe_charged());
}

TEST_F(SessionTest, BreaksOnAReplyNobodyAskedFor) {
  plain_.feed("+hello\r\n", kStart);
  EXPECT_FALSE(plain_.alive());
}

TEST_F(SessionTest, IsSilentAfterOneSecondForAShortTimeout) {
  EXPECT_FALSE(plain_.silent(kStart + 1h));
  plain_.abandon(submit(plain_, "one"));
  EXPECT_FALSE(plain_.silent(kStart + 999ms));
  EXPECT_TRUE(plain_.silent(kStart + 1s));
}

TEST_F(SessionTest, IsSilentAfterFourTimeoutsForALongOne) {
  (void)plain_.submit("one", kStart, kStart + 500ms);
  EXPECT_FALSE(plain_.silent(kStart + 1999ms));
  EXPECT_TRUE(plain_.silent(kStart + 2s));
}

TEST_F(SessionTest, IsNotSilentWhileAnythingComes) {
  plain_.abandon(submit(plain_, "one"));
  (void)submit(plain_, "two");
  plain_.feed(":1\r\n", kStart + 900ms);
  EXPECT_FALSE(plain_.silent(kStart + 1899ms));
  EXPECT_TRUE(plain_.silent(kStart + 1900ms));
}

}  // namespace
}  // namespace overlimit::redis::protocol
