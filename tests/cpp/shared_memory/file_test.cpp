// The file that processes share: who may use it, what it is called, and what becomes of it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "../calls.hpp"
#include "../limits.hpp"
#include "overlimit/errors.hpp"
#include "own_file.hpp"

namespace overlimit {
namespace {

using namespace testing;

class SharedFiles : public ::testing::Test {
 protected:
  bool hits(SharedMemoryStore& store) { return hit(store, policy, {"a"}, kNow).allowed(); }
  /// What a call says that cannot use the file.
  std::string refusal(const SharedMemoryStore::Options& options) {
    SharedMemoryStore store(options);
    try {
      hits(store);
    } catch (const StoreConfigError& error) {
      return error.what();
    }
    return "";
  }
  [[nodiscard]] struct stat status() const {
    struct stat status {};
    EXPECT_EQ(::stat(file.path().c_str(), &status), 0);
    return status;
  }
  void create() {
    SharedMemoryStore store(file.options());
    ASSERT_TRUE(hits(store));
  }
  void change_header(const std::function<void(shared_memory::Header&)>& change) const {
    shared_memory::Header header{};
    std::fstream stream(file.path(), std::ios::binary | std::ios::in | std::ios::out);
    stream.read(reinterpret_cast<char*>(&header), sizeof header);
    change(header);
    header.check = shared_memory::check_of(header);
    stream.seekp(0);
    stream.write(reinterpret_cast<const char*>(&header), sizeof header);
  }

  const CompiledPolicy policy{"p", {fixed_window(2, kHour)}};
  OwnFile file;
};

TEST_F(SharedFiles, AreMadeByTheFirstCallAndNotBefore) {
  SharedMemoryStore store(file.options(1000, 300'000));
  EXPECT_EQ(store.size(), 0U);
  EXPECT_FALSE(std::filesystem::exists(file.path()));
  EXPECT_TRUE(hits(store));
  EXPECT_EQ(store.size(), 1U);
  const auto page = std::size_t(::sysconf(_SC_PAGESIZE));
  EXPECT_EQ(std::size_t(status().st_size), (300'000 + page - 1) / page * page);
  EXPECT_EQ(std::size_t(status().st_blocks) * 512, std::size_t(status().st_size)) << "all of it is there";
}

TEST_F(SharedFiles, HaveTheModeAskedForWhateverTheUmask) {
  const mode_t before = ::umask(0077);
  auto options = file.options();
  options.mode = 0660;
  SharedMemoryStore store(options);
  EXPECT_TRUE(hits(store));
  ::umask(before);
  EXPECT_EQ(status().st_mode & 07777U, 0660U);
}

TEST_F(SharedFiles, HaveNamesAndSizesThatCanBe) {
  for (const char* const name : {"", "a/b", "../x", "a b", "ä", "/", "/dev/shm/"}) {
    EXPECT_THROW(SharedMemoryStore({.name_or_path = name}), std::invalid_argument) << name;
  }
  EXPECT_THROW(SharedMemoryStore({.name_or_path = std::string(65, 'a')}), std::invalid_argument);
  EXPECT_NO_THROW(SharedMemoryStore({.name_or_path = std::string(64, 'a')}));
  EXPECT_THROW(SharedMemoryStore({.name_or_path = "a", .max_keys = 0}), std::invalid_argument);
  EXPECT_THROW(SharedMemoryStore({.name_or_path = "a", .max_bytes = 1000}), std::invalid_argument);
  EXPECT_THROW(SharedMemoryStore({.name_or_path = "a", .mode = 0777}), std::invalid_argument);
  EXPECT_THROW(SharedMemoryStore({.name_or_path = "a", .mode = 0060}), std::invalid_argument);
  EXPECT_THROW(SharedMemoryStore({.name_or_path = "a", .timeout = For(0)}), std::invalid_argument);
}

TEST_F(SharedFiles, AreNotUsedThroughASymbolicLink) {
  const OwnFile elsewhere;
  SharedMemoryStore store(elsewhere.options());
  ASSERT_TRUE(hits(store));
  std::filesystem::create_symlink(elsewhere.path(), file.path());
  EXPECT_NE(refusal(file.options()).find("symbolic link"), std::string::npos);
}

TEST_F(SharedFiles, AreRegularFiles) {
  ASSERT_EQ(::mkfifo(file.path().c_str(), 0600), 0);
  EXPECT_NE(refusal(file.options()).find("not a regular file"), std::string::npos);
  std::filesystem::remove(file.path());
  std::filesystem::create_directory(file.path());
  EXPECT_NE(refusal(file.options()), "");
}

TEST_F(SharedFiles, AreNotUsedWhenMoreMayWriteThemThanTheModeSays) {
  create();
  for (const mode_t wider : {0606U, 0620U, 0640U, 0604U}) {
    ASSERT_EQ(::chmod(file.path().c_str(), wider), 0);
    EXPECT_NE(refusal(file.options()).find("has the mode"), std::string::npos) << wider;
  }
  auto options = file.options();
  options.mode = 0660;
  ASSERT_EQ(::chmod(file.path().c_str(), 0600), 0);
  EXPECT_EQ(refusal(options), "") << "a narrower one is fine";
}

TEST_F(SharedFiles, OfSomethingElseAreNotToGetAnotherMode) {
  std::ofstream(file.path()) << "something else";
  ASSERT_EQ(::chmod(file.path().c_str(), 0644), 0);
  EXPECT_NE(refusal(file.options()).find("is not one of overlimit's"), std::string::npos);
}

TEST_F(SharedFiles, OfOtherUsersAreNotUsed) {
  if (::geteuid() != 0) return;  // only root can give files away
  create();
  ASSERT_EQ(::chown(file.path().c_str(), 12345, 12345), 0);
  EXPECT_NE(refusal(file.options()).find("belongs to the user with the id 12345"), std::string::npos);
}

TEST_F(SharedFiles, OfAnotherVersionOrBuildSayWhichAndWhatToDo) {
  create();
  change_header([](auto& header) { header.version = 99; });
  EXPECT_NE(refusal(file.options())
                .find("has version 99, and this release of overlimit uses version 3: call unlink()"),
            std::string::npos);
  change_header([](auto& header) {
    header.version = shared_memory::SharedTable::kFiles.version;
    ++header.layout;
  });
  EXPECT_NE(refusal(file.options()).find("lays it out in another way"), std::string::npos);
  SharedMemoryStore store(file.options());
  store.unlink();
  EXPECT_TRUE(hits(store));
}

TEST_F(SharedFiles, FromBeforeTheMachineWasStartedAreReplaced) {
  {
    SharedMemoryStore store(file.options());
    ASSERT_TRUE(hits(store));
    ASSERT_TRUE(hits(store));
    ASSERT_FALSE(hits(store));
  }
  change_header([](auto& header) { header.boot_id[0] = header.boot_id[0] == 'x' ? 'y' : 'x'; });
  SharedMemoryStore store(file.options());
  EXPECT_EQ(store.size(), 0U);
  EXPECT_TRUE(hits(store));
  EXPECT_EQ(store.size(), 1U);
}

TEST_F(SharedFiles, AreSharedByAllStoresOfAProcess) {
  SharedMemoryStore first(file.options());
  SharedMemoryStore second(file.options());
  EXPECT_TRUE(first.is_same_as(second));
  EXPECT_TRUE(hits(first));
  EXPECT_TRUE(first.is_same_as(second));
  EXPECT_TRUE(hits(second));
  EXPECT_FALSE(hits(first));
  EXPECT_EQ(first.processes().alive, 1U);
  const OwnFile another;
  EXPECT_FALSE(first.is_same_as(SharedMemoryStore(another.options())));
}

TEST_F(SharedFiles, GoOnForWhoHasThemOpenWhenTheyAreRemoved) {
  std::vector<std::string> warnings;
  auto options = file.options();
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  SharedMemoryStore first(options);
  ASSERT_TRUE(hits(first));
  EXPECT_FALSE(first.is_unlinked());
  first.unlink();
  first.unlink();
  SharedMemoryStore second(file.options());
  EXPECT_TRUE(hits(second));
  EXPECT_TRUE(hits(second)) << "it counts anew";
  EXPECT_TRUE(hits(first));
  EXPECT_FALSE(hits(first));
  EXPECT_TRUE(first.is_unlinked());
  EXPECT_TRUE(first.is_unlinked());
  EXPECT_EQ(warnings.size(), 1U);
  EXPECT_FALSE(first.is_same_as(second));
}

TEST_F(SharedFiles, WithoutRoomSayWhatToDo) {
  auto options = file.options(1000, std::size_t{1} << 42);
  EXPECT_NE(refusal(options).find("--shm-size"), std::string::npos);
  for (const auto& each : std::filesystem::directory_iterator("/dev/shm")) {
    EXPECT_FALSE(each.path().string().starts_with(file.path())) << each.path();
  }
}

TEST_F(SharedFiles, RememberForAMomentThatTheyCannotBeUsed) {
  std::ofstream(file.path()) << "something else";
  ASSERT_EQ(::chmod(file.path().c_str(), 0600), 0);
  SharedMemoryStore store(file.options());
  EXPECT_THROW(hits(store), StoreConfigError);
  std::filesystem::remove(file.path());
  EXPECT_THROW(hits(store), StoreConfigError) << "for 100 ms";
  ::usleep(130'000);
  EXPECT_TRUE(hits(store));
}

TEST_F(SharedFiles, LeftHalfMadeByTheDeadAreSwept) {
  const std::string leftover = file.path() + ".abcdef.new";
  std::ofstream(leftover) << "half of it";
  create();
  EXPECT_FALSE(std::filesystem::exists(leftover));
}

}  // namespace
}  // namespace overlimit
