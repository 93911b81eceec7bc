// The plain store by itself: this program links no layer.
#include "redis/plain/plain_calls.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "../../columns.hpp"
#include "../../limits.hpp"
#include "../servers.hpp"

namespace overlimit::redis {
namespace {

using testing::Columns;
using testing::fixed_window;
using testing::kMinute;

class PlainCallsAlone : public ::testing::Test {
 protected:
  Status ask(const std::vector<Charge>& charges) {
    Columns columns(pairs_of(charges));
    Basis basis;
    (void)calls.decide({charges}, columns.rows(), basis, wait());
    EXPECT_EQ(basis.commands, 1);
    EXPECT_EQ(basis.source, Source::store);
    receipts = columns.receipt;
    return columns.status[0];
  }
  Wait wait() const { return Wait{transport::Deadline(std::chrono::seconds(10))}; }

  transport::Server server;
  StoreClient store{server.unix_socket(), {"ol"}, For(10'000'000)};
  PlainCalls calls{store};
  const CompiledPolicy policy{"p", {fixed_window(2, kMinute)}};
  const std::vector<Charge> one{{&policy, "a", 1}};
  std::vector<Receipt> receipts;
};

TEST_F(PlainCallsAlone, DecideRefundLockAndResetByTheirServer) {
  EXPECT_EQ(&store.top(), &calls);
  EXPECT_EQ(ask(one), Status::ok);
  EXPECT_EQ(ask(one), Status::ok);
  const std::vector<Receipt> charged = receipts;
  EXPECT_EQ(ask(one), Status::over);
  calls.refund({one}, charged, nullptr, wait());
  EXPECT_EQ(ask(one), Status::ok);
  EXPECT_EQ(ask(one), Status::over);
  calls.lock({one}, For(kMinute), {});
  EXPECT_EQ(ask(one), Status::locked);
  const std::string_view identifier = "a";
  calls.reset(policy.identity(), {&identifier, 1}, {});
  EXPECT_EQ(ask(one), Status::ok);
  EXPECT_FALSE(store.keyspace().is_observed());
}

// What is linked is what this program can name.
TEST(PlainCallsOnly, LinkNoLayer) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> names(::popen("nm -C /proc/$PPID/exe", "r"),
                                                              ::pclose);
  ASSERT_NE(names, nullptr);
  std::string all;
  std::array<char, 4096> room{};
  while (const std::size_t read = std::fread(room.data(), 1, room.size(), names.get()))
    all.append(room.data(), read);
  EXPECT_NE(all.find("overlimit::redis::PlainCalls::decide("), std::string::npos);
  for (const char* const layer : {"CachedRefusals", "CachedValues", "Leasing", "Leases::", "Recovery",
                                  "Snapshots", "CrossSlotCalls", "SplitCall", "RedisStore"}) {
    EXPECT_EQ(all.find(std::string("overlimit::redis::") + layer), std::string::npos) << layer;
    EXPECT_EQ(all.find(std::string("overlimit::") + layer), std::string::npos) << layer;
  }
}

}  // namespace
}  // namespace overlimit::redis
