// Functions that are suspended in the middle: what they have by then is theirs when they go on.
#include "platform/fiber.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../examples.hpp"

namespace overlimit::platform {
namespace {

using namespace testing;

Fiber fiber_of(std::function<void()> run) { return Fiber(std::make_unique<Fiber::Stack>(), std::move(run)); }

void suspend() { Fiber::current()->suspend(); }

/// A call through it is not known to have no side effects, as pthread_self(3) has none.
std::thread::id (*volatile this_thread)() = std::this_thread::get_id;

TEST(Fiber, PassesWhatItIsGivenBothWays) {
  int given = 0;
  std::vector<int> taken;
  Fiber fiber = fiber_of([&] {
    for (int i = 0; i < 3; ++i) {
      taken.push_back(given);
      suspend();
    }
  });
  EXPECT_TRUE(taken.empty()) << "it is run by resume() alone";
  for (given = 1; !fiber.has_ended(); ++given) fiber.resume();
  EXPECT_EQ(taken, (std::vector{1, 2, 3}));
  EXPECT_EQ(given, 5);
}

TEST(Fiber, IsCurrentWhileItRuns) {
  const Fiber* seen = nullptr;
  EXPECT_EQ(Fiber::current(), nullptr);
  Fiber fiber = fiber_of([&] {
    seen = Fiber::current();
    suspend();
  });
  fiber.resume();
  EXPECT_EQ(seen, &fiber);
  EXPECT_EQ(Fiber::current(), nullptr);
  fiber.resume();
  EXPECT_EQ(Fiber::current(), nullptr);
}

TEST(Fiber, LetsGoOfItsFunctionWhenItEnds) {
  auto held = std::make_shared<int>(1);
  Fiber fiber = fiber_of([held] { suspend(); });
  fiber.resume();
  EXPECT_EQ(held.use_count(), 2);
  fiber.resume();
  EXPECT_TRUE(fiber.has_ended());
  EXPECT_EQ(held.use_count(), 1);
}

/// How deep it got; `bytes` of the stack below `top` are used then.
int deepen(const char* top, std::ptrdiff_t bytes, int depth = 0) {  // NOLINT(misc-no-recursion)
  volatile char frame[256];
  frame[0] = static_cast<char>(depth);
  frame[255] = static_cast<char>(depth);
  if (top - static_cast<const char*>(__builtin_frame_address(0)) >= bytes) {
    suspend();
    return depth;
  }
  const int deepest = deepen(top, bytes, depth + 1);
  EXPECT_EQ(frame[0], static_cast<char>(depth));
  EXPECT_EQ(frame[255], static_cast<char>(depth));
  return deepest;
}

// The rest is what the deepest frame needs, which the sanitizers make large.
TEST(Fiber, HasAllButTheLastOfItsStack) {
  constexpr auto kUsed = static_cast<std::ptrdiff_t>(Fiber::Stack::kBytes) - (std::ptrdiff_t{16} << 10);
  auto stack = std::make_unique<Fiber::Stack>();
  const char* const top = stack->top();
  int depth = 0;
  Fiber fiber(std::move(stack), [&] { depth = deepen(top, kUsed); });
  fiber.resume();
  EXPECT_FALSE(fiber.has_ended());
  fiber.resume();
  EXPECT_TRUE(fiber.has_ended());
  EXPECT_GT(depth, 100);
  EXPECT_LT(depth, 1024);
}

TEST(Fiber, ThrowsAndCatches) {
  std::string caught;
  Fiber fiber = fiber_of([&] {
    try {
      throw std::runtime_error("within");
    } catch (const std::exception& error) {
      caught = error.what();
    }
  });
  fiber.resume();
  EXPECT_EQ(caught, "within");
}

TEST(Fiber, CatchesAfterItWasSuspendedWhatItThrowsThen) {
  int caught = 0;
  Fiber fiber = fiber_of([&] {
    try {
      suspend();
      throw 5;
    } catch (int thrown) {
      caught = thrown;
    }
  });
  fiber.resume();
  EXPECT_EQ(caught, 0);
  fiber.resume();
  EXPECT_EQ(caught, 5);
}

/// Suspended in a handler; then what it handles is thrown once more.
void handle(int thrown, std::vector<int>& caught) {
  try {
    try {
      throw thrown;
    } catch (int) {
      suspend();
      EXPECT_EQ(std::uncaught_exceptions(), 0);
      throw;
    }
  } catch (int again) {
    suspend();
    caught.push_back(again);
  }
}

TEST(Fiber, HandlesItsOwnExceptionWhileOthersHandleTheirs) {
  std::vector<int> caught;
  Fiber first = fiber_of([&] { handle(1, caught); });
  Fiber second = fiber_of([&] { handle(2, caught); });
  try {
    throw 3;
  } catch (int) {
    for (int i = 0; i < 3; ++i) {
      first.resume();
      second.resume();
      ASSERT_TRUE(std::current_exception());
    }
    EXPECT_TRUE(first.has_ended() && second.has_ended());
    try {
      throw;
    } catch (int own) {
      EXPECT_EQ(own, 3);
    }
  }
  EXPECT_FALSE(std::current_exception());
  EXPECT_EQ(caught, (std::vector{1, 2}));
}

TEST(Fiber, IsInNoHandlerOfWhoeverResumesIt) {
  bool is_within = true;
  Fiber fiber = fiber_of([&] { is_within = bool(std::current_exception()); });
  try {
    throw 1;
  } catch (int) {
    fiber.resume();
  }
  EXPECT_FALSE(is_within);
}

/// Is destroyed by an exception, and suspended meanwhile.
class Unwound : NonCopyable {
 public:
  explicit Unwound(std::vector<int>& counts) : counts_(counts) {}
  ~Unwound() {
    counts_.push_back(std::uncaught_exceptions());
    suspend();
    counts_.push_back(std::uncaught_exceptions());
  }

 private:
  std::vector<int>& counts_;
};

void unwind(int thrown, std::vector<int>& counts, int& caught) {
  try {
    const Unwound unwound(counts);
    throw thrown;
  } catch (int value) {
    counts.push_back(std::uncaught_exceptions());
    caught = value;
  }
}

TEST(Fiber, UnwindsItsOwnStackWhileOthersUnwindTheirs) {
  std::vector<int> counts[2];
  int caught[2] = {0, 0};
  Fiber first = fiber_of([&] { unwind(1, counts[0], caught[0]); });
  Fiber second = fiber_of([&] { unwind(2, counts[1], caught[1]); });
  first.resume();
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  second.resume();
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  first.resume();
  second.resume();
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(counts[i], (std::vector{1, 1, 0}));
    EXPECT_EQ(caught[i], i + 1);
  }
}

TEST(Fiber, GoesOnInWhicheverThreadResumesIt) {
  std::vector<std::thread::id> ran_in;
  int caught = 0;
  Fiber fiber = fiber_of([&] {
    ran_in.push_back(this_thread());
    try {
      throw 7;
    } catch (int) {
      suspend();
      ran_in.push_back(this_thread());
      try {
        throw;
      } catch (int own) {
        caught = own;
      }
    }
    suspend();
    ran_in.push_back(this_thread());
  });
  fiber.resume();
  std::thread other([&] { fiber.resume(); });
  const std::thread::id other_id = other.get_id();
  other.join();
  fiber.resume();
  EXPECT_TRUE(fiber.has_ended());
  EXPECT_EQ(ran_in, (std::vector{this_thread(), other_id, this_thread()}));
  EXPECT_EQ(caught, 7);
}

TEST(Fiber, RunsBesideThoseOfOtherThreads) {
  constexpr int kTurns = 2000;
  int sums[2] = {0, 0};
  const auto play = [&](int& sum) {
    int value = 0;
    Fiber fiber = fiber_of([&] {
      for (int i = 0; i < kTurns; ++i) {
        sum += value;
        suspend();
      }
    });
    for (value = 1; !fiber.has_ended(); ++value) fiber.resume();
  };
  std::thread other([&] { play(sums[1]); });
  play(sums[0]);
  other.join();
  for (const int sum : sums) EXPECT_EQ(sum, kTurns * (kTurns + 1) / 2);
}

TEST(Fiber, IsOneOfThousands) {
  const auto count = static_cast<std::size_t>(examples(4000));
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<std::size_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    fibers.push_back(std::make_unique<Fiber>(std::make_unique<Fiber::Stack>(), [&values, i] {
      const std::size_t own = i;
      suspend();
      values[i] += own;
      suspend();
      values[i] += own;
    }));
  }
  for (int round = 0; round < 3; ++round) {
    for (const auto& fiber : fibers) fiber->resume();
  }
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(fibers[i]->has_ended());
    EXPECT_EQ(values[i], 2 * i);
  }
}

TEST(Fiber, LeavesItsStackToTheNext) {
  auto stack = std::make_unique<Fiber::Stack>();
  const char* const top = stack->top();
  int ran = 0;
  for (int i = 0; i < 100; ++i) {
    Fiber fiber(std::move(stack), [&] {
      const auto* const here = static_cast<const char*>(__builtin_frame_address(0));
      EXPECT_LT(here, top);
      EXPECT_GT(here, top - Fiber::Stack::kBytes);
      char filled[1000];
      std::fill(std::begin(filled), std::end(filled), static_cast<char>(i));
      if (i % 2 == 0) suspend();
      try {
        throw std::to_string(filled[999]);
      } catch (const std::string& text) {
        EXPECT_EQ(text, std::to_string(i));
      }
      ++ran;
    });
    while (!fiber.has_ended()) fiber.resume();
    stack = fiber.release_stack();
    ASSERT_EQ(stack->top(), top);
  }
  EXPECT_EQ(ran, 100);
}

#if defined(__x86_64__)
TEST(Fiber, RoundsAsItWishes) {
  int own = -1;
  Fiber fiber = fiber_of([&] {
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
    std::fesetround(FE_UPWARD);
    suspend();
    own = std::fegetround();
  });
  fiber.resume();
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  std::fesetround(FE_DOWNWARD);
  fiber.resume();
  EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(own, FE_UPWARD);
}
#endif

using Call = void (*)(Fiber*);

/// The bits of registers that a call must leave as they are, and has not. `base` tells the values apart. What
/// the compiler may keep below its stack is left alone.
#if defined(__x86_64__)
std::uint64_t registers_changed_by(Call call, Fiber* fiber, std::uint64_t base) {
  std::uint64_t changed = 0;
  asm volatile(R"(
    leaq -256(%%rsp), %%rsp
    pushq %%rbp
    movq %%rsp, %%rcx
    andq $-16, %%rsp
    pushq %%rcx
    pushq %%rsi
    leaq 1(%%rsi), %%rbx
    leaq 2(%%rsi), %%rbp
    leaq 3(%%rsi), %%r12
    leaq 4(%%rsi), %%r13
    leaq 5(%%rsi), %%r14
    leaq 6(%%rsi), %%r15
    call *%%rax
    popq %%rsi
    leaq 1(%%rsi), %%rax
    xorq %%rbx, %%rax
    leaq 2(%%rsi), %%rcx
    xorq %%rbp, %%rcx
    orq %%rcx, %%rax
    leaq 3(%%rsi), %%rcx
    xorq %%r12, %%rcx
    orq %%rcx, %%rax
    leaq 4(%%rsi), %%rcx
    xorq %%r13, %%rcx
    orq %%rcx, %%rax
    leaq 5(%%rsi), %%rcx
    xorq %%r14, %%rcx
    orq %%rcx, %%rax
    leaq 6(%%rsi), %%rcx
    xorq %%r15, %%rcx
    orq %%rcx, %%rax
    popq %%rsp
    popq %%rbp
    leaq 256(%%rsp), %%rsp
  )"
               : "=a"(changed), "+D"(fiber), "+S"(base)
               : "a"(call)
               : "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",
                 "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                 "xmm13", "xmm14", "xmm15", "memory", "cc");
  return changed;
}
#elif defined(__aarch64__)
std::uint64_t registers_changed_by(Call call, Fiber* fiber, std::uint64_t base) {
  register Fiber* argument asm("x0") = fiber;
  register std::uint64_t number asm("x1") = base;
  register Call function asm("x2") = call;
  asm volatile(R"(
    sub sp, sp, #256
    stp x29, x30, [sp]
    str x1, [sp, #16]
    add x19, x1, #1
    add x20, x1, #2
    add x21, x1, #3
    add x22, x1, #4
    add x23, x1, #5
    add x24, x1, #6
    add x25, x1, #7
    add x26, x1, #8
    add x27, x1, #9
    add x28, x1, #10
    add x29, x1, #11
    fmov d8, x19
    fmov d9, x20
    fmov d10, x21
    fmov d11, x22
    fmov d12, x23
    fmov d13, x24
    fmov d14, x25
    fmov d15, x26
    blr x2
    ldr x1, [sp, #16]
    fmov x3, d8
    eor x0, x3, x19
    fmov x3, d9
    eor x3, x3, x20
    orr x0, x0, x3
    fmov x3, d10
    eor x3, x3, x21
    orr x0, x0, x3
    fmov x3, d11
    eor x3, x3, x22
    orr x0, x0, x3
    fmov x3, d12
    eor x3, x3, x23
    orr x0, x0, x3
    fmov x3, d13
    eor x3, x3, x24
    orr x0, x0, x3
    fmov x3, d14
    eor x3, x3, x25
    orr x0, x0, x3
    fmov x3, d15
    eor x3, x3, x26
    orr x0, x0, x3
    sub x19, x19, x1
    eor x19, x19, #1
    orr x0, x0, x19
    sub x20, x20, x1
    eor x20, x20, #2
    orr x0, x0, x20
    sub x21, x21, x1
    eor x21, x21, #3
    orr x0, x0, x21
    sub x22, x22, x1
    eor x22, x22, #4
    orr x0, x0, x22
    sub x23, x23, x1
    sub x23, x23, #5
    orr x0, x0, x23
    sub x24, x24, x1
    eor x24, x24, #6
    orr x0, x0, x24
    sub x25, x25, x1
    eor x25, x25, #7
    orr x0, x0, x25
    sub x26, x26, x1
    eor x26, x26, #8
    orr x0, x0, x26
    sub x27, x27, x1
    sub x27, x27, #9
    orr x0, x0, x27
    sub x28, x28, x1
    sub x28, x28, #10
    orr x0, x0, x28
    sub x29, x29, x1
    sub x29, x29, #11
    orr x0, x0, x29
    ldp x29, x30, [sp]
    add sp, sp, #256
  )"
               : "+r"(argument), "+r"(number), "+r"(function)
               :
               : "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
                 "x17", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0",
                 "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
                 "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
                 "v28", "v29", "v30", "v31", "memory", "cc");
  return reinterpret_cast<std::uint64_t>(argument);
}
#endif

#if defined(__x86_64__) || defined(__aarch64__)
TEST(Fiber, KeepsTheRegistersOfBothSides) {
  constexpr Call kResume = [](Fiber* fiber) { fiber->resume(); };
  constexpr Call kSuspend = [](Fiber* fiber) { fiber->suspend(); };
  constexpr std::uint64_t kNumber = 0x1122334455667788;
  std::uint64_t changed_within = 0;
  Fiber fiber = fiber_of([&] {
    for (std::uint64_t i = 0; i < 10; ++i) {
      changed_within |= registers_changed_by(kSuspend, Fiber::current(), i * kNumber);
    }
  });
  std::uint64_t changed = 0;
  for (std::uint64_t i = 0; i < 11; ++i) changed |= registers_changed_by(kResume, &fiber, ~i * kNumber);
  EXPECT_TRUE(fiber.has_ended());
  EXPECT_EQ(changed, 0);
  EXPECT_EQ(changed_within, 0);
}
#endif

}  // namespace
}  // namespace overlimit::platform
