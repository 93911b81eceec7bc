#include "redis/protocol/reply.hpp"

#include <hiredis/hiredis.h>

#include <new>

namespace overlimit::redis::protocol {

/// The reply under construction. An array gets all its slots at once, so the address of a slot is stable
/// and serves as hiredis' object.
struct GrowingReply {
  Reply root;
  std::size_t elements_left = kMaxReplyElements;
  std::size_t bytes_left = kMaxReplyBytes;

  /// The next reply.
  void begin() {
    elements_left = kMaxReplyElements;
    bytes_left = kMaxReplyBytes;
  }
};

namespace {

#if HIREDIS_MAJOR >= 1
using ArraySize = std::size_t;
#else
using ArraySize = int;
#endif

GrowingReply& growing(const redisReadTask* task) noexcept {
  return *static_cast<GrowingReply*>(task->privdata);
}

Reply& slot_of(const redisReadTask* task) {
  if (task->parent == nullptr) return growing(task).root;
  return static_cast<Reply*>(task->parent->obj)->as_array()[static_cast<std::size_t>(task->idx)];
}

bool spend(std::size_t& left, std::size_t amount) noexcept {
  if (amount > left) return false;
  left -= amount;
  return true;
}

std::size_t depth_of(const redisReadTask* task) noexcept {
  std::size_t depth = 1;
  for (const redisReadTask* each = task->parent; each != nullptr; each = each->parent) ++depth;
  return depth;
}

/// Puts what `build` makes into the task's slot. hiredis is C, so no exception may pass through it; null
/// makes it stop with an error.
template <typename Build>
void* put_reply(const redisReadTask* task, Build build) noexcept {
  try {
    Reply& slot = slot_of(task);
    slot = build();
    return &slot;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void* create_string(const redisReadTask* task, char* bytes, std::size_t size) {
  if (!spend(growing(task).bytes_left, size)) return nullptr;
  switch (task->type) {
    case REDIS_REPLY_STRING:
      return put_reply(task, [&] { return Reply::string({bytes, size}); });
    case REDIS_REPLY_STATUS:
      return put_reply(task, [&] { return Reply::status({bytes, size}); });
    case REDIS_REPLY_ERROR:
      return put_reply(task, [&] { return Reply::error({bytes, size}); });
    default:
      return nullptr;
  }
}

void* create_array(const redisReadTask* task, ArraySize size) {
  const auto count = static_cast<std::size_t>(size);
  if (task->type != REDIS_REPLY_ARRAY || depth_of(task) > kMaxReplyDepth) return nullptr;
  if (!spend(growing(task).elements_left, count)) return nullptr;
  return put_reply(task, [&] { return Reply::array(std::vector<Reply>(count)); });
}

void* create_integer(const redisReadTask* task, long long value) {
  return put_reply(task, [&] { return Reply::integer(value); });
}

void* create_nil(const redisReadTask* task) {
  return put_reply(task, [] { return Reply::nil(); });
}

/// The slots belong to the root reply.
void free_object(void*) {}

constexpr redisReplyObjectFunctions reply_functions() {
  redisReplyObjectFunctions functions{};
  functions.createString = create_string;
  functions.createArray = create_array;
  functions.createInteger = create_integer;
  functions.createNil = create_nil;
  functions.freeObject = free_object;
#if HIREDIS_MAJOR >= 1
  // RESP3 only, which is never asked for.
  functions.createDouble = [](const redisReadTask*, double, char*, std::size_t) -> void* { return nullptr; };
  functions.createBool = [](const redisReadTask*, int) -> void* { return nullptr; };
#endif
  return functions;
}

constexpr redisReplyObjectFunctions kFunctions = reply_functions();

redisReader* create_reader() {
  // hiredis takes a mutable pointer, keeps it and only reads through it.
  redisReader* reader = redisReaderCreateWithFunctions(const_cast<redisReplyObjectFunctions*>(&kFunctions));
  if (reader == nullptr) throw std::bad_alloc();
  return reader;
}

}  // namespace

std::string_view Reply::text_after(std::string_view name) const {
  if (!is_array()) return {};
  const std::span<const Reply> words = as_array();
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i].is_text() && words[i].as_text() == name && words[i + 1].is_text())
      return words[i + 1].as_text();
  }
  return {};
}

void ReplyReader::Free::operator()(redisReader* reader) const noexcept { redisReaderFree(reader); }

ReplyReader::ReplyReader() : growing_(std::make_unique<GrowingReply>()), reader_(create_reader()) {
  reader_->privdata = growing_.get();
}

ReplyReader::~ReplyReader() = default;

void ReplyReader::feed(std::string_view bytes) {
  if (bytes.size() > kMaxReplyBytes - (reader_->len - reader_->pos)) {
    throw MalformedReply("a reply is larger than " + std::to_string(kMaxReplyBytes) + " bytes");
  }
  if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK) fail();
}

std::optional<Reply> ReplyReader::next() {
  void* complete = nullptr;
  if (redisReaderGetReply(reader_.get(), &complete) != REDIS_OK) fail();
  if (complete == nullptr) return std::nullopt;
  std::optional<Reply> reply(std::move(growing_->root));
  growing_->begin();
  return reply;
}

void ReplyReader::fail() const {
  if (reader_->err == REDIS_ERR_OOM)
    throw MalformedReply("a reply is too large, too deep or of an unknown type");
  throw MalformedReply(reader_->errstr);
}

}  // namespace overlimit::redis::protocol
