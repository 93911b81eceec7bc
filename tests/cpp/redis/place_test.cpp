#include "redis/plain/place.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace overlimit::redis {
namespace {

TEST(Places, AreTheSameWhoeverAsks) {
  const Endpoint one;
  Endpoint other;
  other.username = "somebody else";
  const auto known = Place::of(one, {});
  EXPECT_EQ(Place::of(other, {}), known);
  other.database = 1;
  EXPECT_NE(Place::of(other, {}), known);
  EXPECT_NE(Place::of(one, {.prefix = "p"}), known);
  EXPECT_NE(Place::of(one, {.hash_tag = HashTag::policy}), known);
  EXPECT_NE(Place::of(one, {.hash_identifiers = true}), known);
}

TEST(Places, AreObservedFromTheFirstWhoKeepsAnythingOn) {
  class Keeper : public Observer {};
  const auto place = Place::of(Endpoint{}, {.prefix = "observed"});
  EXPECT_FALSE(place->is_observed());
  EXPECT_EQ(place->observer(Observer::Keeps::values), nullptr);
  Keeper& keeper = place->observed_by<Keeper>(Observer::Keeps::values);
  EXPECT_EQ(&place->observed_by<Keeper>(Observer::Keeps::values), &keeper);
  EXPECT_EQ(place->observer(Observer::Keeps::values), &keeper);
  EXPECT_EQ(place->observer(Observer::Keeps::leases), nullptr);
  EXPECT_TRUE(place->is_observed());
}

}  // namespace
}  // namespace overlimit::redis
