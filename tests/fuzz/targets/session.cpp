// A connection: whatever the server sends, and in whatever pieces, no reply reaches another caller than its
// own.
#include "redis/protocol/session.hpp"

#include <array>
#include <chrono>

#include "overlimit/errors.hpp"
#include "resp.hpp"
#include "target.hpp"

namespace overlimit::fuzz {
namespace {

using namespace redis::protocol;
using namespace std::chrono_literals;

constexpr TimePoint kNow{1000s};
constexpr std::size_t kMostCallers = 6;

class Conversation {
 public:
  explicit Conversation(Bytes& bytes)
      : endpoint_(endpoint(bytes)), session_(endpoint_, kNow, kNow + 1s), step_(1 + bytes.number_up_to(30)) {
    handshake_replies_ = session_.unanswered();
    const std::size_t callers = bytes.number_up_to(kMostCallers);
    gone_ = bytes.take<std::uint8_t>();
    session_.sent(session_.outgoing().size());
    for (std::size_t i = 0; i < callers; ++i)
      tickets_.push_back(session_.submit("*1\r\n$4\r\nPING\r\n", kNow, kNow + 1s, &waiters_[i]));
  }

  void hear(std::string_view stream) {
    for (; !stream.empty(); stream.remove_prefix(std::min(step_, stream.size()))) {
      session_.feed(stream.substr(0, step_), kNow, answered_);
      if (!session_.is_established()) continue;
      session_.sent(session_.outgoing().size());
      abandon_those_who_go();
    }
  }

  void check_replies(const std::vector<std::string>& replies) {
    for (std::size_t i = 0; i < tickets_.size(); ++i) {
      if (has_gone_ && goes(i)) continue;
      const std::size_t place = handshake_replies_ + i;
      try {
        const std::optional<Reply> reply = session_.take(tickets_[i]);
        if (!reply) continue;
        check(place < replies.size() && written(*reply) == replies[place], "everybody gets the own reply");
        check(session_.is_established(), "nobody is answered before the handshake is complete");
      } catch (const StoreError& error) {
        check(!session_.alive(), "only a lost connection fails a call");
        check(!error.maybe_charged() || session_.is_established(),
              "nothing is sent before the handshake is complete");
      }
    }
  }

  void check_waiters() const {
    std::size_t last = 0;
    for (const Waiter waiter : answered_) {
      const auto place = static_cast<std::size_t>(static_cast<const char*>(waiter) - waiters_.data()) + 1;
      check(place > last && place <= tickets_.size(), "those who wait are answered in order, and once");
      last = place;
    }
  }

 private:
  static redis::Endpoint endpoint(Bytes& bytes) {
    redis::Endpoint endpoint;
    const auto how = bytes.take<std::uint8_t>();
    if ((how & 1U) != 0) endpoint.password = "s3cret";
    if ((how & 2U) != 0) endpoint.database = 3;
    endpoint.must_be_master = (how & 4U) != 0;
    return endpoint;
  }

  [[nodiscard]] bool goes(std::size_t caller) const { return ((gone_ >> caller) & 1U) != 0; }

  void abandon_those_who_go() {
    if (std::exchange(has_gone_, true)) return;
    for (std::size_t i = 0; i < tickets_.size(); ++i) {
      if (goes(i)) session_.abandon(tickets_[i]);
    }
  }

  const redis::Endpoint endpoint_;
  Session session_;
  const std::size_t step_;
  std::size_t handshake_replies_ = 0;
  unsigned gone_ = 0;  // one bit per caller
  bool has_gone_ = false;
  std::array<char, kMostCallers> waiters_{};
  std::vector<Ticket> tickets_;
  std::vector<Waiter> answered_;
};

void converse(std::string_view input) {
  Bytes bytes(input);
  Conversation conversation(bytes);
  conversation.hear(bytes.rest());
  conversation.check_waiters();
  conversation.check_replies(read_in_pieces(bytes.rest(), bytes.rest().size() + 1).replies);
}

std::vector<std::string> conversations() {
  const std::string hello = "*4\r\n$7\r\nversion\r\n$5\r\n7.0.1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n";
  return {std::string("\0\x1e\3\2", 4) + hello + "+PONG\r\n:1\r\n:2\r\n:3\r\n",
          std::string("\7\4\2\0", 4) + hello + "+OK\r\n+PONG\r\n$3\r\nabc\r\n-ERR no\r\n+more\r\n",
          std::string("\1\2\1\0", 4) + "-WRONGPASS invalid username-password pair\r\n",
          std::string("\0\5\1\0", 4) + hello + "-LOADING the dataset\r\n:1\r\n"};
}

const Registration kSession("session", {converse, conversations});

}  // namespace
}  // namespace overlimit::fuzz
