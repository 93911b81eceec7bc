#include "redis/plain/keyspace.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace overlimit::redis {
namespace {

TEST(Keyspaces, AreTheSameWhoeverAsks) {
  const Endpoint one;
  Endpoint other;
  other.username = "somebody else";
  const auto known = Keyspace::of(one, {});
  EXPECT_EQ(Keyspace::of(other, {}), known);
  other.database = 1;
  EXPECT_NE(Keyspace::of(other, {}), known);
  EXPECT_NE(Keyspace::of(one, {.prefix = "p"}), known);
  EXPECT_NE(Keyspace::of(one, {.hash_tag = HashTag::policy}), known);
  EXPECT_NE(Keyspace::of(one, {.hash_identifiers = true}), known);
}

TEST(Keyspaces, AreObservedFromTheFirstWhoKeepsAnythingOn) {
  class Keeper : public Observer {};
  const auto keyspace = Keyspace::of(Endpoint{}, {.prefix = "observed"});
  EXPECT_FALSE(keyspace->is_observed());
  EXPECT_EQ(keyspace->observer(Observer::Keeps::values), nullptr);
  Keeper& keeper = keyspace->observed_by<Keeper>(Observer::Keeps::values);
  EXPECT_EQ(&keyspace->observed_by<Keeper>(Observer::Keeps::values), &keeper);
  EXPECT_EQ(keyspace->observer(Observer::Keeps::values), &keeper);
  EXPECT_EQ(keyspace->observer(Observer::Keeps::leases), nullptr);
  EXPECT_TRUE(keyspace->is_observed());
}

}  // namespace
}  // namespace overlimit::redis
