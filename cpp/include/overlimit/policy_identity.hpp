// What tells policies apart: a name, which all who use it share, or an identity of a single policy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace overlimit {

class PolicyIdentity {
 public:
  /// Throws InvalidLimit for a name that cannot stand in a key.
  explicit PolicyIdentity(std::string name);
  /// An identity that no other policy has. It ends with the last copy of it. Throws std::bad_alloc when
  /// memory, or the 2^24 identities that may be in use at once, run out.
  static PolicyIdentity unnamed();
  /// Empty without a name.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool has_name() const { return unnamed_ == nullptr; }
  /// A hash of the name, or a number of this identity alone.
  [[nodiscard]] std::uint64_t digest() const { return digest_; }
  bool operator==(const PolicyIdentity& other) const {
    return digest_ == other.digest_ && name_ == other.name_;
  }

  /// Whether this is the digest of an identity without a name that has ended. Thread-safe; never waits.
  static bool has_ended(std::uint64_t digest) { return (digest & kUnnamedBit) != 0 && !is_in_use(digest); }

 private:
  class Unnamed;

  static constexpr std::uint64_t kUnnamedBit = std::uint64_t{1} << 63;

  explicit PolicyIdentity(std::shared_ptr<const Unnamed> unnamed);
  static bool is_in_use(std::uint64_t digest);

  std::string name_;
  std::shared_ptr<const Unnamed> unnamed_;
  std::uint64_t digest_;
};

}  // namespace overlimit
