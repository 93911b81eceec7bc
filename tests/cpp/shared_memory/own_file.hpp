// Shared memory that only one test uses.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "../limits.hpp"
#include "overlimit/shared_memory_store.hpp"
#include "shared_memory/attachments.hpp"
#include "shared_memory/shared_table.hpp"

namespace overlimit::testing {

/// When the calls of a test are made.
inline constexpr Micros kNow = 100 * kHour;

/// For tests that are not about timeouts, on machines that may be crowded and under sanitizers.
inline SharedMemoryStore::Options patient(SharedMemoryStore::Options options) {
  options.timeout = For(30'000'000);
  return options;
}

/// A path in /dev/shm. What is there is removed at the end.
class OwnFile : NonCopyable {
 public:
  OwnFile()
      : path_("/dev/shm/overlimit-test-" + std::to_string(::getpid()) + "-" + std::to_string(++made_)) {}
  /// With these bytes in it.
  explicit OwnFile(std::span<const std::byte> bytes) : OwnFile() {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    std::filesystem::permissions(path_, std::filesystem::perms(0600));
  }
  ~OwnFile() { std::filesystem::remove(path_); }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] SharedMemoryStore::Options options() const { return {.name_or_path = path_}; }
  [[nodiscard]] SharedMemoryStore::Options options(std::size_t max_keys, std::size_t max_bytes) const {
    return {.name_or_path = path_, .max_keys = max_keys, .max_bytes = max_bytes};
  }

 private:
  static inline std::atomic<int> made_ = 0;
  std::string path_;
};

/// What this process has of a file that a store of it uses, too.
inline shared_memory::Attachment& attachment_of(const OwnFile& file) {
  using shared_memory::Attachments;
  auto& attachment = *Attachments::open(shared_memory::SharedTable::kFiles, file.path(), 0600);
  Attachments::release(attachment);
  return attachment;
}

struct HasOwnFile {
  OwnFile file;
};

/// A store with a file of its own.
class OwnSharedMemoryStore final : HasOwnFile, public SharedMemoryStore {
 public:
  OwnSharedMemoryStore() : SharedMemoryStore(patient(file.options())) {}
};

}  // namespace overlimit::testing
