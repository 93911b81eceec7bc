// What real servers answer when something is wrong.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

#include "../limits.hpp"
#include "connections_fixture.hpp"
#include "overlimit/errors.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/script.hpp"

namespace overlimit::redis::transport {
namespace {

using protocol::Outcome;

TEST_F(ConnectionsTest, ADatabaseThatIsNotThereIsAConfigError) {
  Endpoint endpoint = server_->tcp();
  endpoint.database = 99;
  Connections connections(endpoint);
  error_of<StoreConfigError>([&] { (void)call(connections, {"PING"}); });
}

Outcome outcome_of(Connections& connections, std::initializer_list<std::string_view> command) {
  const Reply reply = call(connections, command);
  EXPECT_TRUE(reply.is_error());
  return protocol::classify(reply).outcome;
}

TEST(RealServer, WantsTheRightCredentials) {
  const Server server(
      {"--requirepass", "s3cret", "--user", "limiter", "on", ">pw", "~ol1:*", "+@all", "-set"});
  Connections without(server.tcp());
  error_of<StoreConfigError>([&] { (void)call(without, {"PING"}); });

  Endpoint endpoint = server.tcp();
  endpoint.password = "wrong";
  Connections wrong(endpoint);
  const auto error = error_of<StoreConfigError>([&] { (void)call(wrong, {"INCR", "ol1:a"}); });
  ASSERT_TRUE(error.has_value());
  EXPECT_FALSE(error->maybe_charged());
  EXPECT_EQ(std::string(error->what()).find("wrong "), std::string::npos);

  endpoint.password = "s3cret";
  Connections right(endpoint);
  EXPECT_EQ(text(right, {"PING"}), "PONG");
  EXPECT_EQ(integer(right, {"EXISTS", "ol1:a"}), 0);

  endpoint.username = "limiter";
  endpoint.password = "pw";
  Connections limited(endpoint);
  EXPECT_EQ(integer(limited, {"INCR", "ol1:a"}), 1);
  EXPECT_EQ(outcome_of(limited, {"INCR", "other:a"}), Outcome::misconfigured);
  EXPECT_EQ(outcome_of(limited, {"EVAL", "return redis.call('set', KEYS[1], 1)", "1", "ol1:a"}),
            Outcome::misconfigured);
}

TEST(RealServer, KnowsOurScriptsByTheSha1WeKnowThemBy) {
  const Server server;
  Connections connections(server.tcp());
  const Scripts scripts;
  for (const Script* script : {&scripts.decide_several, &scripts.read}) {
    EXPECT_EQ(text(connections, {"SCRIPT", "LOAD", script->text()}), script->sha1());
  }
}

TEST(RealServer, SaysWhyItCannotServe) {
  const Server server;
  Connections connections(server.tcp());
  constexpr std::string_view kWrite = "return redis.call('set', KEYS[1], 1)";
  EXPECT_EQ(outcome_of(connections, {"EVALSHA", std::string(40, '0'), "0"}), Outcome::no_script);
  EXPECT_EQ(outcome_of(connections, {"EVAL", "return nothing.here", "0"}), Outcome::failed);

  (void)call(connections, {"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(outcome_of(connections, {"SET", "a", "1"}), Outcome::unavailable);
  EXPECT_EQ(outcome_of(connections, {"EVAL", kWrite, "1", "a"}), Outcome::unavailable);
  (void)call(connections, {"CONFIG", "SET", "maxmemory", "0"});

  (void)call(connections, {"CONFIG", "SET", "min-replicas-to-write", "1"});
  EXPECT_EQ(outcome_of(connections, {"SET", "a", "1"}), Outcome::out_of_service);
  (void)call(connections, {"CONFIG", "SET", "min-replicas-to-write", "0"});

  (void)call(connections, {"REPLICAOF", "127.0.0.1", "1"});
  EXPECT_EQ(outcome_of(connections, {"EVAL", kWrite, "1", "a"}), Outcome::not_master);
  EXPECT_EQ(outcome_of(connections, {"SET", "a", "1"}), Outcome::not_master);
}

TEST(RealServer, SaysThatItIsFull) {
  const Server server;
  Connections admin(server.tcp());
  (void)call(admin, {"CONFIG", "SET", "maxclients", "1"});
  Endpoint another = server.tcp();
  another.database = 1;
  for (const Endpoint& endpoint : {another, server.unix_socket()}) {
    Connections connections(endpoint);
    const auto error = error_of<StoreUnavailable>([&] { (void)call(connections, {"PING"}); });
    ASSERT_TRUE(error.has_value());
    EXPECT_NE(std::string(error->what()).find("maxclients"), std::string::npos);
    EXPECT_FALSE(error->maybe_charged());
  }
}

}  // namespace
}  // namespace overlimit::redis::transport
