// Stops at every write to a piece of memory, right after the instruction that wrote: what is there then is
// what a process leaves that is killed at this instant.
#pragma once

#include <csignal>
#include <cstddef>
#include <functional>

#include "overlimit/non_copyable.hpp"

namespace overlimit::testing {

/// While it lives, calls after_write() after each instruction that has written there. Works by write
/// protection and single steps, on x86-64 alone, for one thread. after_write() may do anything but write
/// there.
class Writes : NonCopyable {
 public:
  using AfterWrite = std::function<void()>;

  Writes(std::byte* memory, std::size_t bytes, AfterWrite after_write);
  ~Writes();

 private:
  static void on_fault(int signal, siginfo_t* info, void* context);
  static void on_step(int signal, siginfo_t* info, void* context);
  void protect(int protection) const;

  static Writes* current_;
  std::byte* memory_;
  std::size_t bytes_;
  AfterWrite after_write_;
  struct sigaction former_fault_ {};
  struct sigaction former_step_ {};
};

}  // namespace overlimit::testing
