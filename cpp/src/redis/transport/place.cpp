#include "redis/transport/place.hpp"

#include <utility>

namespace overlimit::redis::transport {

Connection* Place::lend() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lent_, true) ? nullptr : &connection_;
}

void Place::take_back() {
  const std::lock_guard lock(mutex_);
  lent_ = false;
  if (std::exchange(to_be_closed_, false)) connection_.close();
}

void Place::close() {
  const std::lock_guard lock(mutex_);
  close_or_mark();
}

void Place::disown() {
  const std::lock_guard lock(mutex_);
  owner_ = nullptr;
  close_or_mark();
}

void Place::close_or_mark() {
  if (lent_) {
    to_be_closed_ = true;
  } else {
    connection_.close();
  }
}

const void* Place::owner() const {
  const std::lock_guard lock(mutex_);
  return owner_;
}

}  // namespace overlimit::redis::transport
