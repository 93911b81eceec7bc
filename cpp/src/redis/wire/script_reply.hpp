// What a script replies, as bytes (lua/README.md): the one place that takes them apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "overlimit/non_copyable.hpp"
#include "overlimit/store.hpp"
#include "redis/protocol/reply.hpp"

namespace overlimit::redis {

/// The bits of a reply's first byte: what was done, and so what follows `now`, in this order.
struct ReplyFlags {
  static constexpr std::uint8_t kGranted = 1;  ///< how many units of a lease
  static constexpr std::uint8_t kWritten = 2;  ///< per key when it was created; 0: nothing was charged there
  static constexpr std::uint8_t kOtherKeys = 4;  ///< the same of the keys there are: nothing was done on them
  static constexpr std::uint8_t kFound = 8;      ///< per key its value as it was found
  static constexpr std::uint8_t kCharged = 16;   ///< per key when it was created, and what each limit has now
  static constexpr std::uint8_t kValues =
      32;  ///< per key its value as it is now, also in place of `kCharged`
  static constexpr std::uint8_t kRestored =
      64;  ///< nothing more: a key had lost some of what was merged into it
};

/// Owns the reply, and tells what is where in it.
class ScriptReply : NonCopyable {
 public:
  /// To a script that was run on so many keys. Throws ScriptError for what no script can have replied.
  ScriptReply(protocol::Reply reply, std::size_t keys);

  /// Whether the script has nothing to say.
  [[nodiscard]] bool is_empty() const { return reply_.is_nil(); }
  [[nodiscard]] Instant now() const { return now_; }
  /// Whether nothing was decided, because a calendar's bounds don't reach now.
  [[nodiscard]] bool is_out_of_bounds() const { return !is_empty() && flags_ == 0; }
  [[nodiscard]] bool has(std::uint8_t flag) const { return (flags_ & flag) != 0; }

  /// How many extra units were charged for a lease, if the call was admitted.
  [[nodiscard]] std::optional<Cost> granted() const { return granted_; }
  [[nodiscard]] const std::vector<std::int64_t>& creations() const { return creations_; }
  [[nodiscard]] const std::vector<std::string_view>& found() const { return found_; }
  [[nodiscard]] const std::vector<std::string_view>& values() const { return values_; }
  /// What follows in place of `values`, if every charge was written.
  [[nodiscard]] std::string_view charged() const { return charged_; }

  /// A key as the server has it after the script.
  struct Key {
    std::optional<std::string_view> value;  ///< empty: there is no key; nullopt: the reply does not say
    std::int64_t created_at = 0;            ///< 0: there is no key
  };
  /// Each of them; none, if the reply says nothing of them.
  [[nodiscard]] std::vector<Key> keys() const;
  /// The number of the connection that it came through.
  [[nodiscard]] std::uint64_t connection() const { return reply_.connection(); }

 private:
  const protocol::Reply reply_;
  const std::size_t keys_;
  std::uint8_t flags_ = 0;
  Instant now_{};
  std::optional<Cost> granted_;
  std::vector<std::int64_t> creations_;
  std::vector<std::string_view> found_;
  std::vector<std::string_view> values_;
  std::string_view charged_;
};

/// Throws the error of a reply that is none of ours.
[[noreturn]] void not_ours();

}  // namespace overlimit::redis
