// The master that sentinels name: the connections to them, and who is the master.

#include <tuple>

#include "redis/protocol/command.hpp"
#include "redis/protocol/failures.hpp"
#include "redis/protocol/sentinel.hpp"
#include "redis/transport/connector.hpp"
#include "redis/transport/node.hpp"
#include "redis/transport/topology.hpp"

namespace overlimit::redis::transport {
namespace {

using protocol::Reply;

constexpr std::string_view kChannel = "+switch-master";
constexpr std::chrono::milliseconds kLongestSilence{2'000};

bool is_pong(const Reply& reply) {
  return reply.is_array() && !reply.as_array().empty() && reply.as_array()[0].is_string() &&
         reply.as_array()[0].as_text() == "pong";
}

/// Nil for a service that the sentinel does not know, or an address; all other replies have three parts.
bool is_answer(const Reply& reply) {
  return reply.is_nil() || (reply.is_array() && reply.as_array().size() == 2 && !is_pong(reply));
}

std::exception_ptr refusal(const std::string& where, std::string_view error) {
  const std::string what = where + " answered \"" + std::string(error) + "\"; ";
  if (protocol::classify_error(error).is_unavailable()) {
    return std::make_exception_ptr(StoreUnavailable(what + "see its log"));
  }
  return std::make_exception_ptr(
      StoreConfigError(what +
                       "check that it is a sentinel, and the options sentinel_username and sentinel_password "
                       "(user and password in the store's URL are for the servers behind)"));
}

/// While it is open it is subscribed to +switch-master, except for the moment in which it asks for the
/// master. Nothing here waits. A failure closes the connection. Not thread-safe.
class SentinelConnection {
 public:
  using TimePoint = protocol::MasterTracker::TimePoint;

  SentinelConnection(Endpoint sentinel, std::string service)
      : sentinel_(std::move(sentinel)), service_(std::move(service)) {}

  void open(std::unique_ptr<Stream> stream) {
    close();
    stream_ = std::move(stream);
    reader_ = std::make_unique<protocol::ReplyReader>();
    failure_ = nullptr;
    log_in();
    protocol::append_command(outgoing_, {"SUBSCRIBE", kChannel});
  }

  void close() noexcept {
    stream_.reset();
    reader_.reset();
    outgoing_.clear();
    is_asked_ = false;
    unanswered_since_.reset();
  }

  [[nodiscard]] bool is_open() const noexcept { return stream_ != nullptr; }

  /// Asks who the master is.
  /// A subscribed connection takes no other commands (RESP2).
  void ask() {
    protocol::append_command(outgoing_, {"UNSUBSCRIBE", kChannel});
    protocol::append_command(outgoing_, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", service_});
    protocol::append_command(outgoing_, {"SUBSCRIBE", kChannel});
    is_asked_ = true;
    failure_ = nullptr;
  }

  [[nodiscard]] bool is_asked() const noexcept { return is_asked_; }

  /// Sends what is queued, reads what has come and passes it to `tracker`.
  void exchange(protocol::MasterTracker& tracker, TimePoint now) try {
    if (is_open()) flush();
    if (is_open()) receive(tracker, now);
    if (is_open()) flush();
  } catch (const StoreError&) {
    fail(std::current_exception());
  } catch (const protocol::MalformedReply& malformed) {
    fail(std::make_exception_ptr(StoreUnavailable(where() + " sent what is no reply: " + malformed.what())));
  }

  /// Checks that the sentinel still answers: fails if it has not answered the last probe.
  void probe(TimePoint now) {
    if (!is_open()) return;
    if (unanswered_since_ && now - *unanswered_since_ >= kLongestSilence) {
      return fail(std::make_exception_ptr(StoreUnavailable(where() + " has stopped answering")));
    }
    if (unanswered_since_) return;
    protocol::append_command(outgoing_, {"PING"});
    unanswered_since_ = now;
  }

  void fail(std::exception_ptr failure) noexcept {
    close();
    failure_ = std::move(failure);
  }

  /// Why the last question has no answer, or why the connection was closed; null without a failure.
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }
  /// While it is open: what to wait for, see Stream.
  [[nodiscard]] int fd() const noexcept { return stream_->fd(); }
  [[nodiscard]] short events() const noexcept {
    const short sending = outgoing_.empty() ? short{0} : stream_->sending_events();
    return static_cast<short>(stream_->receiving_events() | sending);
  }

 private:
  /// What it answers is no error, or the end.
  void log_in() {
    const auto& [user, password] = std::tie(sentinel_.username, sentinel_.password);
    if (!user.empty()) return protocol::append_command(outgoing_, {"AUTH", user, password});
    if (!password.empty()) protocol::append_command(outgoing_, {"AUTH", password});
  }

  void flush() {
    while (!outgoing_.empty()) {
      const Transfer transfer = stream_->send(outgoing_);
      if (transfer.error) throw StoreUnavailable("lost " + where() + ": " + transfer.error.message());
      if (transfer.count == 0) return;
      outgoing_.erase(0, transfer.count);
    }
  }

  void receive(protocol::MasterTracker& tracker, TimePoint now) {
    for (;;) {
      const Transfer transfer = stream_->receive(buffer_.data(), buffer_.size());
      reader_->feed({buffer_.data(), transfer.count});
      while (const std::optional<Reply> reply = reader_->next()) {
        take(*reply, tracker, now);
        if (!is_open()) return;
      }
      if (transfer.error) throw StoreUnavailable("lost " + where() + ": " + transfer.error.message());
      if (transfer.end) throw StoreUnavailable("lost " + where() + ": it closed the connection");
      if (transfer.count == 0) return;
    }
  }

  void take(const protocol::Reply& reply, protocol::MasterTracker& tracker, TimePoint now) {
    unanswered_since_.reset();
    if (reply.is_error()) return fail(refusal(where(), reply.as_text()));
    if (const auto announced = protocol::switch_of(reply, service_)) tracker.switched(*announced, now);
    if (is_asked_ && is_answer(reply)) take_answer(reply, tracker, now);
  }

  void take_answer(const protocol::Reply& reply, protocol::MasterTracker& tracker, TimePoint now) {
    is_asked_ = false;
    if (const std::optional<HostPort> master = protocol::named_master(reply))
      return tracker.named(*master, now);
    failure_ = std::make_exception_ptr(StoreConfigError(where() + " knows no service '" + service_ +
                                                        "': check the name in the store's URL"));
  }

  [[nodiscard]] std::string where() const { return "the sentinel at " + sentinel_.host_port(); }

  const Endpoint sentinel_;
  const std::string service_;

  std::unique_ptr<Stream> stream_;
  std::unique_ptr<protocol::ReplyReader> reader_;  // set while stream_ is
  std::string outgoing_;
  bool is_asked_ = false;
  std::optional<TimePoint> unanswered_since_;  // when the pending probe was sent
  std::exception_ptr failure_;
  std::array<char, Stream::kLeastBuffer> buffer_;
};

constexpr std::chrono::seconds kProbeInterval{1};
constexpr std::chrono::seconds kRetryInterval{5};
/// The part of a call's time for opening one more connection to a sentinel.
constexpr int kShareToListen = 4;
constexpr std::chrono::milliseconds kLongestToListen{25};

Endpoint sentinel_endpoint(const HostPort& address, const SentinelLocation& location) {
  return endpoint_at(address, location.sentinel);
}

Endpoint master_endpoint(const HostPort& address, const SentinelLocation& location) {
  Endpoint endpoint = endpoint_at(address, location.server);
  endpoint.must_be_master = true;
  return endpoint;
}

/// Asks the sentinels in turn who the master is, and then subscribes to the announcements of all. Every call
/// reads these before it asks the master and again before it trusts the reply: if the master was replaced
/// meanwhile it fails, maybe charged, although the old master answered.
class Sentinels final : public Topology {
 public:
  explicit Sentinels(SentinelLocation location) : location_(std::move(location)) {
    for (const HostPort& each : location_.sentinels) {
      sentinels_.emplace_back(sentinel_endpoint(each, location_), location_.service);
    }
  }

  [[nodiscard]] protocol::Reply call(std::string_view command, std::optional<protocol::Slot> /*slot*/,
                                     const Wait& wait) override {
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

  void call_many(std::span<const std::string> commands,
                 std::span<const std::optional<protocol::Slot>> /*slots*/,
                 std::span<std::optional<Reply>> replies, const Wait& wait) override {
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

  void send(std::string_view command, std::optional<protocol::Slot> /*slot*/, const Wait& wait) override {
    if (const Master known = known_master(); known.node) known.node->send(command, wait);
  }

  [[nodiscard]] Link link(std::optional<protocol::Slot> /*slot*/) override {
    const Master known = known_master();
    return known.node ? known.node->link() : Link{};
  }

  void for_each_server(const std::function<void(const Server&)>& visit, const Wait& wait) override {
    const Master shown = master(wait);
    visit([this, &shown](std::string_view command, const Wait& each) {
      std::optional<Reply> reply = confirmed(shown, shown.node->call({command}, each));
      if (reply) return std::move(*reply);
      throw StoreUnavailable("redis at " + shown.node->endpoint().describe() + " is no longer the master");
    });
  }

  [[nodiscard]] std::optional<std::chrono::seconds> certificate_left() override {
    const Master known = known_master();
    return known.node ? known.node->certificate_left() : std::nullopt;
  }

  void close() override {
    const std::lock_guard lock(mutex_);
    for (Sentinel& each : sentinels_) {
      each.fd.store(-1);
      each.connection.close();
    }
    if (node_) node_->close();
  }

  [[nodiscard]] Breaker::State breaker() override {
    const Master known = known_master();
    return known.node ? known.node->breaker() : Breaker::State::closed;
  }

 private:
  using Clock = Deadline::Clock;

  struct Sentinel {
    Sentinel(const Endpoint& endpoint, const std::string& service)
        : connector(std::make_shared<Connector>(endpoint)), connection(endpoint, service) {}

    const std::shared_ptr<Connector> connector;
    std::atomic<int> fd{-1};                                // of the connection; -1 while it is closed
    SentinelConnection connection;                          // guarded by mutex_
    Clock::time_point next_try = Clock::time_point::min();  // guarded by mutex_
  };

  struct Master {
    std::shared_ptr<Node> node;
    std::uint64_t epoch = 0;
  };

  [[nodiscard]] Master master(const Wait& wait) {
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

  [[nodiscard]] Master known_master() {
    const std::lock_guard lock(mutex_);
    return {node_, tracker_.epoch()};
  }

  /// The master that has replaced one that failed; rethrows the error being handled if none has.
  [[nodiscard]] Master new_master(const Master& failed, const Wait& wait) {
    is_suspect_.store(true);
    if (wait.deadline.passed()) throw;
    Master next = master(wait);
    if (next.epoch == failed.epoch) throw;
    return next;
  }

  /// The reply of a master, or none if it was replaced meanwhile and executed nothing.
  [[nodiscard]] std::optional<protocol::Reply> confirmed(const Master& by, protocol::Reply reply) {
    read_announcements();
    if (epoch_.load() != by.epoch) {
      if (reply.is_error()) return std::nullopt;
      throw StoreUnavailable("redis at " + by.node->endpoint().describe() +
                                 " was replaced as master during the call; what it counted last may be lost",
                             true);
    }
    const bool serves = !protocol::classify(reply).is_retryable();
    if (is_suspect_.load(std::memory_order_relaxed) == serves) is_suspect_.store(!serves);
    return reply;
  }

  [[nodiscard]] bool is_master_unsure() {
    const auto is_connected = [](const Sentinel& each) { return each.fd.load() >= 0; };
    return is_suspect_.load() || epoch_.load() == 0 || std::ranges::none_of(sentinels_, is_connected);
  }

  /// Each sentinel gets half of the remaining time, so that a known master is still asked if none answers.
  void discover(const Wait& wait) {
    RateLimitedTask::Permit permit(discovery_task_);
    if (!permit) return;
    const std::uint64_t epoch = epoch_.load();
    std::exception_ptr failure;
    for (std::size_t left = sentinels_.size(); left > 0; --left) {
      try {
        ask(sentinels_[first_], wait.share(2));
        if (epoch_.load() != epoch) permit.was_useful();
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

  void ask(Sentinel& sentinel, const Wait& wait) {
    if (sentinel.fd.load() < 0) open(sentinel, wait);
    {
      const std::lock_guard lock(mutex_);
      if (sentinel.connection.is_open()) sentinel.connection.ask();
      exchange_with_all();
    }
    await_answer(sentinel, wait);
  }

  /// In short waits, since another call may read the answer, which this one would wait for in vain.
  void await_answer(Sentinel& sentinel, const Wait& wait) {
    for (;;) {
      std::unique_lock lock(mutex_);
      if (sentinel.connection.failure()) std::rethrow_exception(sentinel.connection.failure());
      if (!sentinel.connection.is_open()) throw StoreUnavailable("the store was closed during a call");
      if (!sentinel.connection.is_asked()) return;
      const int fd = sentinel.connection.fd();
      const short events = sentinel.connection.events();
      lock.unlock();
      const bool came = await(fd, events, {end_of_wait(wait.deadline), wait.interrupted});
      lock.lock();
      exchange_with_all();
      if (came || !sentinel.connection.is_asked() || !wait.deadline.passed()) continue;
      sentinel.connection.fail(std::make_exception_ptr(StoreUnavailable(
          "the sentinel at " + sentinel.connector->endpoint().host_port() + " did not answer in time")));
      sentinel.fd.store(-1);
    }
  }

  void connect_to_another(const Wait& wait) {
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

  [[nodiscard]] Sentinel* next_unconnected() {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    for (Sentinel& each : sentinels_) {
      if (each.connection.is_open() || now < each.next_try) continue;
      each.next_try = now + kRetryInterval;
      return &each;
    }
    return nullptr;
  }

  void open(Sentinel& sentinel, const Wait& wait) {
    std::unique_ptr<Stream> stream = connect(sentinel.connector, wait);
    const std::lock_guard lock(mutex_);
    sentinel.connection.open(std::move(stream));
    exchange_with_all();
  }

  /// Mostly there is nothing to read, which is found out without a lock.
  void read_announcements() {
    std::vector<pollfd> polled;
    polled.reserve(sentinels_.size());
    for (const Sentinel& each : sentinels_) polled.push_back({each.fd.load(), POLLIN, 0});
    const bool is_probe_due = Clock::now() >= next_probe_.load();
    if (::poll(polled.data(), static_cast<nfds_t>(polled.size()), 0) <= 0 && !is_probe_due) return;
    const std::lock_guard lock(mutex_);
    exchange_with_all();
    if (!is_probe_due) return;
    next_probe_.store(Clock::now() + kProbeInterval);
    for (Sentinel& each : sentinels_) each.connection.probe(Clock::now());
    exchange_with_all();
  }

  void exchange_with_all() {
    for (Sentinel& each : sentinels_) {
      each.connection.exchange(tracker_, Clock::now());
      each.fd.store(each.connection.is_open() ? each.connection.fd() : -1);
    }
    if (tracker_.epoch() == epoch_.load()) return;
    node_ = node_of(master_endpoint(*tracker_.master(), location_));
    epoch_.store(tracker_.epoch());
  }

  const SentinelLocation location_;
  std::deque<Sentinel> sentinels_;
  RateLimitedTask
      discovery_task_;     // asks or opens: the thread with the permit is the only one that opens connections
  std::size_t first_ = 0;  // which sentinel to ask first; of the thread with the permit

  std::atomic<bool> is_suspect_{false};                             // the master failed
  std::atomic<std::uint64_t> epoch_{0};                             // of tracker_
  std::atomic<Clock::time_point> next_probe_{Clock::time_point{}};  // of the connections

  std::mutex mutex_;
  protocol::MasterTracker tracker_;  // guarded by mutex_
  std::shared_ptr<Node> node_;       // guarded by mutex_; of the master, if one is known
  std::exception_ptr failure_;       // guarded by mutex_; why no sentinel named a master
};

}  // namespace

std::shared_ptr<Topology> sentinels(const SentinelLocation& location) {
  return std::make_shared<Sentinels>(location);
}

}  // namespace overlimit::redis::transport
