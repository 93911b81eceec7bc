// The last value that was reported to this process of each key, for a server that forgets (docs/semantics.md:
// counts that come back).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/forks.hpp"
#include "overlimit/non_copyable.hpp"
#include "redis/plain/layer.hpp"
#include "redis/plain/values_in_use.hpp"
#include "redis/transport/link.hpp"

namespace overlimit::redis {

/// A key that was lost, and up to when what it counted has come back: when the value was reported, by the
/// server's clock, from which it was restored.
struct LostKey {
  std::int64_t created_at;
  Instant restored_as_of;
};

/// A key's value as it was reported to this process.
struct Snapshot {
  std::string bytes;
  std::int64_t created_at;
  Instant reported_at;  ///< by the server's clock
  Duration asked_at;    ///< boot time, as all below
  Duration answered_at;
  Duration forgotten_at;
  std::size_t server;           ///< that reported it
  std::uint64_t newest;         ///< of the connections of this process when it was asked for
  std::uint64_t sequence = 0;   ///< its number among what this process has asked and suspected
  std::uint64_t suspected = 0;  ///< the number of the last suspicion; 0: the server may have it still
  std::vector<LostKey> lost{};  ///< the keys of that name before it, the latest last

  /// Whether this may be another server than reported it, or a later connection.
  [[nodiscard]] bool is_from_elsewhere(std::size_t other, std::uint64_t connection) const {
    return connection > 0 && (other != server || connection > newest);
  }
  /// Whether it is to be restored before the key is asked for through this link.
  [[nodiscard]] bool is_news_for(const transport::Link& link) const {
    return suspected > 0 || is_from_elsewhere(link.server, link.newest);
  }
};

/// When the last record of a value expires; 0: it is none, or has none.
Instant last_expiry(std::string_view value);

/// Those of one keyspace. Thread-safe.
class Snapshots : public Observer, NonCopyable {
 public:
  static constexpr std::size_t kMostKeys = 4096;
  static constexpr std::size_t kMostBytesOfKey = 4096;
  static constexpr std::size_t kMostBytes = 4 << 20;
  using Pointer = std::shared_ptr<const Snapshot>;

  std::unique_ptr<Observation> observe_change(const Change& change) override;

  /// What is remembered of a key at this boot time, or nullptr.
  [[nodiscard]] Pointer find(std::string_view key, Duration now);
  /// What a reply reports of a key.
  struct Report {
    const std::string& key;
    bool has_value;  ///< of nothing but a time of creation, nothing is kept
    Snapshot fresh;
    Pointer sent;              ///< what was remembered when it was asked for
    std::uint64_t connection;  ///< that the reply came through
  };
  /// Judges a reply by what it reports of its keys, and keeps that instead of what was reported before if it
  /// is sound; of suspect ones, what is remembered is suspected. What is reported of a key that has been
  /// lost since, by a server that this process has had restore it, is sound if it had come back with that,
  /// and else lost.
  Trust judge(std::span<Report> reports, bool is_of_others);
  /// Keeps a value instead of what was reported before it. One that is too large is forgotten. What is
  /// remembered of another key of that name is suspected instead.
  void keep(const std::string& key, Snapshot fresh);
  /// The same of what a key holds after this was restored.
  void keep_restored(const std::string& key, Snapshot fresh, const Pointer& restored);
  void keep_reset(const std::string& key, Snapshot fresh);
  /// The number of what is asked next.
  [[nodiscard]] static std::uint64_t next_sequence() { return ++sequences_; }
  void forget(std::string_view key);
  /// The keys that begin like one of these.
  [[nodiscard]] std::vector<std::string> keys_of(std::span<const std::string> starts);

 private:
  /// What `judge` makes of a single key; nothing if it is sound, and nothing new.
  static std::optional<Trust> trust_in(const Report& report, const Pointer& known);
  static void suspect(Pointer& known);
  void replace(const Pointer* known, const std::string& key, Snapshot fresh);
  void replace(const Pointer* known, const std::string& key, Snapshot fresh, std::vector<LostKey> lost);

  static inline std::atomic<std::uint64_t> sequences_{0};

  ForkSafeMutex mutex_;
  ValuesInUse<Pointer> values_{kMostKeys, kMostBytes};  // guarded by mutex_
};

}  // namespace overlimit::redis
