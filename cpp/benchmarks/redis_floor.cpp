// What a call on Redis costs at the least: redis_floor SOCKET script|ping SECONDS
//
// Calls the smallest script that a limiter could be, or PING, one call after the other, and prints the
// nanoseconds of each.
#include <hiredis/hiredis.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using SteadyClock = std::chrono::steady_clock;

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Context = std::unique_ptr<redisContext, FreeContext>;
using Reply = std::unique_ptr<redisReply, FreeReply>;

// As a window that has room: the time, what there was, what there is now.
constexpr const char* kScript =
    "redis.call('TIME') "
    "local value = redis.call('GET', KEYS[1]) "
    "redis.call('SET', KEYS[1], ARGV[1], 'PX', 61000) "
    "return value";
// The value of a key with one sliding window whose hits lie in two blocks (lua/README.md).
constexpr std::size_t kBytes = 8 + 8 + 4 + 8 + 24 + 2 * 16;

Reply call(redisContext& context, const std::vector<std::string>& words) {
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  Reply reply(static_cast<redisReply*>(
      redisCommandArgv(&context, static_cast<int>(words.size()), texts.data(), sizes.data())));
  if (!reply || reply->type == REDIS_REPLY_ERROR) {
    throw std::runtime_error(reply ? reply->str : context.errstr);
  }
  return reply;
}

std::vector<std::string> command(redisContext& context, const std::string& name) {
  if (name == "ping") return {"PING"};
  const Reply loaded = call(context, {"SCRIPT", "LOAD", kScript});
  const std::string sha(loaded->str, static_cast<std::size_t>(loaded->len));
  return {"EVALSHA", sha, "1", "floor", std::string(kBytes, 'x')};
}

void run(const char* socket, const std::string& name, double seconds) {
  const Context context(redisConnectUnix(socket));
  if (!context || context->err != 0) throw std::runtime_error("no server");
  const std::vector<std::string> words = command(*context, name);
  std::vector<std::int64_t> taken;
  const auto ends = SteadyClock::now() + std::chrono::duration<double>(seconds);
  for (auto began = SteadyClock::now(); began < ends; began = SteadyClock::now()) {
    call(*context, words);
    taken.push_back(std::chrono::nanoseconds(SteadyClock::now() - began).count());
  }
  for (const std::int64_t each : taken) std::printf("%lld\n", static_cast<long long>(each));
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) {
    std::fputs("usage: redis_floor SOCKET script|ping SECONDS\n", stderr);
    return 2;
  }
  try {
    run(words[1], words[2], std::atof(words[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "redis_floor: %s\n", error.what());
    return 1;
  }
}
