#include "platform/fiber.hpp"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define OVERLIMIT_ASAN
#elif defined(__SANITIZE_THREAD__)
#define OVERLIMIT_TSAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OVERLIMIT_ASAN
#elif __has_feature(thread_sanitizer)
#define OVERLIMIT_TSAN
#endif
#endif

#if defined(OVERLIMIT_ASAN)
#include <sanitizer/common_interface_defs.h>
#elif defined(OVERLIMIT_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(OVERLIMIT_PORTABLE)
#define OVERLIMIT_SWITCHES_STACKS
#else
#include <ucontext.h>
#endif

// Every C++ library has it, but not every one declares it.
namespace __cxxabiv1 {    // NOLINT(bugprone-reserved-identifier): named by the ABI
struct __cxa_eh_globals;  // NOLINT
extern "C" __cxa_eh_globals* __cxa_get_globals() noexcept;  // NOLINT
}  // namespace __cxxabiv1

namespace overlimit::platform {

#ifdef OVERLIMIT_SWITCHES_STACKS

/// Saves what a call must leave as it was, on this stack, and where that is; goes on where `to` was saved.
extern "C" void overlimit_switch_stack(void** from, void* to) noexcept asm("overlimit_switch_stack");
/// Where a new stack begins: calls overlimit_run_fiber with the Fiber that is saved there.
extern "C" void overlimit_begin_stack() noexcept asm("overlimit_begin_stack");
extern "C" __attribute__((used)) void overlimit_run_fiber(Fiber* fiber) noexcept asm("overlimit_run_fiber");

extern "C" void overlimit_run_fiber(Fiber* fiber) noexcept { fiber->run_to_end(); }

#ifdef __APPLE__
#define OVERLIMIT_FUNCTION(name) ".globl " name "\n.private_extern " name "\n.p2align 4\n" name ":\n"
#else
#define OVERLIMIT_FUNCTION(name) \
  ".globl " name "\n.hidden " name "\n.p2align 4\n.type " name ", %function\n" name ":\n"
#endif

#if defined(__x86_64__)

// System V ABI for AMD64, 3.2.1: rbx, rbp, r12 to r15 and the control words of both floating-point units.
asm(".text\n" OVERLIMIT_FUNCTION("overlimit_switch_stack")
        R"(
  .cfi_startproc
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .cfi_endproc
)" OVERLIMIT_FUNCTION("overlimit_begin_stack")
            R"(
  .cfi_startproc
  .cfi_undefined rip
  movq %rbx, %rdi
  call overlimit_run_fiber
  ud2
  .cfi_endproc
)");

/// As overlimit_switch_stack has left it, from the lowest address on.
struct Saved {
  std::uint32_t sse_control = 0x1f80;  // as a program begins
  std::uint16_t x87_control = 0x037f;
  std::uint16_t unused = 0;
  void* r15_to_r12[4] = {};
  void* rbx = nullptr;
  void* rbp = nullptr;
  void (*return_address)() = overlimit_begin_stack;
  void* callers[2] = {};  // none; the first function begins with an aligned stack

  explicit Saved(Fiber* fiber) : rbx(fiber) {}
};

#else

// Procedure Call Standard for the Arm 64-bit Architecture, 6.1: x19 to x30 and d8 to d15.
asm(".text\n" OVERLIMIT_FUNCTION("overlimit_switch_stack")
        R"(
  .cfi_startproc
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .cfi_endproc
)" OVERLIMIT_FUNCTION("overlimit_begin_stack")
            R"(
  .cfi_startproc
  .cfi_undefined x30
  mov x0, x19
  bl overlimit_run_fiber
  brk #1
  .cfi_endproc
)");

/// As overlimit_switch_stack has left it, from the lowest address on.
struct Saved {
  void* x19;
  void* x20_to_x29[10] = {};
  void (*x30)() = overlimit_begin_stack;
  void* d8_to_d15[8] = {};

  explicit Saved(Fiber* fiber) : x19(fiber) {}
};

#endif
#endif

namespace {

thread_local Fiber* running = nullptr;

std::size_t page_size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

Fiber::Stack::Stack() : pages_(reserve_pages(kBytes + page_size())) {
  ::mprotect(pages_.get(), page_size(), PROT_NONE);
}

/// Both sides of a switch, and what the sanitizers want to know of them.
struct Fiber::Context {
  /// What the C++ library knows of the exceptions that are being handled, of which there is one per thread:
  /// the Itanium C++ ABI, "Exception Handling", 2.2.2.
  struct HandledExceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;

    /// Exchanges them for those of this thread.
    void exchange() noexcept {
      auto& present = *reinterpret_cast<HandledExceptions*>(abi::__cxa_get_globals());
      std::swap(caught, present.caught);
      std::swap(uncaught, present.uncaught);
    }
  };

  HandledExceptions exceptions;
#ifdef OVERLIMIT_SWITCHES_STACKS
  void* own = nullptr;
  void* resumer = nullptr;

  void prepare(Fiber* fiber, char* top) noexcept { own = new (top - sizeof(Saved)) Saved(fiber); }
  void enter() noexcept { overlimit_switch_stack(&resumer, own); }
  void leave() noexcept { overlimit_switch_stack(&own, resumer); }
#else
  ucontext_t own{};
  ucontext_t resumer{};

  void prepare(Fiber* fiber, char* top) noexcept {
    ::getcontext(&own);
    own.uc_stack.ss_sp = top - Stack::kBytes;
    own.uc_stack.ss_size = Stack::kBytes;
    const auto address = reinterpret_cast<std::uintptr_t>(fiber);
    ::makecontext(&own, reinterpret_cast<void (*)()>(run), 2, static_cast<unsigned>(address >> 32U),
                  static_cast<unsigned>(address));
  }
  void enter() noexcept { ::swapcontext(&resumer, &own); }
  void leave() noexcept { ::swapcontext(&own, &resumer); }

  // makecontext(3) passes numbers of the size of an int.
  static void run(unsigned high, unsigned low) {
    reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32U | low)->run_to_end();
  }
#endif

#if defined(OVERLIMIT_ASAN)
  void* fake_stack = nullptr;
  const void* resumer_bottom = nullptr;
  std::size_t resumer_size = 0;

  void entering(const Stack& stack, void** resumer_stack) const noexcept {
    __sanitizer_start_switch_fiber(resumer_stack, stack.top() - Stack::kBytes, Stack::kBytes);
  }
  static void left(void* resumer_stack) noexcept {
    __sanitizer_finish_switch_fiber(resumer_stack, nullptr, nullptr);
  }
  void leaving(bool for_ever) noexcept {
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &fake_stack, resumer_bottom, resumer_size);
  }
  void entered() noexcept { __sanitizer_finish_switch_fiber(fake_stack, &resumer_bottom, &resumer_size); }
#elif defined(OVERLIMIT_TSAN)
  void* const own_fiber = __tsan_create_fiber(0);
  void* resumer_fiber = nullptr;

  Context() = default;
  ~Context() { __tsan_destroy_fiber(own_fiber); }
  // Inlined, as the sanitizer counts on every function to return where it was called.
  __attribute__((always_inline)) void entering(const Stack&, void**) noexcept {
    resumer_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(own_fiber, 0);
  }
  static void left(void*) noexcept {}
  __attribute__((always_inline)) void leaving(bool) noexcept { __tsan_switch_to_fiber(resumer_fiber, 0); }
  void entered() noexcept {}
#else
  void entering(const Stack&, void**) noexcept {}
  static void left(void*) noexcept {}
  void leaving(bool) noexcept {}
  void entered() noexcept {}
#endif
};

Fiber::Fiber(std::unique_ptr<Stack> stack, std::function<void()> run)
    : stack_(std::move(stack)), run_(std::move(run)), context_(std::make_unique<Context>()) {
  context_->prepare(this, stack_->top());
}

Fiber::~Fiber() = default;

std::unique_ptr<Fiber::Stack> Fiber::release_stack() noexcept { return std::move(stack_); }

Fiber* Fiber::current() noexcept { return running; }

void Fiber::resume() {
  void* resumer_stack = nullptr;
  context_->exceptions.exchange();
  running = this;
  context_->entering(*stack_, &resumer_stack);
  context_->enter();
  Context::left(resumer_stack);
  running = nullptr;
  context_->exceptions.exchange();
}

void Fiber::suspend() {
  context_->leaving(has_ended_);
  context_->leave();
  context_->entered();
}

void Fiber::run_to_end() noexcept {
  context_->entered();
  run_();
  run_ = nullptr;
  has_ended_ = true;
  suspend();
}

}  // namespace overlimit::platform
