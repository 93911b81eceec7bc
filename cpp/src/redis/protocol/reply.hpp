// What a Redis server answered to one command.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace overlimit::redis::protocol {

/// A RESP2 reply, owning its bytes. Move-only and cheap to move. An accessor of another kind than the
/// reply's throws std::bad_variant_access: look at kind() first.
class Reply {
 public:
  enum class Kind : std::uint8_t { nil, integer, string, status, error, array };

  Reply() noexcept = default;
  Reply(Reply&&) noexcept = default;
  Reply& operator=(Reply&&) noexcept = default;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  ~Reply() = default;

  [[nodiscard]] static Reply nil() noexcept { return {}; }
  [[nodiscard]] static Reply integer(std::int64_t value) noexcept { return {Kind::integer, value}; }
  [[nodiscard]] static Reply string(std::string bytes) noexcept { return {Kind::string, std::move(bytes)}; }
  [[nodiscard]] static Reply status(std::string text) noexcept { return {Kind::status, std::move(text)}; }
  [[nodiscard]] static Reply error(std::string text) noexcept { return {Kind::error, std::move(text)}; }
  [[nodiscard]] static Reply array(std::vector<Reply> elements) noexcept {
    return {Kind::array, std::move(elements)};
  }

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] bool is_nil() const noexcept { return kind_ == Kind::nil; }
  [[nodiscard]] bool is_integer() const noexcept { return kind_ == Kind::integer; }
  [[nodiscard]] bool is_string() const noexcept { return kind_ == Kind::string; }
  [[nodiscard]] bool is_status() const noexcept { return kind_ == Kind::status; }
  [[nodiscard]] bool is_error() const noexcept { return kind_ == Kind::error; }
  [[nodiscard]] bool is_array() const noexcept { return kind_ == Kind::array; }

  [[nodiscard]] std::int64_t as_integer() const { return std::get<std::int64_t>(value_); }
  /// The bytes of a string, status or error; a view into this reply.
  [[nodiscard]] std::string_view as_text() const { return std::get<std::string>(value_); }
  /// The elements of an array; a view into this reply.
  [[nodiscard]] std::span<const Reply> as_array() const { return std::get<std::vector<Reply>>(value_); }
  /// The elements of an array, to be filled in place while a reply is being read.
  [[nodiscard]] std::span<Reply> as_array() { return std::get<std::vector<Reply>>(value_); }

 private:
  using Value = std::variant<std::monostate, std::int64_t, std::string, std::vector<Reply>>;

  template <typename Held>
  Reply(Kind kind, Held value) noexcept : value_(std::in_place_type<Held>, std::move(value)), kind_(kind) {}

  Value value_;
  Kind kind_ = Kind::nil;
};

}  // namespace overlimit::redis::protocol
