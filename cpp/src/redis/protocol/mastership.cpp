#include "redis/protocol/mastership.hpp"

namespace overlimit::redis::protocol {

void Mastership::named(const HostPort& master, Instant now) {
  if (!is_replaced(master, now)) follow(master, now);
}

void Mastership::switched(const Switch& announced, Instant now) {
  if (announced.from != master_ && is_replaced(announced.to, now)) return;
  follow(announced.to, now);
  if (announced.from != announced.to) replaced_[announced.from] = now;
}

bool Mastership::is_replaced(const HostPort& server, Instant now) const {
  const auto found = replaced_.find(server);
  return found != replaced_.end() && now - found->second < kDoubt;
}

void Mastership::follow(const HostPort& master, Instant now) {
  if (master_ == master) return;
  std::erase_if(replaced_, [&](const auto& each) { return !is_replaced(each.first, now); });
  if (master_) replaced_[*master_] = now;
  replaced_.erase(master);
  master_ = master;
  ++term_;
}

}  // namespace overlimit::redis::protocol
