// Replies of a Redis server, and the reader that makes them of bytes. The only file that uses hiredis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

struct redisReader;

namespace overlimit::redis::protocol {

/// A RESP2 reply, owning its bytes. Move-only. An accessor of another type throws std::bad_variant_access.
class Reply {
 public:
  enum class Type : std::uint8_t { nil, integer, string, status, error, array };

  Reply() noexcept = default;
  Reply(Reply&&) noexcept = default;
  Reply& operator=(Reply&&) noexcept = default;
  [[nodiscard]] static Reply nil() noexcept { return {}; }
  [[nodiscard]] static Reply integer(std::int64_t value) noexcept { return {Type::integer, value}; }
  [[nodiscard]] static Reply string(std::string bytes) noexcept { return {Type::string, std::move(bytes)}; }
  [[nodiscard]] static Reply status(std::string text) noexcept { return {Type::status, std::move(text)}; }
  [[nodiscard]] static Reply error(std::string text) noexcept { return {Type::error, std::move(text)}; }
  [[nodiscard]] static Reply array(std::vector<Reply> elements) noexcept {
    return {Type::array, std::move(elements)};
  }

  [[nodiscard]] Type type() const noexcept { return type_; }
  [[nodiscard]] bool is_nil() const noexcept { return type_ == Type::nil; }
  [[nodiscard]] bool is_integer() const noexcept { return type_ == Type::integer; }
  [[nodiscard]] bool is_string() const noexcept { return type_ == Type::string; }
  [[nodiscard]] bool is_status() const noexcept { return type_ == Type::status; }
  [[nodiscard]] bool is_error() const noexcept { return type_ == Type::error; }
  [[nodiscard]] bool is_array() const noexcept { return type_ == Type::array; }
  [[nodiscard]] bool is_text() const noexcept { return is_string() || is_status(); }
  [[nodiscard]] std::int64_t as_integer() const { return std::get<std::int64_t>(value_); }
  [[nodiscard]] std::string_view as_text() const { return std::get<std::string>(value_); }
  [[nodiscard]] std::span<const Reply> as_array() const { return std::get<std::vector<Reply>>(value_); }
  /// The elements of an array, to be filled in place while a reply is being read.
  [[nodiscard]] std::span<Reply> as_array() { return std::get<std::vector<Reply>>(value_); }
  /// The number of the connection that it came through, among those of this process; 0: of none.
  [[nodiscard]] std::uint64_t connection() const noexcept { return connection_; }
  void came_through(std::uint64_t connection) noexcept { connection_ = connection; }
  /// In a flat list of names and values, the text that follows a name; empty if there is none.
  [[nodiscard]] std::string_view text_after(std::string_view name) const;

 private:
  using Value = std::variant<std::monostate, std::int64_t, std::string, std::vector<Reply>>;

  template <typename Held>
  Reply(Type type, Held value) noexcept : value_(std::in_place_type<Held>, std::move(value)), type_(type) {}

  Value value_;
  std::uint64_t connection_ = 0;
  Type type_ = Type::nil;
};

struct GrowingReply;

/// The bytes are not RESP2, or exceed one of these bounds. The stream cannot be read any further.
class MalformedReply : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr std::size_t kMaxReplyBytes = std::size_t{16} << 20U;
inline constexpr std::size_t kMaxReplyElements = std::size_t{1} << 17U;
inline constexpr std::size_t kMaxReplyDepth = 7;

/// Reads one stream. Not thread-safe; after MalformedReply it may only be destroyed.
class ReplyReader {
 public:
  ReplyReader();
  ~ReplyReader();
  /// Copies the bytes. Throws MalformedReply.
  void feed(std::string_view bytes);
  /// The next complete reply, or none until more bytes are fed. Throws MalformedReply.
  [[nodiscard]] std::optional<Reply> next();

 private:
  struct Free {
    void operator()(redisReader* reader) const noexcept;
  };

  [[noreturn]] void fail() const;

  std::unique_ptr<GrowingReply> growing_;
  std::unique_ptr<redisReader, Free> reader_;
};

}  // namespace overlimit::redis::protocol
