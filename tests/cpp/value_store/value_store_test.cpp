#include <gtest/gtest.h>

#include <set>

#include "../calls.hpp"
#include "../limits.hpp"
#include "value_store/key_names.hpp"
#include "value_store/stored_value.hpp"
#include "values_in_map.hpp"

namespace overlimit::testing {
namespace {

const CompiledPolicy& three() {
  static const CompiledPolicy policy("p", {fixed_window(3, kMinute)});
  return policy;
}

TEST(StoredValue, IsRecognizedByAChecksumThatZlibHasToo) {
  EXPECT_EQ(values::crc32("123456789"), 0xcbf43926U);
  EXPECT_EQ(values::crc32("1234"), 0x9be3e0a3U);
  EXPECT_EQ(values::crc32("a"), 0xe8b7be43U);
  EXPECT_EQ(values::crc32(""), 0U);
}

TEST(StoredValue, DamagedInAnyBitIsAsIfThereWereNothing) {
  ValuesInMap store;
  hit(store, three(), {"a"}, 1);
  const std::string whole = store.values.at("p:a");
  EXPECT_EQ(left(store, three(), "a", 1), 2);
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    store.values["p:a"] = whole;
    store.values["p:a"][bit / 8] = static_cast<char>(whole[bit / 8] ^ (1 << bit % 8));
    ASSERT_EQ(left(store, three(), "a", 1), 3) << bit;
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    store.values["p:a"] = whole.substr(0, size);
    ASSERT_EQ(left(store, three(), "a", 1), 3) << size;
  }
}

TEST(ValueKeys, AreOfPrintableAsciiAndDifferIfAnythingDoes) {
  std::vector<std::string> identifiers{"",     "a",        "A",   "a ", " a", "a\n", std::string("a\0", 2),
                                       "\x7f", "\xc3\xa9", "a:b", "#"};
  for (const std::size_t size : {247U, 248U, 249U, 1000U}) identifiers.emplace_back(size, 'x');
  std::set<std::string> keys;
  for (const PolicyIdentity& policy :
       {PolicyIdentity("p"), PolicyIdentity("p.q"), PolicyIdentity::unnamed(), PolicyIdentity::unnamed()}) {
    for (const std::string& each : identifiers) {
      const std::string key = values::key_of(policy, each);
      EXPECT_LE(key.size(), values::kMaxKey);
      EXPECT_TRUE(std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; })) << key;
      const auto starts = values::starts_of(policy);
      EXPECT_TRUE(key.starts_with(starts[0]) || key.starts_with(starts[1])) << key;
      keys.insert(key);
    }
  }
  EXPECT_EQ(keys.size(), 4 * identifiers.size());
}

TEST(ValueStore, RefundsNothingToAKeyThatIsMadeAgainInTheSameMicrosecond) {
  ValuesInMap store;
  store.now = Instant(7);
  const Answer before = hit(store, three(), {"a"}, 7);
  reset(store, three(), {"a"});
  hit(store, three(), {"a"}, 7);
  refund(store, three(), {"a"}, before, 1, 7);
  EXPECT_EQ(left(store, three(), "a", 7), 2);
}

TEST(ValueStore, LeavesNothingOfWhoIsNeitherChargedNorLocked) {
  ValuesInMap store;
  EXPECT_EQ(peek(store, three(), {"a"}, 1).status(), Status::ok);
  EXPECT_EQ(hit(store, three(), {"a"}, 1, 4).status(), Status::never);
  EXPECT_EQ(hit(store, three(), {"a"}, 1, 0).status(), Status::ok);
  reset(store, three(), {"a"});
  store.unlock(call_of(charges_of(three(), {"a"}, 1), Instant(1)), {});
  EXPECT_TRUE(store.values.empty());
}

TEST(ValueStore, KeepsValuesALittleLongerThanTheyCount) {
  ValuesInMap store;
  hit(store, three(), {"a"}, 1);
  EXPECT_EQ(*store.last_expiry, kMinute + kMinute) << "by another clock of real time";
  const std::vector<Charge> charges = charges_of(three(), {"b"}, 1);
  store.now = Instant(1'000'000);
  ask(store, {charges});
  EXPECT_EQ(*store.last_expiry, kMinute + kSecond) << "by the time of the store";
  ask(store, {charges, Mode::consume, Instant(2'000'000), false});
  EXPECT_GE(*store.last_expiry, For(3'600'000'000)) << "by a clock that may stand still";
}

TEST(ValueStore, DecidesCallsTogetherAsFarAsTheirKeysFit) {
  ValuesInMap store;
  store.most = 10;
  std::vector<std::string> names;
  for (int i = 0; i < 25; ++i) names.push_back("id" + std::to_string(i));
  std::vector<Charge> charges;
  for (const std::string& name : names) charges.push_back({&three(), name});
  for (int i = 0; i < 70; ++i) charges.push_back({&three(), "same"});
  std::vector<Call> calls;
  for (const Charge& charge : charges) calls.push_back(call_of({&charge, 1}, 5));
  Columns columns(calls.size());
  std::vector<Instant> times(calls.size(), Instant(-1));
  std::vector<Basis> bases(calls.size());
  store.decide(calls, columns.rows(), times, bases, {});
  EXPECT_EQ(store.sizes, (std::vector<std::size_t>{10, 10, 6, 1})) << "the third has 5 + 59 calls";
  EXPECT_EQ(std::ranges::count(columns.status, Status::ok), 25 + 3) << "each sees those before it";
  EXPECT_EQ(std::ranges::count(times, Instant(5)), std::ptrdiff_t(calls.size()));
}

TEST(ValueStore, RefusesACallOfMoreKeysThanItTakesAndWritesNothing) {
  ValuesInMap store;
  store.most = 2;
  EXPECT_THROW(hit(store, three(), {"a", "b", "c"}, 1), CallerMistake);
  EXPECT_TRUE(store.values.empty());
  EXPECT_TRUE(hit(store, three(), {"a", "b"}, 1).allowed());
  EXPECT_NO_THROW(reset(store, three(), {"a", "b", "c"})) << "which is not one step";
  EXPECT_EQ(left(store, three(), "a", 1), 3);
}

TEST(ValueStore, ResetsAllKeysOfAPolicyAndNoOthers) {
  ValuesInMap store;
  const CompiledPolicy other("pp", {fixed_window(3, kMinute)});
  const std::string hashed(300, 'x');
  for (const CompiledPolicy* policy : {&three(), &other}) hit(store, *policy, {"a", hashed}, 1);
  store.reset_all(three().identity(), {});
  EXPECT_EQ(left(store, three(), "a", 1), 3);
  EXPECT_EQ(left(store, three(), hashed, 1), 3);
  EXPECT_EQ(left(store, other, hashed, 1), 2);
}

}  // namespace
}  // namespace overlimit::testing
