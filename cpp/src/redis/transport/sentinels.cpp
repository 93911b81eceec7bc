#include "redis/transport/sentinels.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "overlimit/errors.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/transport/connector.hpp"
#include "redis/transport/waiting.hpp"

namespace overlimit::redis::transport {
namespace {

using protocol::Reply;

constexpr std::chrono::seconds kProbeInterval{1};
constexpr std::chrono::seconds kRetryInterval{5};
/// The part of a call's time for opening one more connection to a sentinel.
constexpr int kShareToListen = 4;
constexpr std::chrono::milliseconds kLongestToListen{25};

Endpoint sentinel_endpoint(const HostPort& address, const SentinelLocation& location) {
  Endpoint endpoint;
  endpoint.tls = location.server.tls;
  return endpoint_at(address, endpoint);
}

Endpoint master_endpoint(const HostPort& address, const SentinelLocation& location) {
  Endpoint endpoint = endpoint_at(address, location.server);
  endpoint.must_be_master = true;
  return endpoint;
}

}  // namespace

Sentinels::Sentinels(SentinelLocation location) : location_(std::move(location)) {
  for (const HostPort& each : location_.sentinels) {
    sentinels_.emplace_back(sentinel_endpoint(each, location_), location_.service);
  }
}

Reply Sentinels::call(std::string_view command, std::optional<protocol::Slot> /*slot*/, const Wait& wait) {
  Backoff backoff;
  Master master = this->master(wait);
  for (;;) {
    try {
      std::optional<Reply> reply = confirmed(master, master.node->call({command}, wait));
      if (reply && !protocol::classify(*reply).is_retryable()) return std::move(*reply);
      if (reply && !backoff.pause(wait)) {
        master.node->record_final_reply(*reply);
        return std::move(*reply);
      }
      master = this->master(wait);
    } catch (const StoreTimeout&) {
      is_suspect_.store(true);
      throw;
    } catch (const StoreUnavailable& unavailable) {
      if (unavailable.maybe_charged()) {
        is_suspect_.store(true);
        throw;
      }
      master = new_master(master, wait);
    }
  }
}

void Sentinels::call_many(std::span<const std::string> commands,
                          std::span<const std::optional<protocol::Slot>> /*slots*/,
                          std::span<std::optional<Reply>> replies, const Wait& wait) {
  const Master master = this->master(wait);
  const auto confirm = [&] {
    for (std::optional<Reply>& reply : replies) {
      if (reply) reply = confirmed(master, std::exchange(reply, std::nullopt).value());
    }
  };
  try {
    master.node->call_many(plain_commands(commands), replies, wait);
  } catch (const StoreError&) {
    is_suspect_.store(true);
    confirm();
    throw;
  }
  confirm();
}

Sentinels::Master Sentinels::new_master(const Master& failed, const Wait& wait) {
  is_suspect_.store(true);
  if (wait.deadline.passed()) throw;
  Master next = master(wait);
  if (next.term == failed.term) throw;
  return next;
}

std::optional<Reply> Sentinels::confirmed(const Master& by, Reply reply) {
  read_announcements();
  if (term_.load() != by.term) {
    if (reply.is_error()) return std::nullopt;
    throw StoreUnavailable("redis at " + by.node->endpoint().describe() +
                               " was replaced as master during the call; what it counted last may be lost",
                           true);
  }
  const bool serves = !protocol::classify(reply).is_retryable();
  if (is_suspect_.load(std::memory_order_relaxed) == serves) is_suspect_.store(!serves);
  return reply;
}

void Sentinels::for_each_server(const std::function<void(const Server&)>& visit, const Wait& wait) {
  const Master shown = master(wait);
  visit([this, &shown](std::string_view command, const Wait& each) {
    std::optional<Reply> reply = confirmed(shown, shown.node->call({command}, each));
    if (reply) return std::move(*reply);
    throw StoreUnavailable("redis at " + shown.node->endpoint().describe() + " is no longer the master");
  });
}

Sentinels::Master Sentinels::master(const Wait& wait) {
  read_announcements();
  if (is_master_unsure()) {
    discover(wait);
  } else {
    connect_to_another(wait);
  }
  for (;;) {
    Master known = known_master();
    if (known.node) return known;
    if (!discovery_task_.is_running()) {
      const std::lock_guard lock(mutex_);
      if (failure_) std::rethrow_exception(failure_);
    }
    if (wait.deadline.passed())
      throw StoreTimeout("no sentinel named the master of '" + location_.service + "' in time");
    pause(RateLimitedTask::kPollInterval, wait.interrupted);
  }
}

Sentinels::Master Sentinels::known_master() {
  const std::lock_guard lock(mutex_);
  return {node_, tracker_.term()};
}

bool Sentinels::is_master_unsure() { return is_suspect_.load() || term_.load() == 0 || !is_any_connected(); }

bool Sentinels::is_any_connected() const noexcept {
  return std::ranges::any_of(sentinels_, [](const Sentinel& each) { return each.fd.load() >= 0; });
}

/// Each sentinel gets half of the remaining time, so that a known master is still asked if none answers.
void Sentinels::discover(const Wait& wait) {
  RateLimitedTask::Permit permit(discovery_task_);
  if (!permit) return;
  const std::uint64_t term = term_.load();
  std::exception_ptr failure;
  for (std::size_t left = sentinels_.size(); left > 0; --left) {
    try {
      ask(sentinels_[first_], wait.share(2));
      if (term_.load() != term) permit.was_useful();
      is_suspect_.store(false);
      return;
    } catch (const StoreError& error) {
      if (error.maybe_charged()) throw;  // in a forked child
      failure = std::current_exception();
    }
    first_ = (first_ + 1) % sentinels_.size();
  }
  const std::lock_guard lock(mutex_);
  failure_ = failure;
}

void Sentinels::ask(Sentinel& sentinel, const Wait& wait) {
  if (sentinel.fd.load() < 0) open(sentinel, wait);
  {
    const std::lock_guard lock(mutex_);
    if (sentinel.connection.is_open()) sentinel.connection.ask();
    exchange_with_all();
  }
  await_answer(sentinel, wait);
}

void Sentinels::await_answer(Sentinel& sentinel, const Wait& wait) {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (sentinel.connection.failure()) std::rethrow_exception(sentinel.connection.failure());
    if (!sentinel.connection.is_open()) throw StoreUnavailable("the store was closed during a call");
    if (!sentinel.connection.is_asked()) return;
    const int fd = sentinel.connection.fd();
    const short events = sentinel.connection.events();
    lock.unlock();
    const bool came = await(fd, events, wait);
    lock.lock();
    exchange_with_all();
    if (came || !sentinel.connection.is_asked()) continue;
    sentinel.connection.fail(std::make_exception_ptr(StoreUnavailable(
        "the sentinel at " + sentinel.connector->endpoint().host_port() + " did not answer in time")));
    sentinel.fd.store(-1);
  }
}

void Sentinels::connect_to_another(const Wait& wait) {
  if (std::ranges::all_of(sentinels_, [](const Sentinel& each) { return each.fd.load() >= 0; })) return;
  RateLimitedTask::Permit permit(discovery_task_);
  if (!permit) return;
  permit.was_useful();
  Sentinel* const another = next_unconnected();
  if (another == nullptr) return;
  const auto share =
      std::chrono::duration_cast<std::chrono::microseconds>(wait.deadline.remaining() / kShareToListen);
  try {
    open(*another,
         {Deadline(std::min<std::chrono::microseconds>(share, kLongestToListen)), wait.interrupted});
  } catch (const StoreError& error) {
    if (error.maybe_charged()) throw;  // in a forked child
  }
}

Sentinels::Sentinel* Sentinels::next_unconnected() {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  for (Sentinel& each : sentinels_) {
    if (each.connection.is_open() || now < each.next_try) continue;
    each.next_try = now + kRetryInterval;
    return &each;
  }
  return nullptr;
}

void Sentinels::open(Sentinel& sentinel, const Wait& wait) {
  std::unique_ptr<Stream> stream = connect(sentinel.connector, wait);
  const std::lock_guard lock(mutex_);
  sentinel.connection.open(std::move(stream));
  exchange_with_all();
}

/// Mostly there is nothing to read, which is found out without a lock.
void Sentinels::read_announcements() {
  std::vector<pollfd> polled;
  polled.reserve(sentinels_.size());
  for (const Sentinel& each : sentinels_) polled.push_back({each.fd.load(), POLLIN, 0});
  const bool is_probe_due = Clock::now() >= next_probe_.load();
  if (::poll(polled.data(), polled.size(), 0) <= 0 && !is_probe_due) return;
  const std::lock_guard lock(mutex_);
  exchange_with_all();
  if (!is_probe_due) return;
  next_probe_.store(Clock::now() + kProbeInterval);
  for (Sentinel& each : sentinels_) each.connection.probe(Clock::now());
  exchange_with_all();
}

void Sentinels::exchange_with_all() {
  for (Sentinel& each : sentinels_) {
    each.connection.exchange(tracker_, Clock::now());
    each.fd.store(each.connection.is_open() ? each.connection.fd() : -1);
  }
  if (tracker_.term() == term_.load()) return;
  node_ = node_of(master_endpoint(*tracker_.master(), location_));
  term_.store(tracker_.term());
}

protocol::Breaker::State Sentinels::breaker() {
  const Master known = known_master();
  return known.node ? known.node->breaker() : protocol::Breaker::State::closed;
}

void Sentinels::close() {
  const std::lock_guard lock(mutex_);
  for (Sentinel& each : sentinels_) {
    each.fd.store(-1);
    each.connection.close();
  }
  if (node_) node_->close();
}

}  // namespace overlimit::redis::transport
