// A limit: an algorithm with its numbers and an optional name. An immutable value, validated when built.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/algorithms/registry.hpp"
#include "overlimit/calendar.hpp"

namespace overlimit {

/// Tells a limit's record among the records of a key, in memory and in Redis alike.
using Tag = std::uint64_t;

class Limit {
 public:
  /// `numbers` are in the order that the algorithm's `make` documents. There is a calendar where the numbers
  /// ask for one, and only there. Throws InvalidLimit naming the algorithm or the number that is wrong.
  Limit(std::string_view algorithm, std::span<const std::int64_t> numbers,
        std::optional<std::string> name = std::nullopt, std::shared_ptr<const Calendar> calendar = nullptr);

  [[nodiscard]] const Algorithm& algorithm() const { return algorithm_; }
  [[nodiscard]] const std::optional<std::string>& name() const { return name_; }
  [[nodiscard]] std::string_view algorithm_name() const;
  /// The numbers that its script reads.
  [[nodiscard]] std::vector<std::int64_t> packed() const;
  /// The most cells its record holds.
  [[nodiscard]] std::int64_t max_cells() const;
  [[nodiscard]] bool has_calendar() const { return calendar_ != nullptr; }
  [[nodiscard]] bool holds_at(Instant now) const;
  [[nodiscard]] Limit dated(Instant now) const;
  /// A hash of what identifies the limit's record: algorithm, period, precision, start, calendar, name, and
  /// its place among those that are equal in all of that; not how much it grants.
  [[nodiscard]] Tag tag(std::size_t ordinal = 0) const;

 private:
  Algorithm algorithm_;
  std::optional<std::string> name_;
  std::shared_ptr<const Calendar> calendar_;
};

/// A stable 64-bit hash of a string (FNV-1a): the same in every process, so it may be stored.
std::uint64_t hash_of(std::string_view text);

/// What the name of a policy or a limit must be, and a prefix, since they are parts of keys.
inline constexpr std::string_view kKeyNameRule = "1 to 64 characters of A-Z a-z 0-9 _ . -";
bool is_key_name(std::string_view text);

}  // namespace overlimit
