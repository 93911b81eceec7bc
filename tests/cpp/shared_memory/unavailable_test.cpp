#include <gtest/gtest.h>

#include "overlimit/shared_memory_store.hpp"

namespace overlimit {
namespace {

TEST(SharedMemoryElsewhere, SaysWhenItIsAskedForWhatToUseInstead) {
  try {
    const SharedMemoryStore store({.name_or_path = "myapp"});
    FAIL() << "it was made";
  } catch (const StoreConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "shared memory needs locks of open file descriptions, by which processes notice that another "
        "one has died, and is there on Linux only: use Redis on a unix socket, such as "
        "'unix:///run/redis.sock', or memory:// if there is one process");
  }
}

}  // namespace
}  // namespace overlimit
