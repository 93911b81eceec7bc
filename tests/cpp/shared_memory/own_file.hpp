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
  options.timeout = For(30'000'000);
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

struct HasOwnFile {
  OwnFile file;
};

/// A store with a file of its own.
class OwnSharedMemoryStore final : HasOwnFile, public SharedMemoryStore {
 public:
  OwnSharedMemoryStore() : SharedMemoryStore(patient(file.options())) {}
};

}  // namespace overlimit::testing
