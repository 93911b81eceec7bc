#include "values/value.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "../redis/packing.hpp"

namespace overlimit::values {
namespace {

using testing::packed;
using testing::record_of;
using testing::value_of;

constexpr Tag kWindow = 0xfedcba9876543210;
constexpr Tag kBucket = 2;

std::string both() {
  return value_of(77, {record_of(kWindow, 100, packed({9, 1, 6, 3, 2, 5, 3})),
                       record_of(kBucket, 200, packed({4, 5, 6}))});
}

TEST(Int64At, ReadsLittleEndianBytesAnywhere) {
  EXPECT_EQ(int64_at(std::string("x\1\2\0\0\0\0\0\0", 9), 1), 0x201);
  EXPECT_EQ(int64_at(packed({5, -1}), 8), -1);
}

TEST(Value, HasATimeOfCreationAndRecordsByTag) {
  const Value value(both());
  EXPECT_EQ(value.created_at(), 77);
  EXPECT_EQ(value.find(kBucket)->header, (Header{4, 5, 6}));
  EXPECT_EQ(value.find(kBucket)->expires_at, 200);
  EXPECT_EQ(value.find(kBucket)->cells.size(), 0U);
}

TEST(Value, OwnsWhatItRead) {
  std::string bytes = both();
  const Value value(bytes);
  bytes.assign(bytes.size(), '\xff');
  EXPECT_EQ(value.find(kWindow)->cells[1], (Cell{5, 3}));
}

TEST(Value, TruncatedAtAnyByteIsAsIfThereWereNothing) {
  const std::string whole = both();
  const std::size_t after_creation = 8;
  const std::size_t after_window = whole.size() - 20 - 24;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Value value(whole.substr(0, size));
    EXPECT_FALSE(value.find(kBucket)) << size;
    EXPECT_EQ(value.find(kWindow).has_value(), size == after_window) << size;
    EXPECT_EQ(value.created_at(), size == after_creation || size == after_window ? 77 : 0) << size;
  }
}

TEST(Value, WithBytesTooManyIsAsIfThereWereNothing) {
  for (std::size_t more = 1; more < 20; ++more) {
    const Value value(both() + std::string(more, '\0'));
    EXPECT_EQ(value.created_at(), 0) << more;
    EXPECT_FALSE(value.find(kBucket)) << more;
  }
}

TEST(Value, ThatIsSomebodyElsesIsAsIfThereWereNothing) {
  for (const std::string& foreign :
       {std::string("42"), std::string("{\"count\": 42, \"until\": 1234567890123}"),
        std::string(1000, '\xff'), std::string(1000, 'x')}) {
    EXPECT_EQ(Value(foreign).created_at(), 0);
    EXPECT_FALSE(Value(foreign).find(kBucket));
  }
}

TEST(Value, ReadsNothingOutsideRandomBytes) {
  std::mt19937 random(5);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = both();
    for (int change = 0; change < 4; ++change)
      bytes[random() % bytes.size()] = static_cast<char>(random() % 4);
    bytes.resize(random() % (bytes.size() + 8));
    const Value value(bytes);
    for (const Tag tag : {kWindow, kBucket}) {
      const std::optional<FoundRecord> found = value.find(tag);
      ASSERT_LE(found ? found->cells.size() : 0, bytes.size() / sizeof(Cell));
    }
  }
}

TEST(Value, HasNoRecordThatIsTooShortForAHeader) {
  for (std::size_t size = 0; size < 24; ++size) {
    EXPECT_FALSE(Value(value_of(1, {record_of(kBucket, 200, std::string(size, '\0'))})).find(kBucket))
        << size;
  }
}

TEST(Value, HasNoRecordWithAPartOfACell) {
  for (std::size_t size = 24; size <= 24 + 32; ++size) {
    const Value value(value_of(1, {record_of(kBucket, 200, std::string(size, '\0'))}));
    EXPECT_EQ(value.find(kBucket).has_value(), (size - 24) % 16 == 0) << size;
  }
}

TEST(Value, HasNoRecordWhoseNumbersCannotBeOurs) {
  for (const std::int64_t wrong : {std::int64_t{-1}, INT64_MIN, kExact, INT64_MAX}) {
    for (const std::string& state : {packed({wrong, 5, 6}), packed({4, wrong, 6}), packed({4, 5, wrong})}) {
      EXPECT_FALSE(Value(value_of(1, {record_of(kBucket, 200, state)})).find(kBucket)) << wrong;
    }
  }
  EXPECT_TRUE(Value(value_of(1, {record_of(kBucket, 200, packed({0, kExact - 1, 0}))})).find(kBucket));
}

TEST(Value, HasNoRecordThatLastsForEver) {
  for (const Micros wrong : {Micros{-1}, INT64_MIN, kExact, INT64_MAX}) {
    EXPECT_FALSE(Value(value_of(1, {record_of(kBucket, wrong, packed({4, 5, 6}))})).find(kBucket)) << wrong;
    EXPECT_FALSE(Value(value_of(1, {record_of(kLockTag, wrong, packed({4, 5, 2}))})).lock()) << wrong;
  }
  EXPECT_TRUE(Value(value_of(1, {record_of(kBucket, kExact - 1, packed({4, 5, 6}))})).find(kBucket));
  EXPECT_TRUE(Value(value_of(1, {record_of(kLockTag, kExact - 1, packed({4, 5, 2}))})).lock());
}

TEST(Value, HasNoLockThatHoldsLongerThanItIsRemembered) {
  EXPECT_FALSE(Value(value_of(1, {record_of(kLockTag, 200, packed({4, 201, 2}))})).lock());
  EXPECT_TRUE(Value(value_of(1, {record_of(kLockTag, 200, packed({4, 200, 2}))})).lock());
}

}  // namespace
}  // namespace overlimit::values
