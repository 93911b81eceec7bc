// The store in memory that all processes of a host share: the table of the memory store, in a mapped file.
#pragma once

#ifndef OVERLIMIT_LINKS_SHARED_MEMORY
#error "only targets that link overlimit_shared_memory may include shared_memory_store.hpp"
#endif

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "overlimit/table_store.hpp"

namespace overlimit {

/// Survives the death of any of its processes at any instruction: what it had half done is undone, or
/// completed if its call was, by whoever comes next. A reset of several identifiers may then have reached
/// some, and size() be wrong by one until the next calls.
///
/// Besides what Store says, its operations throw StoreConfigError when the file cannot be used, and again for
/// 100 ms without looking.
class SharedMemoryStore : public TableStore {
 public:
  static constexpr std::size_t kMinBytes = 256 << 10;

  struct Options {
    std::string name_or_path;  ///< a name for a file in /dev/shm, or an absolute path
    std::optional<std::size_t> max_keys{};
    std::optional<std::size_t> max_bytes{};
    mode_t mode = 0600;
    Duration timeout{100'000};
    std::function<void(const std::string&)> warn{};  ///< called at most once for each reason
  };
  struct Processes {
    std::size_t attached = 0;
    std::size_t alive = 0;
  };

  /// Opens nothing: the first call does, and creates the file if there is none. Throws std::invalid_argument
  /// for what cannot be a name, a path or a size.
  explicit SharedMemoryStore(Options options);
  ~SharedMemoryStore() override;

  /// Opens the file, or creates it, as a call does.
  Duration ping(std::optional<Duration> timeout, const Interrupted& interrupted) override;
  [[nodiscard]] bool is_shared() const override { return true; }
  [[nodiscard]] bool is_same_as(const Store& other) const override;
  [[nodiscard]] bool waits() const override { return true; }
  [[nodiscard]] bool waits_seldom() const override { return true; }
  [[nodiscard]] Duration timeout() const override;

  /// Removes the file, so that processes that open it from now on get another one. Whoever has it open goes
  /// on with it. Nothing happens if there is none. Throws StoreConfigError for a file that is not ours to
  /// remove.
  void unlink();

  // These open a file that exists, and never create one: of none, or of one that cannot be used, everything
  // is 0.
  [[nodiscard]] std::size_t size();
  [[nodiscard]] std::uint64_t crowded_calls();
  [[nodiscard]] std::size_t damaged_shards();
  [[nodiscard]] Processes processes();
  /// Whether the file that this store has open has been removed meanwhile.
  [[nodiscard]] bool is_unlinked();

  [[nodiscard]] const Options& options() const;
  /// Where the file is, or will be, for the user that this process runs as.
  [[nodiscard]] std::string path() const;

 private:
  table::Table& table() override;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace overlimit
