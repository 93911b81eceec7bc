// The bytes of a pickled decision: a decision that has the very same bytes, or an error that says why not.
#include <stdexcept>

#include "overlimit/decision_value.hpp"
#include "target.hpp"

namespace overlimit::fuzz {
namespace {

void check_decided(const DecidedValue& decided) {
  std::size_t pairs = 0;
  for (const SubjectValue& subject : decided.subjects) {
    check(subject.policy < decided.policies.size(), "a subject has a policy");
    check(subject.cost >= 0, "a cost is not negative");
    pairs += decided.policies[subject.policy].limits.size();
  }
  check(decided.rows.size() == pairs, "a row for each subject and limit");
  for (const RowValue& row : decided.rows) {
    check(row.status <= Status::never, "a verdict");
    check(row.remaining >= 0 && row.retry_after >= 0 && row.reset_after >= 0 && row.delay >= 0,
          "no number of a row is negative");
  }
}

void read_decision(std::string_view input) {
  DecisionValue decision;
  try {
    decision = decode_decision(input);
  } catch (const std::invalid_argument& refused) {
    check(std::string_view(refused.what()).size() > 10, "it says why");
    return;
  }
  check(decision.time >= 0 && decision.time < kMaxTime, "an instant that a clock can read");
  if (const auto* decided = std::get_if<DecidedValue>(&decision.answer)) check_decided(*decided);
  check(encode(decision) == input, "what was read is written the same");
}

std::vector<std::string> decisions() {
  const PolicyValue named{
      "api",
      {{"fixed_window", {WholeNumber{"a"}}, {{"per", WholeNumber{"3c"}}}},
       {"token_bucket", {Ratio{{"1"}, {"3"}}}, {{"per", 0.5}, {"refill", "continuous"}}}}};
  const PolicyValue unnamed{std::nullopt, {{"sliding_window", {WholeNumber{"1"}}, {}}}};
  const DecidedValue decided{
      true,
      {named, unnamed},
      {{1, true, "user:42", 1, Role::enforce}, {0, false, "x", 2, Role::shadow}},
      {{Status::ok, 9, 0, 1'000'000, 5}, {Status::over, 0, 17, 17, 0}, {Status::never, 0, kNever, 0, 0}}};
  return {encode({1'700'000'000'000'000, {"1"}, decided}),
          encode({0, {"1"}, UndecidedValue{Status::over, 100'000}})};
}

const Registration kDecision("decision", {read_decision, decisions});

}  // namespace
}  // namespace overlimit::fuzz
