#include "redis/transport/sentinels.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "overlimit/errors.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/transport/backoff.hpp"
#include "redis/transport/dialing.hpp"
#include "redis/transport/pause.hpp"

namespace overlimit::redis::transport {
namespace {

using protocol::Reply;

constexpr std::chrono::seconds kProbeInterval{1};
constexpr std::chrono::seconds kRetryInterval{5};
/// Of a call, to open one more connection to a sentinel.
constexpr int kShareToListen = 4;
constexpr std::chrono::milliseconds kLongestToListen{25};

Endpoint sentinel_endpoint(const HostPort& address, const SentinelSite& site) {
  Endpoint endpoint;
  endpoint.tls = site.server.tls;
  return endpoint_at(address, endpoint);
}

Endpoint master_endpoint(const HostPort& address, const SentinelSite& site) {
  Endpoint endpoint = endpoint_at(address, site.server);
  endpoint.must_be_master = true;
  return endpoint;
}

}  // namespace

Sentinels::Sentinels(const SentinelSite& site) : site_(site) {
  for (const HostPort& each : site_.sentinels) {
    sentinels_.emplace_back(sentinel_endpoint(each, site_), site_.service);
  }
}

Reply Sentinels::call(std::string_view request, std::optional<protocol::Slot> /*slot*/,
                      const Deadline& deadline, const Interrupted& interrupted) {
  Backoff backoff;
  Master master = this->master(deadline, interrupted);
  for (;;) {
    try {
      std::optional<Reply> reply = acknowledged(master, master.node->call({request}, deadline, interrupted));
      if (reply && !protocol::is_worth_retrying(*reply)) return std::move(*reply);
      if (reply && !backoff.pause(deadline, interrupted)) {
        master.node->gave_up_at(*reply);
        return std::move(*reply);
      }
      master = this->master(deadline, interrupted);
    } catch (const StoreTimeout&) {
      is_doubted_.store(true);
      throw;
    } catch (const StoreUnavailable& unavailable) {
      if (unavailable.maybe_charged()) {
        is_doubted_.store(true);
        throw;
      }
      master = successor(master, deadline, interrupted);
    }
  }
}

Sentinels::Master Sentinels::successor(const Master& failed, const Deadline& deadline,
                                       const Interrupted& interrupted) {
  is_doubted_.store(true);
  if (deadline.passed()) throw;
  Master next = master(deadline, interrupted);
  if (next.term == failed.term) throw;
  return next;
}

std::optional<Reply> Sentinels::acknowledged(const Master& by, Reply reply) {
  heed();
  if (term_.load() != by.term) {
    if (reply.is_error()) return std::nullopt;
    throw StoreUnavailable("redis at " + by.node->endpoint().describe() +
                               " was replaced as master during the call; what it counted last may be lost",
                           true);
  }
  const bool serves = !protocol::is_worth_retrying(reply);
  if (is_doubted_.load(std::memory_order_relaxed) == serves) is_doubted_.store(!serves);
  return reply;
}

void Sentinels::for_each_server(const std::function<void(const Server&)>& visit, const Deadline& deadline,
                                const Interrupted& interrupted) {
  const Master shown = master(deadline, interrupted);
  visit([this, &shown](std::string_view request, const Deadline& until, const Interrupted& ends) {
    std::optional<Reply> reply = acknowledged(shown, shown.node->call({request}, until, ends));
    if (reply) return std::move(*reply);
    throw StoreUnavailable("redis at " + shown.node->endpoint().describe() + " is no longer the master");
  });
}

Sentinels::Master Sentinels::master(const Deadline& deadline, const Interrupted& interrupted) {
  heed();
  if (is_in_doubt()) {
    ask_around(deadline, interrupted);
  } else {
    listen_to_another(deadline, interrupted);
  }
  for (;;) {
    Master known = known_master();
    if (known.node) return known;
    if (!errand_.is_taken()) {
      const std::lock_guard lock(mutex_);
      if (failure_) std::rethrow_exception(failure_);
    }
    if (deadline.passed())
      throw StoreTimeout("no sentinel named the master of '" + site_.service + "' in time");
    pause(Errand::kPollInterval, interrupted);
  }
}

Sentinels::Master Sentinels::known_master() {
  const std::lock_guard lock(mutex_);
  return {node_, mastership_.term()};
}

bool Sentinels::is_in_doubt() { return is_doubted_.load() || term_.load() == 0 || !is_anyone_heard(); }

bool Sentinels::is_anyone_heard() const noexcept {
  return std::ranges::any_of(sentinels_, [](const Sentinel& each) { return each.fd.load() >= 0; });
}

/// Each for half of the time left: a master that is known already goes on being asked though no sentinel
/// answers.
void Sentinels::ask_around(const Deadline& deadline, const Interrupted& interrupted) {
  Errand::Hold errand(errand_);
  if (!errand) return;
  const std::uint64_t term = term_.load();
  std::exception_ptr failure;
  for (std::size_t left = sentinels_.size(); left > 0; --left) {
    try {
      ask(sentinels_[first_], deadline.share(2), interrupted);
      if (term_.load() != term) errand.was_useful();
      is_doubted_.store(false);
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

void Sentinels::ask(Sentinel& sentinel, const Deadline& deadline, const Interrupted& interrupted) {
  if (sentinel.fd.load() < 0) open(sentinel, deadline, interrupted);
  {
    const std::lock_guard lock(mutex_);
    if (sentinel.link.is_open()) sentinel.link.ask();
    exchange_with_all();
  }
  await_answer(sentinel, deadline, interrupted);
}

void Sentinels::await_answer(Sentinel& sentinel, const Deadline& deadline, const Interrupted& interrupted) {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (sentinel.link.failure()) std::rethrow_exception(sentinel.link.failure());
    if (!sentinel.link.is_open()) throw StoreUnavailable("the store was closed during a call");
    if (!sentinel.link.is_asked()) return;
    const int fd = sentinel.link.fd();
    const short events = sentinel.link.events();
    lock.unlock();
    const bool came = await(fd, events, deadline, interrupted);
    lock.lock();
    exchange_with_all();
    if (came || !sentinel.link.is_asked()) continue;
    sentinel.link.fail(std::make_exception_ptr(StoreUnavailable(
        "the sentinel at " + sentinel.dialer->endpoint().host_port() + " did not answer in time")));
    sentinel.fd.store(-1);
  }
}

void Sentinels::listen_to_another(const Deadline& deadline, const Interrupted& interrupted) {
  if (std::ranges::all_of(sentinels_, [](const Sentinel& each) { return each.fd.load() >= 0; })) return;
  Errand::Hold errand(errand_);
  if (!errand) return;
  errand.was_useful();
  Sentinel* const another = unheard();
  if (another == nullptr) return;
  const auto share =
      std::chrono::duration_cast<std::chrono::microseconds>(deadline.remaining() / kShareToListen);
  try {
    open(*another, Deadline(std::min<std::chrono::microseconds>(share, kLongestToListen)), interrupted);
  } catch (const StoreError& error) {
    if (error.maybe_charged()) throw;  // in a forked child
  }
}

Sentinels::Sentinel* Sentinels::unheard() {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  for (Sentinel& each : sentinels_) {
    if (each.link.is_open() || now < each.next_try) continue;
    each.next_try = now + kRetryInterval;
    return &each;
  }
  return nullptr;
}

void Sentinels::open(Sentinel& sentinel, const Deadline& deadline, const Interrupted& interrupted) {
  std::unique_ptr<Stream> stream = dialed(sentinel.dialer, deadline, interrupted);
  const std::lock_guard lock(mutex_);
  sentinel.link.open(std::move(stream));
  exchange_with_all();
}

/// Most of the time there is nothing to read, and no lock is taken to find that out.
void Sentinels::heed() {
  std::vector<pollfd> polled;
  polled.reserve(sentinels_.size());
  for (const Sentinel& each : sentinels_) polled.push_back({each.fd.load(), POLLIN, 0});
  const bool is_probe_due = Clock::now() >= next_probe_.load();
  if (::poll(polled.data(), polled.size(), 0) <= 0 && !is_probe_due) return;
  const std::lock_guard lock(mutex_);
  exchange_with_all();
  if (!is_probe_due) return;
  next_probe_.store(Clock::now() + kProbeInterval);
  for (Sentinel& each : sentinels_) each.link.probe(Clock::now());
  exchange_with_all();
}

void Sentinels::exchange_with_all() {
  for (Sentinel& each : sentinels_) {
    each.link.exchange(mastership_, Clock::now());
    each.fd.store(each.link.is_open() ? each.link.fd() : -1);
  }
  if (mastership_.term() == term_.load()) return;
  node_ = node_of(master_endpoint(*mastership_.master(), site_));
  term_.store(mastership_.term());
}

protocol::Breaker::State Sentinels::breaker() {
  const Master known = known_master();
  return known.node ? known.node->breaker() : protocol::Breaker::State::closed;
}

void Sentinels::close() {
  const std::lock_guard lock(mutex_);
  for (Sentinel& each : sentinels_) {
    each.fd.store(-1);
    each.link.close();
  }
  if (node_) node_->close();
}

}  // namespace overlimit::redis::transport
