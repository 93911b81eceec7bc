// The store in memory that all processes of a host share: the table of the memory store, in a mapped file.
#pragma once

#ifndef OVERLIMIT_LINKS_SHARED_MEMORY
#error "only targets that link overlimit_shared_memory may include shared_memory_store.hpp"
#endif

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/kept_key.hpp"
#include "overlimit/table_store.hpp"

namespace overlimit {

/// Survives the death of any of its processes at any instruction (docs/architecture.md). A reset of several
/// identifiers may then have reached some, and size() be wrong by one until the next calls. Besides what
/// Store says, its operations throw StoreConfigError when the file cannot be used, and again for 100 ms
/// without looking.
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

  /// Opens nothing: the first call does, or creates the file. Throws std::invalid_argument for wrong options.
  explicit SharedMemoryStore(Options options);
  ~SharedMemoryStore() override;
  /// Opens the file, or creates it, as a call does.
  Duration ping(std::optional<Duration> timeout, const Interrupted& interrupted) override;
  [[nodiscard]] bool is_shared() const override { return true; }
  [[nodiscard]] bool is_same_as(const Store& other) const override;
  [[nodiscard]] bool waits() const override { return true; }
  [[nodiscard]] bool waits_seldom() const override { return true; }

  /// Removes the file, if any: whoever has it open goes on with it. Throws StoreConfigError for one that is
  /// not ours to remove.
  void unlink();

  // These open a file that exists; without one that can be used, everything is 0.
  [[nodiscard]] std::size_t size();
  /// Nothing before the file exists. Throws StoreError as a call.
  [[nodiscard]] MemoryUsage usage();
  [[nodiscard]] std::uint64_t crowded_calls();
  [[nodiscard]] std::size_t damaged_shards();
  [[nodiscard]] Processes processes();
  [[nodiscard]] bool is_unlinked();
  [[nodiscard]] std::size_t shards();

  // These open a file that exists, too, and read what is kept in it without changing it.
  /// Copies the keys in so many buckets of a shard, from the last one below `below` on. Returns below which
  /// bucket to go on; 0: that was all. Keys that come, or move, meanwhile may be missed.
  std::size_t copy_keys(std::size_t shard, std::size_t below, std::size_t buckets, std::vector<KeptKey>& keys,
                        const Interrupted& interrupted);
  std::optional<KeptKey> copy_key(const PolicyIdentity& policy, std::string_view identifier,
                                  const Interrupted& interrupted);
  // These find a key by its hash, of which KeptKey tells; a key that is not kept stays so.
  std::optional<KeptKey> copy_key(const KeptKey::Hash& hash, const Interrupted& interrupted);
  void reset_key(const KeptKey::Hash& hash, const Interrupted& interrupted);
  void lock_key(const KeptKey::Hash& hash, Duration duration, const Interrupted& interrupted);
  void unlock_key(const KeptKey::Hash& hash, const Interrupted& interrupted);
  [[nodiscard]] const Options& options() const;
  /// Where the file is, or will be, for the user that this process runs as.
  [[nodiscard]] std::string path() const;

 private:
  table::Table& table() override;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace overlimit
