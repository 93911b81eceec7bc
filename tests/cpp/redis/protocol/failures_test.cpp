#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "overlimit/errors.hpp"
#include "redis/protocol/failures.hpp"

namespace overlimit::redis::protocol {
namespace {

constexpr std::string_view kSha = "6b1bf486c81ceb7edf3c093f4c48582e38c0e791";

std::string wrapped_by_redis_6(std::string_view error) {
  return "ERR Error running script (call to f_" + std::string(kSha) +
         "): @user_script:1: @user_script: 1: " + std::string(error);
}

std::string with_suffix_of_redis_7(std::string_view error) {
  return std::string(error) + " script: " + std::string(kSha) + ", on @user_script:1.";
}

Endpoint secret_endpoint() {
  Endpoint endpoint;
  endpoint.username = "alice";
  endpoint.password = "s3cret";
  return endpoint;
}

template <typename Error>
std::string message_of(std::string_view error) {
  try {
    raise_error_reply(error, secret_endpoint().describe());
  } catch (const Error& raised) {
    EXPECT_FALSE(raised.maybe_charged());
    return raised.what();
  } catch (const std::exception& other) {
    ADD_FAILURE() << "another type for " << error << ": " << other.what();
  }
  return {};
}

TEST(Failures, ServersThatCannotServeNowAreRetryable) {
  for (const std::string_view error :
       {"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.",
        "NOREPLICAS Not enough good replicas to write.", "CLUSTERDOWN The cluster is down",
        "TRYAGAIN Multiple keys request during rehashing of slot", "ERR max number of clients reached"}) {
    EXPECT_TRUE(classify_error(error).is_unavailable()) << error;
    EXPECT_TRUE(classify_error(error).is_retryable()) << error;
  }
  for (const std::string_view error :
       {"MASTERDOWN Link with MASTER is down", "READONLY You can't write against a read only replica."}) {
    EXPECT_EQ(classify(Reply::error(std::string(error))).outcome, Outcome::not_master) << error;
    EXPECT_TRUE(classify(Reply::error(std::string(error))).is_retryable()) << error;
    EXPECT_THROW(raise_error_reply(error, Endpoint().describe()), StoreUnavailable);
  }
}

TEST(Failures, OnlyServersThatServeNoHitAreOutOfService) {
  for (const char* error : {"LOADING Redis is loading", "BUSY Redis is busy", "MASTERDOWN Link with MASTER",
                            "READONLY You can't write", "NOREPLICAS Not enough good replicas"}) {
    EXPECT_TRUE(classify(Reply::error(error)).is_out_of_service()) << error;
  }
  for (const char* error : {"OOM command not allowed", "TRYAGAIN Multiple keys",
                            "CLUSTERDOWN Hash slot not served", "NOSCRIPT No matching", "ERR what"}) {
    EXPECT_FALSE(classify(Reply::error(error)).is_out_of_service()) << error;
  }
  EXPECT_FALSE(classify(Reply::string("LOADING")).is_out_of_service());
}

TEST(Failures, AFullServerIsUnavailableAndNotRetried) {
  const Classified classified = classify_error("OOM command not allowed when used memory > 'maxmemory'.");
  EXPECT_EQ(classified.outcome, Outcome::unavailable);
  EXPECT_FALSE(classified.is_retryable());
}

TEST(Failures, WrongSettingsAreConfigErrors) {
  for (const std::string_view error :
       {"NOAUTH Authentication required.", "WRONGPASS invalid username-password pair or user is disabled.",
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "ERR This instance has cluster support disabled", "ERR DB index is out of range",
        "ERR Could not find scripting engine 'lua'",
        "ERR unknown command 'EVALSHA', with args beginning with: 'a'",
        "ERR SELECT is not allowed in cluster mode", "DENIED Redis is running in protected mode"}) {
    EXPECT_EQ(classify_error(error).outcome, Outcome::misconfigured) << error;
    EXPECT_FALSE(classify_error(error).is_retryable()) << error;
  }
}

TEST(Failures, AnErrorInsideAScriptMeansWhatItMeansOutside) {
  EXPECT_EQ(classify_error(wrapped_by_redis_6("-READONLY You can't write")).outcome, Outcome::not_master);
  EXPECT_EQ(classify_error(wrapped_by_redis_6("-OOM command not allowed")).outcome, Outcome::unavailable);
  EXPECT_EQ(
      classify_error(wrapped_by_redis_6("The user executing the script can't run this command")).outcome,
      Outcome::misconfigured);
  EXPECT_EQ(classify_error(wrapped_by_redis_6("Lua script attempted to access a non local key")).outcome,
            Outcome::cross_slot);
  EXPECT_EQ(classify_error(with_suffix_of_redis_7("READONLY You can't write")).outcome, Outcome::not_master);
  EXPECT_EQ(classify_error(with_suffix_of_redis_7("NOPERM ACL failure in script")).outcome,
            Outcome::misconfigured);
  EXPECT_EQ(classify_error(with_suffix_of_redis_7("ERR Script attempted to access a non local key")).outcome,
            Outcome::cross_slot);
}

TEST(Failures, KeysInSeveralSlotsAreTheCallersMistake) {
  constexpr std::string_view kError = "CROSSSLOT Keys in request don't hash to the same slot";
  EXPECT_EQ(classify_error(kError).outcome, Outcome::cross_slot);
  EXPECT_THROW(raise_error_reply(kError, Endpoint().describe()), CrossSlot);
}

TEST(Failures, AMissingScriptIsItsOwnCase) {
  EXPECT_EQ(classify_error("NOSCRIPT No matching script. Please use EVAL.").outcome, Outcome::no_script);
}

TEST(Failures, RedirectionsAreTheirOwnCasesAndConfigErrorsToWhoFollowsNone) {
  EXPECT_EQ(classify_error("MOVED 3999 127.0.0.1:6381").outcome, Outcome::moved);
  EXPECT_EQ(classify_error("ASK 3999 127.0.0.1:6381").outcome, Outcome::ask);
  EXPECT_EQ(classify_error("MOVEDX 3999 127.0.0.1:6381").outcome, Outcome::failed);
  EXPECT_NE(message_of<StoreConfigError>("MOVED 3999 127.0.0.1:6381").find("redis+cluster://"),
            std::string::npos);
  message_of<StoreConfigError>("ASK 3999 127.0.0.1:6381");
}

TEST(Failures, EverythingElseIsTheScripts) {
  for (const std::string_view error :
       {"ERR user_script:1: attempt to index nil", "WRONGTYPE Operation against a key",
        "BUSYGROUP Consumer Group name already exists", "BUSYKEY exists", "", "E"}) {
    EXPECT_EQ(classify_error(error).outcome, Outcome::failed) << error;
    EXPECT_FALSE(classify_error(error).is_retryable()) << error;
  }
  EXPECT_EQ(classify_error(wrapped_by_redis_6("attempt to index a nil value")).outcome, Outcome::failed);
}

TEST(Failures, ACodeIsOnlyLookedForWhereServersPutIt) {
  EXPECT_EQ(classify_error("ERR the value LOADING is odd").outcome, Outcome::failed);
  EXPECT_EQ(classify_error("ERR value-OOM is odd").outcome, Outcome::failed);
}

TEST(Failures, AreRaisedAsTheirTypeNamingTheEndpointAndWhatToDo) {
  const std::string message = message_of<StoreConfigError>("WRONGPASS invalid username-password pair");
  EXPECT_NE(message.find("localhost:6379/0"), std::string::npos);
  EXPECT_NE(message.find("WRONGPASS invalid"), std::string::npos);
  EXPECT_NE(message.find("in the URL"), std::string::npos);
  message_of<StoreUnavailable>("LOADING Redis is loading");
  message_of<ScriptError>("WRONGTYPE Operation against a key");
  message_of<ScriptError>("NOSCRIPT No matching script");
}

TEST(Failures, NeverRepeatTheArgumentsOfACommand) {
  const std::string message =
      message_of<ScriptError>("ERR unknown command 'AUTH', with args beginning with: 'alice' 's3cret' ");
  EXPECT_EQ(message.find("s3cret"), std::string::npos);
  EXPECT_EQ(message.find("alice"), std::string::npos);
  EXPECT_NE(message.find("unknown command 'AUTH'"), std::string::npos);
}

TEST(Endpoint, IsDescribedWithoutItsCredentials) {
  Endpoint endpoint = secret_endpoint();
  EXPECT_EQ(endpoint.describe(), "localhost:6379/0");
  endpoint.host = "::1";
  endpoint.database = 3;
  EXPECT_EQ(endpoint.describe(), "[::1]:6379/3");
  endpoint.unix_path = "/run/redis.sock";
  EXPECT_EQ(endpoint.describe(), "unix:///run/redis.sock?db=3");
  EXPECT_NE(endpoint, secret_endpoint());
  EXPECT_EQ(secret_endpoint(), secret_endpoint());
}

}  // namespace
}  // namespace overlimit::redis::protocol
