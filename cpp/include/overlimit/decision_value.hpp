// A Decision as a value, apart from any store and any interpreter, and its bytes: what is pickled.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "overlimit/decision.hpp"

namespace overlimit {

/// A whole number of any size: hexadecimal digits without leading zeros, after a minus sign if it is
/// negative.
struct WholeNumber {
  std::string digits;
  bool operator==(const WholeNumber&) const = default;
};

struct Ratio {
  WholeNumber numerator;
  WholeNumber denominator;  ///< above 0
  bool operator==(const Ratio&) const = default;
};

/// What a limit's constructor takes.
using Argument = std::variant<WholeNumber, Ratio, double, std::string>;

/// A limit as the call that builds it: its algorithm's name and the arguments. Whether such a limit can exist
/// is for the constructor to say.
struct LimitValue {
  std::string algorithm;
  std::vector<Argument> positional;
  std::vector<std::pair<std::string, Argument>> named;
  bool operator==(const LimitValue&) const = default;
};

struct PolicyValue {
  std::optional<std::string> name;
  std::vector<LimitValue> limits;  ///< in the order given
  bool operator==(const PolicyValue&) const = default;
};

/// One charge: its policy, its identifier as it was given, its cost and its role.
struct SubjectValue {
  std::size_t policy;  ///< its place among the policies
  bool is_text;        ///< whether the identifier was given as text or as bytes
  std::string identifier;
  Cost cost;
  Role role;
  bool operator==(const SubjectValue&) const = default;
};

struct RowValue {
  Status status;
  std::int64_t remaining;
  Micros retry_after;
  Micros reset_after;
  Micros delay;
  bool operator==(const RowValue&) const = default;
};

/// What a store has decided. The answer is folded from its rows, so it is not kept.
struct DecidedValue {
  bool is_local;
  std::vector<PolicyValue> policies;
  std::vector<SubjectValue> subjects;
  std::vector<RowValue> rows;  ///< subjects in order, and for each its policy's limits in canonical order
  bool operator==(const DecidedValue&) const = default;
};

/// The answer of on_error, while no store could decide.
struct UndecidedValue {
  Status status;
  Micros retry_after;
  bool operator==(const UndecidedValue&) const = default;
};

struct DecisionValue {
  Micros time;
  WholeNumber cost;
  std::variant<DecidedValue, UndecidedValue> answer;
  bool operator==(const DecisionValue&) const = default;
};

/// The bytes of a decision: equal ones have equal bytes. docs/decisions.md says why this form.
std::string encode(const DecisionValue& decision);

/// Reads what `encode` has written. Throws std::invalid_argument for any other bytes, also for those of
/// another version of this format. What it returns has one row per subject and limit, and numbers within
/// their ranges; the limits themselves are not checked.
DecisionValue decode_decision(std::string_view bytes);

}  // namespace overlimit
