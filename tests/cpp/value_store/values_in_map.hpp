// A store whose values a map keeps: the simplest there is.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "overlimit/value_store.hpp"

namespace overlimit::testing {

class ValuesInMap : public ValueStore {
 public:
  [[nodiscard]] bool is_shared() const override { return true; }
  [[nodiscard]] bool waits() const override { return false; }

  std::map<std::string, std::string> values;
  std::vector<std::size_t> sizes{};       ///< of the transactions so far, in keys
  std::size_t most = 256;                 ///< keys in one of them
  int runs = 1;                           ///< of each step
  std::optional<Duration> last_expiry{};  ///< that was written
  std::optional<Instant> now{};

 protected:
  void transact(const std::shared_ptr<ValueStep>& step, TransactionTime& /*time*/) override {
    if (step->keys().size() > most) throw CallerMistake("too many keys");
    sizes.push_back(step->keys().size());
    std::vector<std::optional<std::string_view>> found;
    for (const std::string& key : step->keys()) {
      const auto value = values.find(key);
      found.push_back(value == values.end() ? std::nullopt : std::optional<std::string_view>(value->second));
    }
    ValueStep::Writes writes;
    for (int i = 0; i < runs; ++i) writes = step->run(found, now);
    for (std::size_t i = 0; i < writes.size(); ++i) {
      if (!writes[i]) continue;
      values[step->keys()[i]] = writes[i]->value;
      last_expiry = writes[i]->expires_in;
    }
  }
  [[nodiscard]] std::size_t max_keys() const override { return most; }
  [[nodiscard]] std::vector<std::string> scan(const std::string& prefix) override {
    std::vector<std::string> keys;
    for (const auto& [key, value] : values) {
      if (key.starts_with(prefix)) keys.push_back(key);
    }
    return keys;
  }
};

}  // namespace overlimit::testing
