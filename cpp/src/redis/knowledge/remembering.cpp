#include "redis/knowledge/remembering.hpp"

#include <utility>

#include "redis/knowledge/server_reading.hpp"
#include "redis/transport/connector.hpp"

namespace overlimit::redis {

Remembering::Remembering(const Location& location, const RedisStore::Keys& keys, Duration longest)
    : longest_(longest), values_([this, location, keys] {
        auto values = RememberedValues::of(location, keys);
        if (is_on()) values->want();
        return std::make_unique<std::shared_ptr<RememberedValues>>(std::move(values));
      }) {
  (void)*values_;
}

Hearing::Hearing(Remembering& remembering, Servers& servers, std::vector<std::string> keys)
    : remembering_(remembering),
      servers_(servers),
      keys_(std::move(keys)),
      newest_(transport::opened_connections.load()),
      asked_at_(boot_time()) {}

// Held against what is remembered by now: the reply to an earlier command of a pipeline may have told it.
bool Hearing::doubts(const ToldReply& told) {
  bool is_any_doubted = false;
  for (std::size_t k = 0; k < told.keys.size(); ++k) {
    const auto known = remembering_.values().find(keys_[k], boot_time());
    if (known == nullptr) continue;
    const bool is_same = told.keys[k].created_at == known->created_at;
    if (is_same && !known->is_news_for(servers_.link_of(keys_[k]))) continue;
    remembering_.values().doubt(keys_[k], boot_time());
    is_any_doubted = true;
  }
  return is_any_doubted;
}

// It is kept for as long as any of its records can count by a clock that is no faster than ours.
void Hearing::keep(const ToldReply& told) {
  const Duration answered_at = boot_time();
  for (std::size_t k = 0; k < told.keys.size(); ++k) {
    if (!told.keys[k].value) {
      remembering_.values().forget(keys_[k]);
      continue;
    }
    const Duration lives = max(Duration{}, last_expiry(*told.keys[k].value) - told.now);
    remembering_.values().keep(keys_[k],
                               {.bytes = *told.keys[k].value,
                                .created_at = told.keys[k].created_at,
                                .told = told.now,
                                .asked_at = asked_at_,
                                .answered_at = answered_at,
                                .forgotten_at = asked_at_ + min(lives, remembering_.longest()),
                                .server = servers_.link_of(keys_[k]).server,
                                .newest = newest_});
  }
}

}  // namespace overlimit::redis
