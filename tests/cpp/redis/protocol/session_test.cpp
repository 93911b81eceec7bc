#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/errors.hpp"
#include "redis/protocol/session.hpp"

namespace overlimit::redis::protocol {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kOpened{1000s};
constexpr auto kTimeout = 100ms;

constexpr std::string_view kHello = "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.1\r\n";
constexpr std::string_view kGranted = "+PONG\r\n";

/// A session, driven by a test.
class Driven : public Session {
 public:
  explicit Driven(const Endpoint& endpoint = {}) : Session(endpoint, kOpened, kOpened + kTimeout) {}

  Ticket submit(std::string_view request, Waiter waiter = nullptr) {
    return Session::submit(request, kOpened, kOpened + kTimeout, waiter);
  }
  void send_all() { sent(outgoing().size()); }
  void feed(std::string_view bytes, TimePoint now = kOpened) { Session::feed(bytes, now, answered); }
  Driven& complete_handshake() {
    send_all();
    feed(std::string(kHello) + std::string(kGranted));
    return *this;
  }
  [[nodiscard]] bool silent(TimePoint now) const { return now >= silent_at(); }

  std::vector<Waiter> answered;
};

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() { plain_.complete_handshake(); }

  static Endpoint with_login() {
    Endpoint endpoint;
    endpoint.username = "alice";
    endpoint.password = "s3cret";
    endpoint.database = 2;
    return endpoint;
  }

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

  Driven plain_;
};

TEST_F(SessionTest, GivesNoReplyToARequestThatHasNotBeenSent) {
  const Ticket ticket = plain_.submit("one");
  plain_.feed("+early\r\n");
  EXPECT_FALSE(plain_.alive());
  EXPECT_TRUE(plain_.answered.empty());
  EXPECT_FALSE(failure_of<StoreUnavailable>(plain_, ticket).maybe_charged());
}

TEST_F(SessionTest, ReadsNothingMoreOnceTheHandshakeHasFailed) {
  Driven refused(with_login());
  const Ticket ticket = refused.submit("one");
  refused.send_all();
  refused.feed("-WRONGPASS no\r\n+OK\r\n+PONG\r\n:1\r\n");
  EXPECT_FALSE(refused.alive());
  EXPECT_TRUE(refused.answered.empty());
  EXPECT_FALSE(failure_of<StoreConfigError>(refused, ticket).maybe_charged());
}

TEST_F(SessionTest, SendsRequestsInOrderAndOnce) {
  EXPECT_EQ(plain_.outgoing(), "");
  (void)plain_.submit("one");
  (void)plain_.submit("two");
  EXPECT_EQ(plain_.outgoing(), "onetwo");
  (void)plain_.submit("three");
  plain_.sent(4);
  EXPECT_EQ(plain_.outgoing(), "wo");
  plain_.sent(2);
  EXPECT_EQ(plain_.outgoing(), "three");
  plain_.send_all();
  EXPECT_FALSE(plain_.has_outgoing());
  EXPECT_EQ(plain_.outgoing(), "");
}

TEST_F(SessionTest, GivesEachTicketItsOwnReply) {
  const Ticket one = plain_.submit("one");
  const Ticket two = plain_.submit("two");
  EXPECT_FALSE(plain_.take(one).has_value());
  plain_.send_all();
  plain_.feed(":1\r\n:2\r\n");
  EXPECT_EQ(plain_.take(two).value().as_integer(), 2);
  EXPECT_EQ(plain_.take(one).value().as_integer(), 1);
  EXPECT_TRUE(plain_.alive());
}

TEST_F(SessionTest, ReturnsErrorRepliesLikeAnyOther) {
  const Ticket ticket = plain_.submit("one");
  plain_.send_all();
  plain_.feed("-NOSCRIPT No matching script.\r\n");
  EXPECT_TRUE(plain_.take(ticket).value().is_error());
  EXPECT_TRUE(plain_.alive());
}

TEST_F(SessionTest, DropsTheReplyOfAnAbandonedRequest) {
  const Ticket gone = plain_.submit("one");
  plain_.send_all();
  plain_.abandon(gone);
  EXPECT_EQ(plain_.unanswered(), 1U);
  const Ticket waiting = plain_.submit("two");
  plain_.feed(":1\r\n");
  EXPECT_EQ(plain_.unanswered(), 1U);
  EXPECT_FALSE(plain_.take(waiting).has_value());
  plain_.send_all();
  plain_.feed(":2\r\n");
  EXPECT_EQ(plain_.take(waiting).value().as_integer(), 2);
}

TEST_F(SessionTest, ForgetsAnAnsweredRequestThatIsAbandoned) {
  const Ticket gone = plain_.submit("one");
  plain_.send_all();
  plain_.feed(":1\r\n");
  plain_.abandon(gone);
  EXPECT_EQ(plain_.unanswered(), 0U);
  const Ticket next = plain_.submit("two");
  plain_.send_all();
  plain_.feed(":2\r\n");
  EXPECT_EQ(plain_.take(next).value().as_integer(), 2);
}

TEST_F(SessionTest, KeepsTicketsApartOverThousandsOfCallsWithTombstones) {
  for (int call = 0; call < 3000; ++call) {
    const Ticket ticket = plain_.submit("x");
    plain_.send_all();
    if (call % 3 == 0) plain_.abandon(ticket);
    plain_.feed(":" + std::to_string(call) + "\r\n");
    if (call % 3 != 0) {
      ASSERT_EQ(plain_.take(ticket).value().as_integer(), call);
    }
  }
  EXPECT_EQ(plain_.unanswered(), 0U);
}

TEST_F(SessionTest, HoldsCommandsBackUntilItsHandshakeIsComplete) {
  Driven session(with_login());
  const Ticket ticket = session.submit("request");
  EXPECT_EQ(session.outgoing(),
            "*5\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$4\r\nAUTH\r\n$5\r\nalice\r\n$6\r\ns3cret\r\n"
            "*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n*1\r\n$4\r\nPING\r\n");
  session.send_all();
  session.feed(kHello);
  session.feed("+OK\r\n");
  EXPECT_FALSE(session.has_outgoing());
  EXPECT_FALSE(session.is_established());
  EXPECT_FALSE(session.may_have_left(ticket));
  session.feed(kGranted);
  EXPECT_TRUE(session.is_established());
  EXPECT_EQ(session.outgoing(), "request");
  session.send_all();
  EXPECT_TRUE(session.may_have_left(ticket));
  (void)session.submit("another");
  EXPECT_EQ(session.outgoing(), "another");
  session.feed(":7\r\n");
  EXPECT_EQ(session.take(ticket).value().as_integer(), 7);
}

TEST_F(SessionTest, LogsInOnlyAsTheEndpointAsksForIt) {
  EXPECT_EQ(Driven().outgoing(), "*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n*1\r\n$4\r\nPING\r\n");
  Endpoint endpoint;
  endpoint.password = "pw";
  EXPECT_TRUE(Driven(endpoint).outgoing().starts_with(
      "*5\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$2\r\npw\r\n"));
}

TEST_F(SessionTest, GivesTheConnectionItsNameWhenItSaysHello) {
  Endpoint endpoint;
  endpoint.client_name = "shop";
  EXPECT_EQ(Driven(endpoint).outgoing(),
            "*4\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$7\r\nSETNAME\r\n$4\r\nshop\r\n*1\r\n$4\r\nPING\r\n");
  endpoint.password = "pw";
  EXPECT_TRUE(Driven(endpoint).outgoing().starts_with(
      "*7\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$2\r\npw\r\n$7\r\nSETNAME\r\n"));
}

TEST_F(SessionTest, FailsEveryCommandAfterAFailedHandshakeWithItsFirstError) {
  for (const std::string& replies : {std::string("-WRONGPASS invalid\r\n-NOAUTH x\r\n"),
                                     std::string(kHello) + "-ERR DB index is out of range\r\n"}) {
    Driven session(with_login());
    const Ticket one = session.submit("one");
    const Ticket two = session.submit("two");
    session.send_all();
    session.feed(replies);
    EXPECT_FALSE(session.alive());
    EXPECT_FALSE(session.is_established());
    const auto error = failure_of<StoreConfigError>(session, one);
    EXPECT_NE(std::string(error.what()).find(replies[0] == '-' ? "WRONGPASS" : "DB index"),
              std::string::npos);
    EXPECT_FALSE(error.maybe_charged());
    EXPECT_FALSE(failure_of<StoreConfigError>(session, two).maybe_charged());
  }
}

TEST_F(SessionTest, KnowsThatAServerThatRefusesConnectionsExecutedNothing) {
  Driven session;
  const Ticket ticket = session.submit("one");
  session.send_all();
  session.feed("-ERR max number of clients reached\r\n");
  EXPECT_FALSE(failure_of<StoreUnavailable>(session, ticket).maybe_charged());
}

TEST_F(SessionTest, BelievesAServerThatRefusesItBeforeAnythingWasSent) {
  Driven full;
  const Ticket ticket = full.submit("one");
  full.feed("-ERR max number of clients reached\r\n");
  const auto error = failure_of<StoreUnavailable>(full, ticket);
  EXPECT_NE(std::string_view(error.what()).find("maxclients"), std::string_view::npos) << error.what();
  EXPECT_FALSE(error.maybe_charged());
}

TEST_F(SessionTest, TakesNothingButARefusalBeforeAnythingWasSent) {
  Driven early;
  early.feed("+PONG\r\n");
  EXPECT_FALSE(early.alive());
  EXPECT_FALSE(early.is_established());
}

TEST_F(SessionTest, GoesOnWithAUserWhoMayNotPing) {
  Driven session;
  session.send_all();
  session.feed(std::string(kHello) + "-NOPERM this user has no permissions to run the 'ping' command\r\n");
  EXPECT_TRUE(session.is_established());
}

TEST_F(SessionTest, TellsOfAServerThatServesNobodyYet) {
  Driven session;
  session.send_all();
  session.feed(std::string(kHello) + "-LOADING Redis is loading the dataset in memory\r\n");
  EXPECT_TRUE(session.is_established());
  ASSERT_TRUE(session.out_of_service());
  EXPECT_NE(session.out_of_service()->what().find("LOADING"), std::string::npos);
  EXPECT_FALSE(plain_.out_of_service());
}

TEST_F(SessionTest, ForgivesNothingButAForbiddenPing) {
  Driven session(with_login());
  const Ticket ticket = session.submit("one");
  session.send_all();
  session.feed(std::string(kHello) +
               "-NOPERM this user has no permissions to run the 'select' command\r\n+PONG\r\n");
  EXPECT_FALSE(failure_of<StoreConfigError>(session, ticket).maybe_charged());
}

TEST_F(SessionTest, TellsWhetherBytesOfARequestHadLeftWhenTheConnectionWasLost) {
  const Ticket complete = plain_.submit("one");
  const Ticket partly = plain_.submit("two");
  const Ticket unsent = plain_.submit("three");
  (void)plain_.outgoing();
  plain_.sent(4);
  EXPECT_TRUE(plain_.may_have_left(partly));
  EXPECT_FALSE(plain_.may_have_left(unsent));
  plain_.lost("reset by peer");
  EXPECT_TRUE(failure_of<StoreUnavailable>(plain_, complete).maybe_charged());
  EXPECT_TRUE(failure_of<StoreUnavailable>(plain_, partly).maybe_charged());
  EXPECT_FALSE(failure_of<StoreUnavailable>(plain_, unsent).maybe_charged());
}

TEST_F(SessionTest, StillHandsOutWhatCameBeforeTheLoss) {
  const Ticket answered = plain_.submit("one");
  const Ticket outstanding = plain_.submit("two");
  plain_.send_all();
  plain_.feed(":1\r\n");
  plain_.lost("reset by peer");
  EXPECT_EQ(plain_.take(answered).value().as_integer(), 1);
  const auto error = failure_of<StoreUnavailable>(plain_, outstanding);
  EXPECT_NE(std::string(error.what()).find("reset by peer"), std::string::npos);
}

TEST_F(SessionTest, BreaksOnMalformedBytes) {
  const Ticket ticket = plain_.submit("one");
  plain_.send_all();
  plain_.feed("HTTP/1.1 200\r\n");
  EXPECT_FALSE(plain_.alive());
  EXPECT_TRUE(failure_of<StoreUnavailable>(plain_, ticket).maybe_charged());
}

TEST_F(SessionTest, BreaksOnAReplyNobodyAskedFor) {
  plain_.feed("+hello\r\n");
  EXPECT_FALSE(plain_.alive());
}

TEST_F(SessionTest, NeverSendsARequestThatWasAbandonedBeforeItWasOffered) {
  const Ticket one = plain_.submit("one");
  const Ticket two = plain_.submit("two");
  const Ticket three = plain_.submit("three");
  plain_.abandon(two);
  EXPECT_EQ(plain_.outgoing(), "onethree");
  plain_.send_all();
  plain_.feed(":1\r\n:3\r\n");
  EXPECT_EQ(plain_.take(three).value().as_integer(), 3);
  EXPECT_EQ(plain_.take(one).value().as_integer(), 1);
  EXPECT_EQ(plain_.unanswered(), 0U);
  EXPECT_TRUE(plain_.alive());
}

TEST_F(SessionTest, NeverSendsWhatWasAbandonedBeforeTheHandshakeWasComplete) {
  Driven session;
  const Ticket gone = session.submit("gone");
  session.send_all();
  session.abandon(gone);
  session.feed(std::string(kHello) + std::string(kGranted));
  EXPECT_FALSE(session.has_outgoing());
  const Ticket next = session.submit("next");
  EXPECT_EQ(session.outgoing(), "next");
  session.send_all();
  session.feed(":1\r\n");
  EXPECT_EQ(session.take(next).value().as_integer(), 1);
}

TEST_F(SessionTest, BreaksWhenARequestThatLeftInPartIsAbandoned) {
  const Ticket partly = plain_.submit("one");
  (void)plain_.outgoing();
  plain_.sent(2);
  plain_.abandon(partly);
  EXPECT_FALSE(plain_.alive());
}

TEST_F(SessionTest, CountsWhatLeftInOnePieceUntilItsLastReply) {
  (void)plain_.submit("one");
  (void)plain_.submit("two");
  plain_.send_all();
  (void)plain_.submit("three");
  plain_.send_all();
  EXPECT_EQ(plain_.outstanding_flushes(), 2U);
  plain_.feed(":1\r\n");
  EXPECT_EQ(plain_.outstanding_flushes(), 2U);
  plain_.feed(":2\r\n");
  EXPECT_EQ(plain_.outstanding_flushes(), 1U);
  plain_.feed(":3\r\n");
  EXPECT_EQ(plain_.outstanding_flushes(), 0U);
  (void)plain_.submit("four");
  (void)plain_.outgoing();
  plain_.sent(2);
  EXPECT_TRUE(plain_.is_mid_flush());
  EXPECT_EQ(plain_.outstanding_flushes(), 0U);
}

TEST_F(SessionTest, TellsWhoWasAnsweredAndWhoWaitsInTheirOrder) {
  int callers[4] = {};
  (void)plain_.submit("one", &callers[0]);
  (void)plain_.submit("two", &callers[1]);
  const Ticket gone = plain_.submit("three", &callers[2]);
  (void)plain_.submit("four", &callers[3]);
  plain_.send_all();
  plain_.abandon(gone);
  plain_.feed(":1\r\n");
  EXPECT_EQ(plain_.answered, std::vector<Waiter>{&callers[0]});
  std::vector<Waiter> waiting;
  plain_.waiting(waiting);
  EXPECT_EQ(waiting, (std::vector<Waiter>{&callers[1], &callers[3]}));
}

TEST_F(SessionTest, IsSilentAfterOneSecondForAShortTimeout) {
  EXPECT_FALSE(plain_.silent(kOpened + 1h));
  const Ticket one = plain_.submit("one");
  plain_.send_all();
  plain_.abandon(one);
  EXPECT_FALSE(plain_.silent(kOpened + 999ms));
  EXPECT_TRUE(plain_.silent(kOpened + 1s));
}

TEST_F(SessionTest, IsSilentAfterFourTimeoutsForALongOne) {
  (void)plain_.Session::submit("one", kOpened, kOpened + 500ms, nullptr);
  EXPECT_FALSE(plain_.silent(kOpened + 1999ms));
  EXPECT_TRUE(plain_.silent(kOpened + 2s));
}

TEST_F(SessionTest, IsNotSilentWhileAnythingComes) {
  (void)plain_.submit("one");
  (void)plain_.submit("two");
  plain_.feed(":1\r\n", kOpened + 900ms);
  EXPECT_FALSE(plain_.silent(kOpened + 1899ms));
  EXPECT_TRUE(plain_.silent(kOpened + 1900ms));
}

}  // namespace
}  // namespace overlimit::redis::protocol
