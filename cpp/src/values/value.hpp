// The value of a key as Redis and the stores of one's own keep it (lua/README.md): the time of creation and
// tagged records.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "overlimit/pair.hpp"

namespace overlimit::values {

/// Where a record is in the bytes of a value, and its head: the one place that knows how records lie there.
struct RecordAt {
  static constexpr std::size_t kBegin = sizeof(std::int64_t);  ///< of the first record, behind the creation
  static constexpr std::size_t kHead = sizeof(Tag) + sizeof(std::uint32_t) + sizeof(std::int64_t);

  Tag tag;
  std::size_t size;  ///< of the state and the cells, which follow the head
  Instant expires_at;
  std::size_t state;  ///< its offset

  /// The offset behind the record.
  [[nodiscard]] std::size_t end() const { return state + size; }
  [[nodiscard]] std::size_t cells() const {
    return size < sizeof(Header) ? 0 : (size - sizeof(Header)) / sizeof(Cell);
  }
};

/// That which begins at this offset, if there is room for its head. Its state may lie behind the end.
std::optional<RecordAt> record_at(std::string_view bytes, std::size_t offset);

/// Whether this is exactly a time of creation and records.
bool is_value(std::string_view bytes);

Header header_at(std::string_view bytes, std::size_t offset);

/// Reads one value. Owns copies of the cells, so the bytes may go.
class Value {
 public:
  struct Record {
    Tag tag;
    Instant expires_at;
    Header header;
    std::vector<Cell> cells;
  };

  /// What is not exactly a time of creation and records is as if there were nothing.
  explicit Value(std::string_view bytes);
  /// A value without records.
  explicit Value(Instant created_at) : created_at_(created_at) {}
  [[nodiscard]] Instant created_at() const { return created_at_; }
  /// How many bytes it takes.
  [[nodiscard]] std::size_t size() const;
  /// The value once this charge has led to these states of its policy's limits, under a key of this creation.
  /// Nothing if it has not, so that the charge was made on another value.
  [[nodiscard]] std::optional<Value> after_charge(const Charge& charge, Instant now,
                                                  std::span<const Receipt> receipts) const;
  /// The value under a key of this creation, without what has expired.
  [[nodiscard]] Value without_expired(Instant created_at, Instant now) const;
  /// The value under a key of this creation with this lock, which is the last record. All others stay as they
  /// are, expired ones too: nobody has asked for them, and by a clock that goes back they count.
  [[nodiscard]] Value with_lock(Instant created_at, const Lock& lock) const;
  /// Puts a record in the place of that of its tag, if there is one.
  void put(Record record);
  /// Takes back what a charge under this key has led to, as far as it still counts. False: nothing does.
  bool refund(const Charge& charge, std::span<const Receipt> receipts, Instant now);
  /// When the last record expires; the epoch without any.
  [[nodiscard]] Instant last_expiry() const;
  /// What the constructor reads.
  void append_to(std::string& bytes) const;
  /// The record of a tag, or nothing. It borrows from this value.
  [[nodiscard]] std::optional<FoundRecord> find(Tag tag) const;
  /// The lock, which is the last record, or nothing.
  [[nodiscard]] std::optional<FoundRecord> lock() const;
  /// What that says at this instant, unless it is forgotten.
  [[nodiscard]] std::optional<Lock> lock_at(Instant now) const;

 private:
  Value() = default;
  static std::optional<FoundRecord> found_in(const Record& record);
  static void apply(const RefundedRecord<Header>& left, Record& record);

  Instant created_at_{};
  std::vector<Record> records_;
};

/// Whether two times of creation are those of one key, however often that has been restored: the highest bits
/// tell when that was.
constexpr bool are_of_one_key(std::int64_t one, std::int64_t other) {
  return ((one ^ other) & (kExact - 1)) == 0;
}

/// Numbers at an offset of a string that is long enough, little-endian as Redis' struct packs them.
std::int64_t int64_at(std::string_view bytes, std::size_t offset);
std::uint32_t uint32_at(std::string_view bytes, std::size_t offset);

}  // namespace overlimit::values
