// Real processes on one file: those that start at once, fork, are stopped, and are killed while they hold a
// lock.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "../calls.hpp"
#include "../examples.hpp"
#include "../limits.hpp"
#include "overlimit/errors.hpp"
#include "own_file.hpp"
#include "shared_memory/process_slots.hpp"

namespace overlimit {
namespace {

using shared_memory::Attachment;
using shared_memory::Attachments;
using shared_memory::ProcessSlots;
using shared_memory::SharedTable;
using std::chrono::milliseconds;
using namespace testing;

/// How soon the death of a holder must be noticed: tests allow ten times what is promised, and `make prove`
/// nothing more.
milliseconds noticed_within() { return milliseconds(std::getenv("PROVE") != nullptr ? 50 : 500); }

/// A process that runs a function and ends with what it returns.
class Child : NonCopyable {
 public:
  explicit Child(const std::function<int()>& run) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(run());
  }
  ~Child() {
    if (pid_ > 0) kill(SIGKILL);
  }

  void signal(int number) const { ::kill(pid_, number); }
  void wait_until_stopped() const {
    int status = 0;
    ASSERT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  void kill(int number) {
    signal(number);
    wait();
  }
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

class SharedProcesses : public ::testing::Test {
 protected:
  std::int64_t used(std::string_view identifier) { return 1'000'000 - left(store, policy, identifier, kNow); }
  /// In a child: takes the lock of every shard, and stops or does whatever else.
  int hold_all_locks(const std::function<void()>& then) {
    Attachment& attachment = Attachments::open_or_create(SharedTable::kFiles, file.path(), 0600,
                                                         {1000, SharedMemoryStore::kMinBytes});
    const Interrupted never;
    table::MutexWait wait(For(1'000'000), never);
    for (const auto& shard : attachment.view<SharedTable>().table().shards()) shard->mutex.lock(wait);
    then();
    return 0;
  }

  const CompiledPolicy policy{"p", {fixed_window(1'000'000, kHour)}};
  OwnFile file;
  SharedMemoryStore store{patient(file.options(1000, SharedMemoryStore::kMinBytes))};
  SharedMemoryStore impatient{file.options()};
};

TEST_F(SharedProcesses, ThatStartAtOnceUseOneFile) {
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 12; ++i) {
    children.push_back(std::make_unique<Child>([&] {
      for (int hits = 0; hits < 500; ++hits) hit(store, policy, {"a"}, kNow);
      return 0;
    }));
  }
  for (const auto& child : children) EXPECT_EQ(child->wait(), 0);
  EXPECT_EQ(used("a"), 12 * 500);
  for (const auto& each : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = each.path().string();
    EXPECT_FALSE(name.starts_with(file.path() + ".")) << name << " was left behind";
  }
}

// Each creates a file, and sweeps what it takes for leftovers of others.
TEST_F(SharedProcesses, ThatCreateAtOnceLeaveOneAnotherAlone) {
  void* const shared =
      ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  for (int round = 0; round < examples(40); ++round) {
    auto& has_begun = *new (shared) std::atomic<bool>(false);
    std::vector<std::unique_ptr<Child>> children;
    for (int i = 0; i < 6; ++i) {
      children.push_back(std::make_unique<Child>([&] {
        while (!has_begun) ::sched_yield();
        hit(store, policy, {"a"}, kNow);
        return 0;
      }));
    }
    has_begun = true;
    for (const auto& child : children) EXPECT_EQ(child->wait(), 0);
    SharedMemoryStore looking{patient(file.options())};
    EXPECT_EQ(1'000'000 - peek(looking, policy, {"a"}, kNow, 0).decision.remaining, 6);
    looking.unlink();
  }
  ::munmap(shared, sizeof(std::atomic<bool>));
}

TEST_F(SharedProcesses, ForkWithAFileThatIsOpen) {
  hit(store, policy, {"a"}, kNow);
  Child child([&] {
    hit(store, policy, {"a"}, kNow);
    return store.processes().alive == 2 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(used("a"), 2);
  EXPECT_EQ(store.processes().alive, 1U);
  EXPECT_EQ(store.processes().attached, 2U) << "it has ended without a word";
}

TEST_F(SharedProcesses, ForkWhileOtherThreadsDecide) {
#if defined(__SANITIZE_ADDRESS__) || defined(OVERLIMIT_ZIG_ALLOCATOR)
  GTEST_SKIP() << "a child cannot allocate if another thread held a lock of this allocator";
#endif
  std::atomic<bool> is_over = false;
  std::atomic<int> hits = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!is_over) {
        hit(store, policy, {"a"}, kNow);
        ++hits;
      }
    });
  }
  constexpr int kChildren = examples(40);
  for (int i = 0; i < kChildren; ++i) {
    Child child([&] {
      hit(store, policy, {"a"}, kNow);
      return 0;
    });
    EXPECT_EQ(child.wait(), 0);
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(used("a"), hits + kChildren);
}

TEST_F(SharedProcesses, LeaveNothingLockedWhenTheyAreKilled) {
  hit(store, policy, {"a"}, kNow);
  for (int i = 0; i < 5; ++i) {
    Child child([&] { return hold_all_locks([] { ::raise(SIGSTOP); }); });
    child.wait_until_stopped();
    child.kill(SIGKILL);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(hit(store, policy, {"a"}, kNow).allowed());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, noticed_within());
  }
  EXPECT_EQ(used("a"), 6);
}

TEST_F(SharedProcesses, DecideAtTheInstantAtWhichAKilledHolderIsFollowed) {
  const CompiledPolicy window("window", {epoch_window(1, kSecond)});
  const auto charges = charges_of(window, {"a"}, 1);
  ManualClock clock(At(kNow + 998'500));
  const Call call{.charges = charges, .system_clock = true, .clock = &clock};
  EXPECT_TRUE(ask(store, call).allowed());
  Child child([&] { return hold_all_locks([] { ::raise(SIGSTOP); }); });
  child.wait_until_stopped();
  std::thread caller([&] {
    const Answer answer = ask(store, call);
    EXPECT_TRUE(answer.allowed());
    EXPECT_EQ(answer.time, kNow + 1'000'100);
  });
  Attachment& attachment = attachment_of(file);
  const auto is_awaited = [](const auto& shard) { return shard->state().mutex_word.load() >> 31 != 0; };
  while (std::ranges::none_of(attachment.view<SharedTable>().table().shards(), is_awaited))
    std::this_thread::yield();
  clock.set(At(kNow + 1'000'100));
  child.kill(SIGKILL);
  caller.join();
}

TEST_F(SharedProcesses, WaitForOneThatIsStoppedAndNoLongerThanTheTimeout) {
  hit(store, policy, {"a"}, kNow);
  Child child([&] { return hold_all_locks([] { ::raise(SIGSTOP); }); });
  child.wait_until_stopped();
  const auto begin = std::chrono::steady_clock::now();
  try {
    hit(impatient, policy, {"a"}, kNow);
    FAIL() << "nobody has released the lock";
  } catch (const StoreTimeout& error) {
    EXPECT_FALSE(error.maybe_charged());
  }
  const auto waited = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(waited, milliseconds(100));
  EXPECT_LT(waited, milliseconds(1000));
  const auto charges = charges_of(policy, {"a"}, 1);
  Call call = call_of(charges, kNow);
  call.timeout = For(1'000);
  EXPECT_THROW(ask(impatient, call), StoreTimeout) << "that of the call goes first";
  child.kill(SIGKILL);
  EXPECT_EQ(used("a"), 1);
}

TEST_F(SharedProcesses, ResetAllIdentifiersOrNone) {
  std::vector<std::string> names;
  for (int i = 0; i < 30; ++i) names.push_back("user:" + std::to_string(i));
  const std::vector<std::string_view> identifiers(names.begin(), names.end());
  SharedMemoryStore large{file.options(100'000, 8 << 20)};
  for (const std::string& name : names) hit(large, policy, {name}, kNow);
  ASSERT_EQ(large.size(), names.size());
  Attachment& attachment = attachment_of(file);
  const auto holds_some = [](const auto& shard) { return shard->state().tracked > 0; };
  const auto shards = attachment.view<SharedTable>().table().shards();
  ASSERT_GT(std::ranges::count_if(shards, holds_some), 1);
  table::ShardMutex& last = (*std::find_if(shards.rbegin(), shards.rend(), holds_some))->mutex;
  const Interrupted never;
  ASSERT_TRUE(last.try_lock());
  EXPECT_THROW(large.reset(policy.identity(), identifiers, never), StoreTimeout);
  last.unlock();
  EXPECT_EQ(large.size(), names.size());
  large.reset(policy.identity(), identifiers, never);
  EXPECT_EQ(large.size(), 0U);
}

TEST_F(SharedProcesses, GoOnOnceWhatWasStoppedGoesOn) {
  hit(store, policy, {"a"}, kNow);
  Child child([&] {
    return hold_all_locks([&] {
      ::raise(SIGSTOP);
      const auto shards = attachment_of(file).view<SharedTable>().table().shards();
      for (const auto& shard : shards) shard->mutex.unlock();
    });
  });
  child.wait_until_stopped();
  EXPECT_THROW(hit(impatient, policy, {"a"}, kNow), StoreTimeout);
  child.signal(SIGCONT);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(hit(store, policy, {"a"}, kNow).allowed());
  EXPECT_EQ(used("a"), 2);
}

TEST_F(SharedProcesses, EndAWaitThatIsInterrupted) {
  hit(store, policy, {"a"}, kNow);
  Child child([&] { return hold_all_locks([] { ::raise(SIGSTOP); }); });
  child.wait_until_stopped();
  const auto charges = charges_of(policy, {"a"}, 1);
  const Call call = call_of(charges, kNow);
  EXPECT_THROW(ask(store, call, [] { return true; }), WaitInterrupted);
  EXPECT_THROW(ask(store, call, DontWait{}), WouldWait);
  EXPECT_THROW(ask(store, call, ComeBack{std::chrono::steady_clock::now() + std::chrono::hours(1)}),
               WouldWait);
  EXPECT_THROW(ask(store, call, ComeBack{std::chrono::steady_clock::now()}), StoreTimeout);
  child.kill(SIGKILL);
  EXPECT_EQ(used("a"), 1);
}

TEST_F(SharedProcesses, TakeOverTheLockOfOneThatDiedWhenTheyComeBack) {
  hit(store, policy, {"a"}, kNow);
  Child child([&] { return hold_all_locks([] { ::raise(SIGSTOP); }); });
  child.wait_until_stopped();
  child.kill(SIGKILL);
  const auto charges = charges_of(policy, {"a"}, 1);
  ask(store, call_of(charges, kNow), ComeBack{std::chrono::steady_clock::now() + std::chrono::hours(1)});
  EXPECT_EQ(used("a"), 2);
}

// As a backup or a curious person does in the same process.
TEST_F(SharedProcesses, KeepTheirSlotWhenTheyOpenAndCloseTheFile) {
  hit(store, policy, {"a"}, kNow);
  ::close(::open(file.path().c_str(), O_RDONLY | O_CLOEXEC));
  Child child([&] { return store.processes().alive == 2 ? 0 : 1; });
  EXPECT_EQ(child.wait(), 0);
}

void close_all_descriptors() {
  constexpr int kMost = 1024;
  for (int fd = 3; fd < kMost; ++fd) ::close(fd);
}

TEST_F(SharedProcesses, MayCloseAllDescriptorsAfterAFork) {
  hit(store, policy, {"a"}, kNow);
  Child child([&] {
    close_all_descriptors();
    hit(store, policy, {"a"}, kNow);
    return store.processes().alive == 2 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(used("a"), 2);
}

TEST_F(SharedProcesses, NoticeWithinASecondThatTheirDescriptorsWereClosed) {
  hit(store, policy, {"a"}, kNow);
  Child child([&] {
    hit(store, policy, {"a"}, kNow);
    close_all_descriptors();
    std::this_thread::sleep_for(milliseconds(1100));
    hit(store, policy, {"a"}, kNow);
    hit(store, policy, {"a"}, kNow);
    return store.processes().alive == 2 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(used("a"), 4);
}

// A child inherits the descriptor of its parent and what it has mapped, but not its locks, whether the parent
// has opened the file itself or was forked from a process that had.
class KilledParents : public SharedProcesses, public ::testing::WithParamInterface<bool> {};

TEST_P(KilledParents, LeaveNoLockToTheirChildren) {
  if (GetParam()) hit(store, policy, {"a"}, kNow);
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  Child parent([&] {
    return hold_all_locks([&] {
      const pid_t grandchild = ::fork();
      if (grandchild == 0) {
        ::close(pipe[1]);
        char byte = 0;
        ::_exit(::read(pipe[0], &byte, 1) == 0 ? 0 : 1);
      }
      ::raise(SIGSTOP);
    });
  });
  parent.wait_until_stopped();
  parent.kill(SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(hit(store, policy, {"a"}, kNow).allowed());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, noticed_within());
  ::close(pipe[1]);
  ::close(pipe[0]);
}

INSTANTIATE_TEST_SUITE_P(SharedProcesses, KilledParents, ::testing::Bool());

TEST_F(SharedProcesses, MayBeManyOneAfterTheOther) {
  if (kSanitized) GTEST_SKIP() << "more processes than there are slots take too long to fork";
  hit(store, policy, {"a"}, kNow);
  for (std::size_t i = 0; i < shared_memory::kMostProcesses + 20; ++i) {
    Child child([&] { return hold_all_locks([] { ::raise(SIGKILL); }); });
    ASSERT_EQ(child.wait(), -SIGKILL);
  }
  EXPECT_TRUE(hit(store, policy, {"a"}, kNow).allowed());
  EXPECT_LE(store.processes().attached, shared_memory::kMostProcesses);
  EXPECT_EQ(store.processes().alive, 1U);
}

TEST(ProcessSlots, OfTheDeadAreTakenAgainUnderAnotherGeneration) {
  constexpr std::size_t kSlots = 8;
  const OwnFile file;
  const auto opened = [&] { return ::open(file.path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); };
  std::array<shared_memory::ProcessSlot, kSlots> slots{};
  std::array<int, kSlots> descriptors{};
  std::vector<std::unique_ptr<ProcessSlots>> all;
  for (int& descriptor : descriptors) {
    descriptor = opened();
    all.push_back(std::make_unique<ProcessSlots>(descriptor, slots));
  }
  const std::uint32_t dead = all[3]->own();
  const int another = opened();
  EXPECT_THROW(ProcessSlots(another, slots), StoreConfigError);
  EXPECT_FALSE(all[0]->has_ended(dead));
  const OwnFile other_file;
  const int replaced = ::dup(descriptors[1]);
  const int stray = ::open(other_file.path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ::dup2(stray, descriptors[1]);
  EXPECT_FALSE(all[1]->has_ended(dead)) << "whose descriptor leads elsewhere takes nobody for dead";
  ::dup2(replaced, descriptors[1]);
  ::close(descriptors[3]);  // which is what the kernel does to the dead
  EXPECT_TRUE(all[0]->has_ended(dead));
  EXPECT_EQ(all[0]->alive(), kSlots - 1);
  const ProcessSlots next(another, slots);
  EXPECT_NE(next.own(), dead);
  EXPECT_TRUE(all[0]->has_ended(dead));
  all[3].reset();
  EXPECT_FALSE(all[0]->has_ended(next.own())) << "who was taken for dead leaves the slot alone";
  EXPECT_EQ(all[0]->attached(), kSlots);
  EXPECT_EQ(all[0]->alive(), kSlots);
}

}  // namespace
}  // namespace overlimit
