#include "vector_player.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "../calls.hpp"
#include "natural_periods.hpp"

namespace overlimit {

void to_json(nlohmann::json& json, Duration duration) { json = duration.micros(); }
void from_json(const nlohmann::json& json, Duration& duration) {
  duration = Duration(json.get<std::int64_t>());
}

namespace testing {
namespace {

using Json = nlohmann::json;

/// One trace on one store. The engine knows no time zones: policies that follow a calendar of another zone
/// than UTC are left to the tests in Python, where the zones are.
class VectorPlayer {
 public:
  VectorPlayer(Store& store, Json vector) : store_(store), vector_(std::move(vector)) {
    for (const auto& [key, policy] : vector_.at("policies").items()) {
      names_[key] = policy.value("name", key);
      update(key, policy.at("limits"));
    }
  }

  void play() {
    for (const Json& step : vector_.at("steps")) {
      SCOPED_TRACE(step.at("why").get<std::string>());
      if (needs_other_zone(step)) continue;
      const std::string what = step.at("do");
      now_ = step.contains("at_us")
                 ? step["at_us"].get<Micros>()
                 : vector_.at("start_us").get<Micros>() + step.at("after_us").get<Micros>();
      if (what == "hit" || what == "peek") ask_and_compare(step, what == "hit" ? Mode::consume : Mode::peek);
      if (what == "refund") refund(step.at("of"));
      if (what == "reset") reset(step);
      if (what == "lock") store_.lock(call_of(charges_of(step)), step.at("for_us").get<Duration>(), {});
      if (what == "reset_all") store_.reset_all(policy_of(step).identity(), {});
      if (what == "update") update(key_of(step), step.at("limits"));
      ++played_;
    }
    EXPECT_GT(played_, 0);
  }

 private:
  struct Asked {
    std::vector<Charge> charges;
    Answer answer;
  };

  static bool is_utc(const Json& limits) {
    return std::ranges::all_of(limits, [](const Json& limit) {
      return !limit.contains("calendar") || limit["calendar"].at("timezone") == "UTC";
    });
  }

  bool needs_other_zone(const Json& step) const {
    if (!step.contains("charges")) return !policies_.contains(key_of(step));
    return std::ranges::any_of(step["charges"],
                               [&](const Json& charge) { return !policies_.contains(charge.at("policy")); });
  }

  static Limit limit_in(const Json& limit) {
    std::optional<std::string> name;
    if (limit.contains("name")) name = limit["name"];
    std::shared_ptr<const Calendar> calendar;
    if (limit.contains("calendar")) {
      calendar = natural_periods(limit["calendar"].at("unit"), limit["calendar"].at("week_start"));
    }
    return {limit.at("algorithm").get<std::string>(), limit.at("numbers").get<std::vector<std::int64_t>>(),
            name, calendar};
  }

  static std::optional<Penalty> penalty_in(const Json& policy) {
    if (!policy.contains("penalty")) return std::nullopt;
    const Json& numbers = policy["penalty"];
    Penalty penalty{numbers.at("levels_us"), numbers.at("extend"), std::nullopt};
    if (!numbers.at("forget_after_us").is_null())
      penalty.forget_after = numbers["forget_after_us"].get<Duration>();
    return penalty;
  }

  void update(const std::string& key, const Json& limits) {
    if (!is_utc(limits)) return;
    std::vector<Limit> made;
    for (const Json& limit : limits) made.push_back(limit_in(limit));
    all_plans_.push_back(
        std::make_unique<CompiledPolicy>(names_.at(key), made, penalty_in(vector_.at("policies").at(key))));
    policies_[key] = all_plans_.back().get();
  }

  std::string key_of(const Json& step) const {
    return step.contains("policy") ? step["policy"].get<std::string>() : vector_.at("policies").begin().key();
  }
  const CompiledPolicy& policy_of(const Json& step) const { return *policies_.at(key_of(step)); }

  // Greater than anything is as good as any greater number.
  static Cost cost_in(const Json& step) {
    if (!step.contains("cost")) return 1;
    const Json& cost = step["cost"];
    const bool fits = cost.is_number_integer() &&
                      !(cost.is_number_unsigned() && cost.get<std::uint64_t>() > std::uint64_t{INT64_MAX});
    return fits ? cost.get<Cost>() : INT64_MAX;
  }

  // Identifiers are borrowed from the vector.
  std::vector<Charge> charges_of(const Json& step) const {
    std::vector<Charge> charges;
    if (step.contains("charges")) {
      for (const Json& charge : step["charges"]) {
        const std::string role = charge.value("role", "enforce");
        charges.push_back({policies_.at(charge.at("policy")),
                           charge.at("identifier").get_ref<const std::string&>(), cost_in(charge),
                           role == "enforce"  ? Role::enforce
                           : role == "shadow" ? Role::shadow
                                              : Role::on_refusal});
      }
      return charges;
    }
    for (const std::string_view identifier : identifiers_of(step)) {
      charges.push_back({&policy_of(step), identifier, cost_in(step)});
    }
    return charges;
  }

  static std::vector<std::string_view> identifiers_of(const Json& step) {
    if (!step.contains("identifiers")) return {"x"};
    std::vector<std::string_view> identifiers;
    for (const Json& identifier : step["identifiers"]) {
      const std::string_view text = identifier.get_ref<const std::string&>();
      if (std::ranges::find(identifiers, text) == identifiers.end()) identifiers.push_back(text);
    }
    return identifiers;
  }

  Call call_of(std::span<const Charge> charges) const { return {charges, Mode::consume, At(now_), false}; }

  void ask_and_compare(const Json& step, Mode mode) {
    const int times = step.value("repeat", 1);
    for (int time = 0; time < times; ++time) {
      Asked asked{charges_of(step), {{}, Columns(0), At(0)}};
      Call call = call_of(asked.charges);
      call.mode = mode;
      if (step.contains("patience_us")) call.patience = step["patience_us"].get<Duration>();
      asked.answer = ask(store_, call);
      now_ += step.value("every_us", Micros{0});
      if (step.contains("admitted")) {
        EXPECT_EQ(asked.answer.allowed(), time < step["admitted"].get<int>()) << "call " << time;
      }
      if (time + 1 < times) continue;
      compare(expected_in(step), shown(asked));
      if (step.contains("as")) answers_.insert_or_assign(step["as"].get<std::string>(), std::move(asked));
    }
  }

  // A decision is given back once, which is up to who asks the store.
  void refund(const std::string& label) {
    const auto found = answers_.find(label);
    if (found == answers_.end()) return;
    store_.refund(call_of(found->second.charges), found->second.answer.columns.receipt, {});
    answers_.erase(found);
  }

  void reset(const Json& step) { store_.reset(policy_of(step).identity(), identifiers_of(step), {}); }

  static Json shown_retry(Duration retry_after) {
    return retry_after == kNever ? Json("never") : Json(retry_after);
  }

  // Everything an answer says, in the words of a vector.
  static Json shown(const Asked& asked) {
    const Decision& decision = asked.answer.decision;
    const Columns& columns = asked.answer.columns;
    constexpr const char* kStatus[] = {"ok", "over", "locked", "never"};
    Json all{{"status", kStatus[std::size_t(decision.status)]},
             {"remaining", decision.remaining},
             {"retry_after_us", shown_retry(decision.retry_after)},
             {"reset_after_us", decision.reset_after},
             {"delay_us", decision.delay}};
    std::size_t first = 0;
    for (const Charge& charge : asked.charges) {
      std::vector<Json> rows(charge.policy->size());
      for (std::size_t i = 0; i < charge.policy->size(); ++i) {
        const std::size_t place = charge.policy->limits()[i].place;
        const std::size_t row = first + i;
        rows[place] = {{"policy", charge.policy->name()},
                       {"identifier", charge.identifier},
                       {"limit", place},
                       {"allowed", columns.status[row] == Status::ok},
                       {"remaining", columns.remaining[row]},
                       {"retry_after_us", shown_retry(columns.retry_after[row])},
                       {"reset_after_us", columns.reset_after[row]}};
        if (row != decision.binding_row) continue;
        for (const char* part : {"policy", "identifier", "limit"}) all[part] = rows[place][part];
      }
      for (Json& row : rows) all["rows"].push_back(std::move(row));
      first += charge.policy->size();
    }
    return all;
  }

  static Json expected_in(const Json& step) {
    constexpr const char* kNames[] = {"status", "remaining", "retry_after_us", "reset_after_us"};
    Json expected = step.value("also", Json::object());
    const Json& values = step.at("expect");
    for (std::size_t i = 0; i < values.size(); ++i) expected[kNames[i]] = values[i];
    return expected;
  }

  // What is not expected is not compared.
  static void compare(const Json& expected, const Json& answer) {
    for (const auto& [name, value] : expected.items()) {
      if (name != "rows") {
        EXPECT_EQ(answer.at(name), value) << name;
        continue;
      }
      ASSERT_EQ(answer.at(name).size(), value.size());
      for (std::size_t row = 0; row < value.size(); ++row) compare(value[row], answer.at(name)[row]);
    }
  }

  Store& store_;
  const Json vector_;
  Micros now_ = 0;
  int played_ = 0;
  std::map<std::string, std::string> names_;
  std::map<std::string, CompiledPolicy*> policies_;  // as they are now
  std::vector<std::unique_ptr<CompiledPolicy>> all_plans_;
  std::map<std::string, Asked> answers_;
};

}  // namespace

std::vector<std::string> all_vectors() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(OVERLIMIT_VECTORS)) {
    if (file.path().extension() == ".json") names.push_back(file.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

void play_vector(Store& store, const std::string& name) {
  std::ifstream file(std::filesystem::path(OVERLIMIT_VECTORS) / (name + ".json"));
  VectorPlayer(store, Json::parse(file)).play();
}

}  // namespace testing
}  // namespace overlimit
