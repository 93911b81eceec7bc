#include "writes.hpp"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace overlimit::testing {
namespace {

constexpr greg_t kTrapFlag = 0x100;

greg_t& flags_of(void* context) { return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL]; }

void take_over(int signal, void (*handler)(int, siginfo_t*, void*), struct sigaction& former) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (::sigaction(signal, &action, &former) != 0) throw std::runtime_error("cannot handle signals");
}

}  // namespace

Writes* Writes::current_ = nullptr;

Writes::Writes(std::byte* memory, std::size_t bytes, AfterWrite after_write)
    : memory_(memory), bytes_(bytes), after_write_(std::move(after_write)) {
  current_ = this;
  take_over(SIGSEGV, on_fault, former_fault_);
  take_over(SIGTRAP, on_step, former_step_);
  protect(PROT_READ);
}

Writes::~Writes() {
  protect(PROT_READ | PROT_WRITE);
  ::sigaction(SIGSEGV, &former_fault_, nullptr);
  ::sigaction(SIGTRAP, &former_step_, nullptr);
  current_ = nullptr;
}

void Writes::protect(int protection) const {
  if (::mprotect(memory_, bytes_, protection) != 0) std::abort();
}

void Writes::on_fault(int, siginfo_t* info, void* context) {
  const auto* const place = static_cast<const std::byte*>(info->si_addr);
  if (place < current_->memory_ || place >= current_->memory_ + current_->bytes_) std::abort();
  current_->protect(PROT_READ | PROT_WRITE);
  flags_of(context) |= kTrapFlag;
}

void Writes::on_step(int, siginfo_t*, void* context) {
  flags_of(context) &= ~kTrapFlag;
  current_->protect(PROT_READ);
  current_->after_write_();
}

}  // namespace overlimit::testing
