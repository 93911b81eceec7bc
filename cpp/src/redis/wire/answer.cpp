#include "redis/wire/answer.hpp"

#include <cstring>

#include "overlimit/pair.hpp"
#include "redis/wire/call_on_values.hpp"
#include "redis/wire/script_call.hpp"

namespace overlimit::redis {
namespace {

constexpr std::size_t kWord = sizeof(std::int64_t);
// Every answer begins with its kind and now.
constexpr std::size_t kKindAndNow = 1 + kWord;
// What a charged record has before its state: its tag, its size and when it expires.
constexpr std::size_t kRecordHead = kWord + sizeof(std::uint32_t) + kWord;
constexpr char kCharged = 'C';
constexpr char kLeased = 'L';
constexpr char kOutOfBounds = 'O';
constexpr char kFound = 'F';
constexpr char kFoundAndWritten = 'W';

[[noreturn]] void not_ours() {
  throw ScriptError(
      "the reply is not one that the script can give; check what stands between this process and the server",
      true);
}

bool writes_every_charge(const Call& call) {
  return may_charge(call) && std::ranges::all_of(call.charges, [](const Charge& charge) {
           return cost_of(charge) > 0 && charge.role != Role::always;
         });
}

Instant now_of(std::string_view answer) { return Instant(int64_at(answer, 1)); }

// A number that Lua can have packed.
std::int64_t exact_at(std::string_view bytes, std::size_t place) {
  const std::int64_t number = int64_at(bytes, place);
  if (number < 0 || number >= kExact) not_ours();
  return number;
}

// How many cells a charged record has, from its size.
std::size_t cells_of_record(std::string_view answer, std::size_t place) {
  std::uint32_t size = 0;
  std::memcpy(&size, answer.data() + place, sizeof size);
  return size < sizeof(Header) ? 0 : (size - sizeof(Header)) / sizeof(Cell);
}

// Reads a reply that says that everything was charged: from `at` on, per charge when its key was created, and
// its limits' records without their cells. A damaged value may have any time of creation, which is passed on
// unchanged.
void read_charged(const Call& call, std::string_view answer, std::size_t at, const Rows& rows) {
  const std::size_t records = (kRecordHead + sizeof(Header)) * pairs_of(call.charges);
  if (answer.size() != at + kWord * call.charges.size() + records) not_ours();
  std::size_t row = 0;
  for (const Charge& charge : call.charges) {
    const Instant created_at(int64_at(answer, at));
    at += kWord;
    for (const CompiledLimit& each : charge.policy->limits()) {
      if (static_cast<Tag>(int64_at(answer, at)) != each.tag) not_ours();
      const std::size_t cells = cells_of_record(answer, at + kWord);
      const std::size_t expiry = at + kRecordHead - kWord;
      at += kRecordHead;
      const Header header{exact_at(answer, at), exact_at(answer, at + kWord),
                          exact_at(answer, at + 2 * kWord)};
      fill_charged(each.limit, header, now_of(answer), created_at, rows, row);
      if (cells > 1) {
        const Instant expires_at(exact_at(answer, expiry));
        show_holds(each.limit, cells, expires_at, header, now_of(answer), rows, row);
      }
      // Nothing is charged on a record that has expired, or at a time that no clock can read.
      if (rows.reset_after[row] < Duration{} || rows.delay[row] < Duration{}) not_ours();
      ++row;
      at += sizeof(Header);
    }
  }
}

// Reads an answer of what was found from front to back. One that ends early was not written by a script.
class Parts {
 public:
  explicit Parts(std::string_view rest) : rest_(rest) {}

  std::string_view next(std::size_t size) {
    if (size > rest_.size()) not_ours();
    const std::string_view part = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return part;
  }
  std::string_view next_sized() {
    std::uint32_t size = 0;
    std::memcpy(&size, next(sizeof size).data(), sizeof size);
    return next(size);
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// An answer of values as they were found, and of when the keys were created if some were written after that.
Answer read_found(const Call& call, std::string_view answer, const Rows& rows) {
  Answer read{now_of(answer), answer[0] == kFoundAndWritten, {}};
  const std::size_t charges = call.charges.size();
  Parts parts(answer.substr(kKindAndNow));
  std::vector<Instant> creations;
  for (std::size_t k = 0; read.is_written && k < charges; ++k) {
    creations.emplace_back(int64_at(parts.next(kWord), 0));
  }
  for (std::size_t k = 0; k + 1 < charges; ++k) read.found.emplace_back(parts.next_sized());
  read.found.emplace_back(parts.rest());
  std::vector<FoundKey> keys;
  for (const Value& value : read.found) keys.push_back({&value, read.now});
  const CallOnValues found(call, keys);
  // The script and the engine have reached the same settlement, or one of them is wrong.
  if (found.writes() != read.is_written) not_ours();
  found.show(creations, rows);
  return read;
}

}  // namespace

std::optional<Instant> out_of_bounds(const protocol::Reply& reply) {
  if (!reply.is_string() || reply.as_text().size() != kKindAndNow || reply.as_text()[0] != kOutOfBounds) {
    return std::nullopt;
  }
  return now_of(reply.as_text());
}

std::optional<Cost> granted_extra(const protocol::Reply& reply) {
  if (!reply.is_string() || reply.as_text().size() < kKindAndNow + kWord) return std::nullopt;
  if (reply.as_text()[0] != kLeased) return std::nullopt;
  return exact_at(reply.as_text(), kKindAndNow);
}

Answer read_answer(DatedCall& call, const protocol::Reply& reply, const Rows& rows) {
  if (!reply.is_string() || reply.as_text().size() < kKindAndNow) not_ours();
  const std::string_view answer = reply.as_text();
  if (now_of(answer) < Instant{} || now_of(answer) >= kMaxTime) not_ours();
  call.move_to(now_of(answer));
  if (answer[0] == kFound || answer[0] == kFoundAndWritten) return read_found(*call, answer, rows);
  const bool is_leased = answer[0] == kLeased && granted_extra(reply);
  if (!writes_every_charge(*call) || !(is_leased || answer[0] == kCharged)) not_ours();
  read_charged(*call, answer, kKindAndNow + (is_leased ? kWord : 0), rows);
  return {now_of(answer), true, {}};
}

}  // namespace overlimit::redis
