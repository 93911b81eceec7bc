// Shared memory that only one test uses.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "../limits.hpp"
#include "overlimit/shared_memory_store.hpp"

namespace overlimit::testing {

/// When the calls of a test are made.
inline constexpr Micros kNow = 100 * kHour;

/// For tests that are not about timeouts, on machines that may be crowded and under sanitizers.
inline SharedMemoryStore::Options patient(SharedMemoryStore::Options options) {
  options.timeout = 30'000'000;
  return options;
}

/// A path in /dev/shm. What is there is removed at the end.
class OwnFile {
 public:
  OwnFile()
      : path_("/dev/shm/overlimit-test-" + std::to_string(::getpid()) + "-" + std::to_string(++made_)) {}
  ~OwnFile() { std::filesystem::remove(path_); }
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] SharedMemoryStore::Options options() const { return {.name_or_path = path_}; }
  [[nodiscard]] SharedMemoryStore::Options options(std::size_t max_keys, std::size_t max_bytes) const {
    return {.name_or_path = path_, .max_keys = max_keys, .max_bytes = max_bytes};
  }

 private:
  static inline std::atomic<int> made_ = 0;
  std::string path_;
};

/// A store with a file of its own.
class OwnSharedMemoryStore final : public Store {
 public:
  OwnSharedMemoryStore() : store_(patient(file_.options())) {}
  void decide(std::span<const Call> calls, const Rows& rows, std::span<Micros> times,
              std::span<ChargeBits> crowded, const Interrupted& interrupted) override {
    store_.decide(calls, rows, times, crowded, interrupted);
  }
  void refund(const Call& call, std::span<const Receipt> receipts, const Interrupted& interrupted) override {
    store_.refund(call, receipts, interrupted);
  }
  void lock(const Call& call, Micros duration, const Interrupted& interrupted) override {
    store_.lock(call, duration, interrupted);
  }
  void unlock(const Call& call, const Interrupted& interrupted) override { store_.unlock(call, interrupted); }
  void reset(const CompiledPolicy& policy, std::span<const std::string_view> identifiers,
             const Interrupted& interrupted) override {
    store_.reset(policy, identifiers, interrupted);
  }
  void reset_all(const CompiledPolicy& policy, const Interrupted& interrupted) override {
    store_.reset_all(policy, interrupted);
  }
  [[nodiscard]] bool is_shared() const override { return store_.is_shared(); }
  [[nodiscard]] bool waits() const override { return store_.waits(); }

 private:
  OwnFile file_;
  SharedMemoryStore store_;
};

}  // namespace overlimit::testing
