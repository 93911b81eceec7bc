// What the stores in memory have in common: their state is a table, which decides.
#pragma once

#include <cstddef>

#include "overlimit/store.hpp"

namespace overlimit {

namespace table {
class Table;
}

struct MemoryUsage {
  std::size_t keys = 0;
  std::size_t max_keys = 0;
  std::size_t bytes = 0;  ///< that keys have taken; what they give back is used again
  std::size_t max_bytes = 0;
};

/// Those that derive from it say where the table lies. As thread-safe as the table.
class TableStore : public Store {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 43;

  [[nodiscard]] Duration timeout() const final { return timeout_; }

  void decide(std::span<const Call> calls, const Rows& rows, std::span<Instant> times, std::span<Basis> bases,
              const Interrupted& interrupted) final;
  void decide_one(const Call& call, const Rows& rows, Instant& time, Basis& basis,
                  const Interrupted& interrupted) final;
  void refund_showing(const Call& call, std::span<const Receipt> receipts, Present* present,
                      const Interrupted& interrupted) final;
  /// Throws OutOfMemory, with some perhaps locked, where a store that is full has no room for a key.
  void lock(const Call& call, Duration duration, const Interrupted& interrupted) final;
  void unlock(const Call& call, const Interrupted& interrupted) final;
  /// All of the identifiers, or none when it throws.
  void reset(const PolicyIdentity& policy, std::span<const std::string_view> identifiers,
             const Interrupted& interrupted) final;
  void reset_all(const PolicyIdentity& policy, const Interrupted& interrupted) final;

 protected:
  /// `timeout` is how long a call waits at most.
  explicit TableStore(Duration timeout) : timeout_(timeout) {}
  /// The table, for one call. May throw StoreConfigError.
  virtual table::Table& table() = 0;
  /// Throws std::invalid_argument for max_keys of 0, or max_bytes outside [least_bytes, kMaxBytes].
  static void check_sizes(std::size_t max_keys, std::size_t max_bytes, std::size_t least_bytes);

 private:
  Duration timeout_;
};

}  // namespace overlimit
