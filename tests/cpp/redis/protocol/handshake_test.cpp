#include "redis/protocol/failures.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "overlimit/errors.hpp"

namespace overlimit::redis::protocol {
namespace {

Reply hello(std::vector<std::pair<std::string, std::string>> fields) {
  std::vector<Reply> words;
  for (auto& [name, value] : fields) {
    words.push_back(Reply::string(name));
    words.push_back(Reply::string(value));
  }
  return Reply::array(std::move(words));
}

TEST(Handshake, TakesServersFromRedis6Point2On) {
  for (const char* version : {"6.2.0", "6.10.1", "7.0.15", "8.0.2", "255.255.255", "10.0"}) {
    EXPECT_FALSE(handshake_failure(hello({{"server", "redis"}, {"version", version}}), {})) << version;
  }
}

TEST(Handshake, RefusesOlderServersAsAMatterOfConfiguration) {
  for (const char* version : {"6.0.16", "5.9.9", "6", "6.1", "", "unknown"}) {
    const auto objection = handshake_failure(hello({{"version", version}}), {});
    ASSERT_TRUE(objection) << version;
    EXPECT_TRUE(objection->is_config());
    EXPECT_NE(objection->what().find("6.2"), std::string::npos);
  }
  const auto objection =
      handshake_failure(Reply::error("ERR unknown command `HELLO`, with args: s3cret"), {});
  ASSERT_TRUE(objection);
  EXPECT_TRUE(objection->is_config());
  EXPECT_EQ(objection->what().find("s3cret"), std::string::npos);
}

TEST(Handshake, RefusesAReplicaOnlyWhereAMasterIsWanted) {
  const Reply replica = hello({{"version", "7.0.1"}, {"role", "replica"}});
  EXPECT_FALSE(handshake_failure(replica, {}));
  Endpoint endpoint;
  endpoint.must_be_master = true;
  const auto objection = handshake_failure(replica, endpoint);
  ASSERT_TRUE(objection);
  EXPECT_FALSE(objection->is_config());
  EXPECT_FALSE(handshake_failure(hello({{"version", "7.0.1"}, {"role", "master"}}), endpoint));
}

TEST(Handshake, TakesWhatIsNoListOfFieldsForGranted) {
  EXPECT_FALSE(handshake_failure(Reply::status("OK"), {}));
  EXPECT_FALSE(handshake_failure(Reply::status("PONG"), {}));
}

TEST(Handshake, SurvivesAListThatIsNone) {
  std::vector<Reply> odd;
  odd.push_back(Reply::integer(1));
  odd.push_back(Reply::nil());
  odd.push_back(Reply::string("version"));
  EXPECT_TRUE(handshake_failure(Reply::array(std::move(odd)), {}));
}

}  // namespace
}  // namespace overlimit::redis::protocol
